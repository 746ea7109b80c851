"""Attention cores (projections are GEMMs).

Prefill: 2 * heads * (qk_dim + v_dim) * pairs flops, with pairs the number of causal query-key pairs, against
the bytes of queries, outputs and the keys and values read. Decode: the KV cache streamed once, against the same flops.
"""

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    MEMORY_EFFICIENCY,
    OP_DECODE_GQA,
    OP_DECODE_MLA,
    OP_LINEAR_ATTENTION,
    OP_PREFILL_GQA,
    OP_PREFILL_MLA,
    OVERHEAD_US,
)
from kernels.jit import inlined, kernel
from kernels.units import BYTES_PER_US_PER_GB_S, FLOP_PER_US_PER_TFLOPS


@inlined
def causal_pairs(new_tokens, prior_tokens, window):
    """Query-key pairs of one sequence that adds `new_tokens` to `prior_tokens`, under a window (0 = none).

    Query i (1-based) sees min(prior + i, window) keys.
    """
    full = new_tokens * prior_tokens + 0.5 * new_tokens * (new_tokens + 1.0)
    if window <= 0.0 or prior_tokens + new_tokens <= window:
        return full
    growing = max(0.0, min(new_tokens, window - prior_tokens))
    return growing * prior_tokens + 0.5 * growing * (growing + 1.0) + (new_tokens - growing) * window


@kernel
def prefill_attention_us(
    n_seqs, new_tokens, prior_tokens, heads, kv_heads, qk_dim, v_dim, window, kv_width, mla, p, c
):
    """Time of one layer's prefill attention on one rank, us.

    `n_seqs` sequences each add `new_tokens` (mean) after `prior_tokens` (mean) cached ones; `heads` and
    `kv_heads` are the rank's own; `kv_width` bytes per cached element; `mla` non-zero for latent attention,
    computed unabsorbed (`kv_heads` = `heads`).
    """
    if n_seqs <= 0.0 or new_tokens <= 0.0:
        return 0.0
    op = OP_PREFILL_MLA if mla > 0.0 else OP_PREFILL_GQA
    pairs = n_seqs * causal_pairs(new_tokens, prior_tokens, window)
    flops = 2.0 * heads * (qk_dim + v_dim) * pairs
    keys = prior_tokens + new_tokens
    if window > 0.0:
        keys = min(keys, window + new_tokens)
    n_bytes = n_seqs * (
        2.0 * new_tokens * heads * (qk_dim + v_dim) + keys * kv_heads * (qk_dim + v_dim) * kv_width
    )
    compute_us = flops / (p.tflops_bf16 * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    return c[op, OVERHEAD_US] + max(compute_us, memory_us)


@kernel
def decode_attention_us(
    n_seqs, context_tokens, queries, heads, kv_heads, qk_dim, v_dim, kv_token_bytes, mla, p, c
):
    """Time of one layer's decode attention on one rank, us.

    `n_seqs` sequences of `queries` query tokens each (1 + draft tokens) read `context_tokens` cached tokens in
    all; `kv_token_bytes` is what one cached token of this layer occupies on this rank. MLA is computed absorbed:
    one KV head of qk_dim = rank + rope, v_dim = rank.
    """
    if n_seqs <= 0.0:
        return 0.0
    op = OP_DECODE_MLA if mla > 0.0 else OP_DECODE_GQA
    flops = 2.0 * heads * (qk_dim + v_dim) * context_tokens * queries
    n_bytes = context_tokens * kv_token_bytes + 2.0 * n_seqs * queries * heads * (qk_dim + v_dim)
    compute_us = flops / (p.tflops_bf16 * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    return c[op, OVERHEAD_US] + max(compute_us, memory_us)


@kernel
def linear_attention_us(n_seqs, new_tokens, v_heads, k_dim, v_dim, state_width, p, c):
    """Time of one linear-attention layer's core on one rank, us.

    Per token and value head the state (k_dim x v_dim) is decayed, updated and read (6 flops per element); each
    sequence reads and writes its state once per step.
    """
    if n_seqs <= 0.0 or new_tokens <= 0.0:
        return 0.0
    op = OP_LINEAR_ATTENTION
    flops = 6.0 * n_seqs * new_tokens * v_heads * k_dim * v_dim
    n_bytes = 2.0 * n_seqs * v_heads * k_dim * v_dim * state_width + 4.0 * n_seqs * new_tokens * v_heads * (
        k_dim + v_dim
    )
    compute_us = flops / (p.tflops_bf16 * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    return c[op, OVERHEAD_US] + max(compute_us, memory_us)
