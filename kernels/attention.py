"""Attention cores (projections are GEMMs).

Prefill of s new tokens, with `pairs` their causal query-key pairs:

    s'      = sqrt(s^2 + s tile + tile^2)
    compute = 2 (heads n (pairs s'/s + s' tile/2) + wave * 128 * keys) sqrt((qk + v)^2 + softmax^2) / (peak * ec)
    memory  = n (s heads (qk + v) 2 + kv_passes * keys kv_heads (qk + v) w) / (bandwidth * em)

Decode, with C the context of all n sequences and K = C * bytes per cached token / (bandwidth * em):

    memory  = sqrt(K^2 + (item * n kv_heads)^2) + qo_passes * n queries heads (qk + v) 2 / (bandwidth * em)
    compute = 2 (heads queries + pad * kv_heads) (qk + v) C / (peak * ec)

and t = overhead + overlapped(compute, memory), in decode + serial * C / (1000 n). `tile`, `pad` are rows that matrix
tiles compute for nothing, `softmax` the exponentials of a pair in units of head dimensions (partly hidden behind its
products), `wave` the idle part of a machine that one long sequence cannot fill, `item` what one sequence and KV head
costs however short. An 8-bit KV cache runs other kernels and has rows of its own. Fitted per engine: docs/operators.md.
"""

import numpy as np

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    DECODE_ITEM_US,
    DECODE_PAD_ROWS,
    DECODE_QO_PASSES,
    DECODE_US_PER_KTOKEN,
    EXPOSED,
    LINEAR_TILE_TOKENS,
    LINEAR_US_PER_KTOKEN,
    MEMORY_EFFICIENCY,
    OP_DECODE_GQA,
    OP_DECODE_GQA_FP8_KV,
    OP_DECODE_MLA,
    OP_DECODE_MLA_FP8_KV,
    OP_LINEAR_DECODE,
    OP_LINEAR_PREFILL,
    OP_PREFILL_GQA,
    OP_PREFILL_GQA_FP8_KV,
    OP_PREFILL_MLA,
    OP_PREFILL_MLA_FP8_KV,
    OVERHEAD_US,
    PREFILL_KV_PASSES,
    PREFILL_SOFTMAX_DIM,
    PREFILL_TILE_TOKENS,
    PREFILL_WAVE_TILES,
)
from kernels.jit import inlined, kernel
from kernels.peaks import clock_ratio, overlapped_us, padded_rows
from kernels.units import BYTES_PER_US_PER_GB_S, FLOP_PER_US_PER_TFLOPS

NARROW_KV_BYTES = 1.5
"""A KV cache with fewer bytes per element runs the kernels fitted on 8-bit caches."""

BACKEND_COMPUTE = np.array([0.85, 1.0, 0.90, 1.10])
"""Compute time by attention library (aiter, triton, ck, hip) over Triton's (the compatible tool's factors)."""


@inlined
def backend_factor(p):
    """Compute time of the attention core over that of the kernels behind the fitted times."""
    return 1.0 if np.isnan(p.attention_backend) else BACKEND_COMPUTE[int(p.attention_backend)]


FUSED_TOKENS = 8.0
"""New tokens of a sequence up to which linear attention runs as one fused recurrence."""


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


@inlined
def attention_tflops(narrow, p):
    """Peak of the attention math, TFLOP/s: 8-bit caches run it in fp8 where the machine can.

    The kernel library scales it, and so does a clock that the user assumes.
    """
    peak = p.tflops_bf16
    if narrow and not np.isnan(p.tflops_fp8):
        peak = p.tflops_fp8
    return peak * clock_ratio(p) / backend_factor(p)


@inlined
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
    narrow = kv_width < NARROW_KV_BYTES
    if narrow:
        op = OP_PREFILL_MLA_FP8_KV if mla > 0.0 else OP_PREFILL_GQA_FP8_KV
    else:
        op = OP_PREFILL_MLA if mla > 0.0 else OP_PREFILL_GQA
    tile = c[op, PREFILL_TILE_TOKENS]
    rows = padded_rows(new_tokens, tile)
    pairs = causal_pairs(new_tokens, prior_tokens, window) * (rows / new_tokens) + 0.5 * rows * tile
    keys = prior_tokens + new_tokens
    last_keys = keys
    if window > 0.0:
        last_keys = min(keys, window)
        keys = min(keys, window + new_tokens)
    work = heads * n_seqs * pairs + c[op, PREFILL_WAVE_TILES] * 128.0 * last_keys
    dims = qk_dim + v_dim
    softmax_dims = c[op, PREFILL_SOFTMAX_DIM]
    flops = 2.0 * work * np.sqrt(dims * dims + softmax_dims * softmax_dims)
    qo_bytes = 2.0 * new_tokens * heads * (qk_dim + v_dim)
    kv_bytes = keys * kv_heads * (qk_dim + v_dim) * kv_width
    n_bytes = n_seqs * (qo_bytes + c[op, PREFILL_KV_PASSES] * kv_bytes)
    compute_us = flops / (attention_tflops(narrow, p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    return c[op, OVERHEAD_US] + overlapped_us(compute_us, memory_us, c[op, EXPOSED])


@inlined
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
    elements = qk_dim if mla > 0.0 else kv_heads * (qk_dim + v_dim)
    narrow = kv_token_bytes < NARROW_KV_BYTES * elements
    if narrow:
        op = OP_DECODE_MLA_FP8_KV if mla > 0.0 else OP_DECODE_GQA_FP8_KV
    else:
        op = OP_DECODE_MLA if mla > 0.0 else OP_DECODE_GQA
    rows = heads * queries + c[op, DECODE_PAD_ROWS] * kv_heads
    flops = 2.0 * rows * (qk_dim + v_dim) * context_tokens
    compute_us = flops / (attention_tflops(narrow, p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    bytes_per_us = p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY]
    stream_us = context_tokens * kv_token_bytes / bytes_per_us
    items_us = c[op, DECODE_ITEM_US] * n_seqs * kv_heads
    qo_bytes = 2.0 * n_seqs * queries * heads * (qk_dim + v_dim)
    memory_us = (
        np.sqrt(stream_us * stream_us + items_us * items_us)
        + c[op, DECODE_QO_PASSES] * qo_bytes / bytes_per_us
    )
    serial_us = c[op, DECODE_US_PER_KTOKEN] * 1e-3 * context_tokens / n_seqs
    return c[op, OVERHEAD_US] + overlapped_us(compute_us, memory_us, c[op, EXPOSED]) + serial_us


@kernel
def linear_attention_us(n_seqs, new_tokens, v_heads, k_dim, v_dim, state_width, p, c):
    """Time of one linear-attention layer's core on one rank, us.

    Per token and value head the state (k_dim x v_dim) is decayed, updated and read (6 flops per element); each
    sequence reads and writes its state once per step. Up to FUSED_TOKENS new tokens run as one fused recurrence;
    prompts go through kernels of whole chunks whose recurrence is serial within one sequence:

        t = overhead + overlapped(compute(rows padded to a chunk), memory) + serial * s / 1000
    """
    if n_seqs <= 0.0 or new_tokens <= 0.0:
        return 0.0
    op = OP_LINEAR_DECODE if new_tokens <= FUSED_TOKENS else OP_LINEAR_PREFILL
    rows = padded_rows(new_tokens, c[op, LINEAR_TILE_TOKENS])
    flops = 6.0 * n_seqs * rows * v_heads * k_dim * v_dim
    n_bytes = 2.0 * n_seqs * v_heads * k_dim * v_dim * state_width + 4.0 * n_seqs * new_tokens * v_heads * (
        k_dim + v_dim
    )
    compute_us = flops / (p.tflops_bf16 * clock_ratio(p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    serial_us = c[op, LINEAR_US_PER_KTOKEN] * 1e-3 * new_tokens
    return c[op, OVERHEAD_US] + overlapped_us(compute_us, memory_us, c[op, EXPOSED]) + serial_us
