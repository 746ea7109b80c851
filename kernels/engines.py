"""What differs by serving engine and version: codes, and defaults where a setting is not given.

Engine codes are positions in the registry's list. Versions are major * 10000 + minor * 100 + patch (0.19.0 is
1900); not given means the newest.
"""

import numpy as np

from kernels.auto import default_to, given
from kernels.jit import inlined, kernel
from kernels.units import GIB, MIB

VLLM, SGLANG, TRTLLM, ATOM = range(4)
GRAPH_NONE, GRAPH_PIECEWISE, GRAPH_FULL = range(3)

NEWEST = 1e9
VLLM_V1 = 800.0
"""vLLM 0.8.0: first release on the V1 engine (own profiling run, chunked prefill always on)."""
VLLM_GRAPHS_COUNTED = 2100.0
"""vLLM 0.21.0: the profiler subtracts a CUDA-graph estimate and the default fraction rises from 0.90 to 0.92."""

AMPERE = 0
"""Code of the family whose large GPUs (A100) keep vLLM's small token budget: a larger one costs them throughput."""
LARGE_GPU_GIB = 70.0
"""Memory from which vLLM serves with 8192 tokens and 1024 sequences per step; below it 2048 and 256."""
SGLANG_TIERS_GIB = np.array([34.0, 59.0, 156.0])
"""GPU memory at which SGLang's defaults change (its tiers of 35, 60 and 160 thousand MiB)."""
SGLANG_CHUNK_TOKENS = np.array([2048.0, 4096.0, 8192.0, 16384.0])
SGLANG_GRAPH_BATCH = np.array([[24.0, 32.0, 256.0, 512.0], [80.0, 160.0, 512.0, 512.0]])
"""Largest captured decode batch, for groups below four GPUs and from four on, by memory tier."""

DEFAULT_TOKEN_BUDGET = np.array([8192.0, 8192.0, 8192.0, 16384.0])
"""vLLM V1 online serving on 80 GB-class GPUs, SGLang chunked_prefill_size, TensorRT-LLM max_num_tokens."""
DEFAULT_MAX_SEQS = np.array([1024.0, 4096.0, 2048.0, 1024.0])
"""vLLM V1 on 80 GB-class GPUs (256 before 0.9), SGLang max_running_requests when memory allows, TensorRT-LLM max_batch_size."""
EXCLUSIVE_PREFILL = np.array([0.0, 1.0, 0.0, 0.0])
"""SGLang runs prefill batches on their own unless enable_mixed_chunk is set."""


@inlined
def engine_default(table, engine):
    """The engine's entry of a per-engine table."""
    return table[int(engine)]


@inlined
def version(p):
    """Engine version of the record, the newest where it is not given."""
    return default_to(p.engine_version, NEWEST)


@inlined
def longest_request_tokens(p):
    """`max_model_len`, or the longest sequence of the workload."""
    return default_to(p.max_model_len, p.isl + p.osl)


@inlined
def is_small_vllm_gpu(p):
    """Whether vLLM takes its small defaults: less than 70 GiB, or an A100."""
    return p.engine == VLLM and (p.hbm_gib < LARGE_GPU_GIB or p.family == AMPERE)


@inlined
def sglang_tier(p):
    return np.searchsorted(SGLANG_TIERS_GIB, p.hbm_gib, side="right")


@inlined
def default_token_budget(p):
    """Token budget of an engine step where none is given, by engine, version and GPU memory."""
    if p.engine == VLLM and version(p) < VLLM_V1:
        # Before V1, chunked prefill (and its budget of 2048) was on only for contexts beyond 32k.
        return max(longest_request_tokens(p), 2048.0) if longest_request_tokens(p) <= 32768.0 else 2048.0
    if is_small_vllm_gpu(p):
        return 2048.0
    if p.engine == SGLANG:
        return SGLANG_CHUNK_TOKENS[sglang_tier(p)]
    return engine_default(DEFAULT_TOKEN_BUDGET, p.engine)


@inlined
def default_max_seqs(p):
    """Sequences that may run at once where no limit is given."""
    if is_small_vllm_gpu(p) or (p.engine == VLLM and version(p) < VLLM_V1):
        return 256.0
    return engine_default(DEFAULT_MAX_SEQS, p.engine)


@inlined
def sglang_static_fraction(p):
    """SGLang's default mem_fraction_static: what is left after a reserve for activations and graphs.

    reserve MiB = 512 + 1.5 max(chunk, 2048) + 2 graph_batch + 128 tp pp (+ 3 graph_batch dp under attention DP,
    1.5 more above 300), at least 10 GiB on GPUs above 60 GiB (SGLang 0.5, server arguments).
    """
    total_mib = p.hbm_gib * GIB / MIB
    wide = 1 if p.tp * p.attention_dp >= 4.0 else 0
    graph_batch = SGLANG_GRAPH_BATCH[wide, sglang_tier(p)]
    chunk = default_to(p.max_num_batched_tokens, default_token_budget(p))
    reserve = 512.0 + 1.5 * max(chunk, 2048.0) + 2.0 * graph_batch + 128.0 * p.tp * p.attention_dp * p.pp
    if p.attention_dp > 1.0:
        reserve += (4.5 if graph_batch > 300.0 else 3.0) * graph_batch * p.attention_dp
    if p.hbm_gib > 60.0:
        reserve = max(reserve, 10.0 * 1024.0)
    return max(0.05, 1.0 - reserve / total_mib)


@kernel
def memory_fraction(p):
    """Share of GPU memory that the engine may claim: as given, else the engine's default.

    vLLM 0.90 up to 0.20 and 0.92 from 0.21 on; SGLang by reserve; TensorRT-LLM 0.90 of what is free; ATOM 0.90.
    """
    if given(p.gpu_memory_utilization):
        return p.gpu_memory_utilization
    if p.engine == VLLM:
        return 0.92 if version(p) >= VLLM_GRAPHS_COUNTED else 0.90
    if p.engine == SGLANG:
        return sglang_static_fraction(p)
    return 0.90
