"""Costs of a step that no kernel's time holds: launches, scheduler, sampling passes."""

import numpy as np

from kernels.auto import default_to, given
from kernels.coefficients import (
    HOST_LAYER_US,
    HOST_PROMPT_TOKEN_US,
    HOST_PROMPT_US,
    HOST_REQUEST_US,
    HOST_SEQUENCE_US,
    HOST_STEP_US,
    HOST_STREAM_US,
    OP_HOST,
)
from kernels.engines import GRAPH_FULL, GRAPH_NONE
from kernels.jit import inlined, kernel
from kernels.nearby import nearby_request
from kernels.units import US_PER_MS

STEP_OVERHEAD_US = np.array([40.0, 8.0, 3.0])
"""Per-step overhead by graph mode where nothing was fitted (spec of the compatible tool)."""
FUSED_KERNELS = 0.7
FRAMING_KERNELS = 6.0
"""Kernels per step outside the layers: embedding, final norm, head, sampling."""


@inlined
def sampling_passes(p):
    """Passes over the logits: 2, one more for a temperature, one more for top-k or top-p."""
    passes = 2.0
    if p.sampling_temperature != 0.0 and p.sampling_temperature != 1.0:
        passes += 1.0
    if p.sampling_top_k > 0.0 or (p.sampling_top_p > 0.0 and p.sampling_top_p < 1.0):
        passes += 1.0
    return passes


@kernel
def layer_kernels(p):
    """Kernels of one layer: 4 framing + 4 attention (9 for MLA) + 3 dense or 7 MoE + 3 shared + 4 indexer.

    A mixture of dense and MoE layers counts its mean.
    """
    if given(p.kernels_per_layer):
        return p.kernels_per_layer
    moe_share = p.n_moe_layers / p.n_layers
    kernels = 4.0 + (9.0 if p.kv_lora_rank > 0.0 else 4.0)
    kernels += 3.0 * (1.0 - moe_share) + 7.0 * moe_share
    if p.shared_ffn_dim > 0.0:
        kernels += 3.0 * moe_share
    return kernels + 4.0 * p.n_sparse_layers / p.n_layers


@inlined
def fused_factor(p):
    """0.7 with fused kernels, else 1."""
    return FUSED_KERNELS if p.fused_kernels > 0.0 else 1.0


@inlined
def kernel_floor_us(mixed, p, d):
    """Launch-bound floor of a step without graphs: (layers x kernels + framing) x launch latency, us."""
    if d.graph_mode != GRAPH_NONE or p.kernel_launch_latency_us <= 0.0:
        return 0.0
    return (p.n_layers * layer_kernels(p) + FRAMING_KERNELS) * p.kernel_launch_latency_us * fused_factor(p)


@inlined
def host_us(decode_seqs, prefill_seqs, prefill_tokens, p, d, c):
    """Host time per step, us: fixed + per sequence + per layer + per prompt and prompt token + occupancy.

    A given decode_step_overhead_us replaces the fixed part; graph modes below full add the difference of their
    presets. Occupancy is the least time each kernel holds the device.
    """
    if given(p.decode_step_overhead_us):
        fixed = p.decode_step_overhead_us
    else:
        fixed = c[OP_HOST, HOST_STEP_US]
        if d.graph_mode < GRAPH_FULL:
            fixed += STEP_OVERHEAD_US[int(d.graph_mode)] - STEP_OVERHEAD_US[GRAPH_FULL]
    t = fixed * fused_factor(p) + c[OP_HOST, HOST_LAYER_US] * p.n_layers
    t += c[OP_HOST, HOST_SEQUENCE_US] * decode_seqs
    t += c[OP_HOST, HOST_PROMPT_US] * prefill_seqs + c[OP_HOST, HOST_PROMPT_TOKEN_US] * prefill_tokens
    occupancy = default_to(p.decode_kernel_occupancy_us, 0.0)
    if occupancy > 0.0:
        t += (p.n_layers * layer_kernels(p) + FRAMING_KERNELS) * occupancy * fused_factor(p)
    return t


@kernel
def request_us(streams, p, c):
    """Host time of a request before its prefill, us: as given, else fitted: fixed + per response that streams meanwhile.

    One event loop accepts, tokenises and writes the tokens of all responses.
    """
    if given(p.request_overhead_ms):
        return p.request_overhead_ms * US_PER_MS
    fitted = c[OP_HOST, HOST_REQUEST_US] + c[OP_HOST, HOST_STREAM_US] * streams
    return fitted * nearby_request(streams, p, c)


@inlined
def front_end_us(streams, isl, p, c):
    """Time from a request's arrival until it can be scheduled, us: host time and tokenisation."""
    return request_us(streams, p, c) + p.tokenize_overhead_us * isl


@kernel
def loop_front_us(streams, isl, p, c):
    """What of it the replacements of a closed loop meet each other in, us.

    Requests of one length end together, so that what the front end holds back decides who is prefilled with whom
    (kernels.batching.bunched). Runs whose lengths spread show no such bunches (docs/decisions.md): nothing there.
    """
    if p.length_range < 1.0 or p.decode_spread > 0.0:
        return 0.0
    return front_end_us(streams, isl, p, c)
