"""Memory account of a deployment: weights, reserves, KV pool, capacity, verdict.

The KV pool of one GPU, by engine (all in bytes, total = physical memory):

    vllm, atom   total x fraction - weights - activation peak - non-torch - buffers (- graphs, vllm from 0.21 on)
    sglang       (total - context - buffers) x fraction - weights
    trtllm       (total - weights - activation peak - non-torch - buffers - graphs) x fraction

Under pipeline parallelism the columns are those of the stage that can hold the fewest tokens: it sets the capacity
of all.
"""

import numpy as np

from kernels import reasons
from kernels.auto import given
from kernels.engines import TRTLLM, memory_fraction
from kernels.jit import inlined, kernel
from kernels.kv_cache import kv_capacity
from kernels.offload import offload_tokens
from kernels.reserves import (
    activation_peak_bytes,
    comm_buffer_bytes,
    graph_bytes,
    is_static,
    non_torch_bytes,
)
from kernels.stages import FIRST, LAST, MIDDLE, stage_exists, stage_layers
from kernels.units import GIB
from kernels.weights import stage_weights

HIGHEST_FRACTION = 0.97
"""Memory fraction to which a default is raised at most: a context and fragmentation need the rest."""
FRACTION_MARGIN = 0.02
"""What a raised fraction leaves above the smallest that holds one request."""


@inlined
def reserved_bytes(p, d):
    """What the pool formula takes beside weights."""
    outside = d.non_torch_bytes + d.comm_buffer_bytes
    return outside if is_static(p) else outside + d.activation_bytes + d.graph_bytes


@inlined
def pool_bytes(p, d):
    """KV pool of the GPU whose weights and reserves are in `d`; negative where they do not fit."""
    total = p.hbm_gib * GIB
    reserved = reserved_bytes(p, d)
    if is_static(p):
        return (total - reserved) * d.memory_fraction - d.weights_bytes
    if p.engine == TRTLLM:
        return (total - d.weights_bytes - reserved) * d.memory_fraction
    return total * d.memory_fraction - d.weights_bytes - reserved


@inlined
def smallest_fraction(p, d):
    """Smallest memory fraction whose pool holds one longest request; above 1 where none does."""
    total = p.hbm_gib * GIB
    reserved = reserved_bytes(p, d)
    request = d.kv_bytes_longest_request
    if is_static(p):
        return (d.weights_bytes + request) / (total - reserved)
    if p.engine == TRTLLM:
        free = total - d.weights_bytes - reserved
        return request / free if free > 0.0 else 9.0
    return (d.weights_bytes + reserved + request) / total


@kernel
def stage_account(stage, p, d):
    """Fill the memory columns of `d` for a GPU of one kind of stage."""
    stage_weights(stage, p, d)
    d.activation_bytes = activation_peak_bytes(stage, p, d)
    d.non_torch_bytes = non_torch_bytes(p)
    d.comm_buffer_bytes = comm_buffer_bytes(p)
    d.graph_bytes = graph_bytes(stage, p, d)
    d.usable_bytes = p.hbm_gib * GIB * (1.0 if p.engine == TRTLLM else d.memory_fraction)
    d.kv_pool_bytes = pool_bytes(p, d)
    kv_capacity(d.kv_pool_bytes, stage_layers(stage, p) / p.n_layers, p, d)


@inlined
def requests_held(d):
    """Longest requests that the stage's pool holds, negative where weights do not fit: compares stages."""
    return d.kv_pool_bytes / max(d.kv_bytes_longest_request, 1.0)


@kernel
def tightest_stage(p, d):
    """The kind of stage that holds the fewest requests."""
    if p.pp <= 1.0:
        return LAST
    tightest = LAST
    fewest = np.inf
    for stage in (LAST, MIDDLE, FIRST):
        if stage_exists(stage, p):
            stage_account(stage, p, d)
            held = requests_held(d)
            if held < fewest:
                fewest = held
                tightest = stage
    return tightest


@kernel
def memory_reason(p, d):
    """Whether the account closes: 0, weights (with reserves) do not fit, or the KV pool is below one request."""
    if d.kv_pool_bytes <= 0.0:
        return reasons.WEIGHTS_DO_NOT_FIT
    if d.max_concurrency < 1.0:
        return reasons.KV_BELOW_ONE_REQUEST
    return reasons.OK


@kernel
def memory_account(p, d):
    """Fill the byte and capacity columns of `d`; `d.reason` says whether one longest request fits.

    Reads the shard widths, formats, parameter counts and scheduler settings that `kernels.resolve` derived before.
    A fraction that is not given is the engine's default, raised where only more holds one longest request: people
    who run DeepSeek-R1 on four B200 do so.
    """
    d.memory_fraction = memory_fraction(p)
    stage = tightest_stage(p, d)
    stage_account(stage, p, d)
    d.min_memory_fraction = smallest_fraction(p, d)
    if not given(p.gpu_memory_utilization) and d.memory_fraction < d.min_memory_fraction <= HIGHEST_FRACTION:
        d.memory_fraction = min(HIGHEST_FRACTION, d.min_memory_fraction + FRACTION_MARGIN)
        stage_account(stage, p, d)
    d.kv_capacity_tokens_total = d.kv_capacity_tokens * p.attention_dp
    d.kv_offload_tokens = offload_tokens(p, d)
    d.reason = memory_reason(p, d) if p.enforce_memory > 0.0 else reasons.OK
