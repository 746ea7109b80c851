"""Attention cores: equations, limits, order in tokens and context."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import coefficients as k
from kernels.attention import (
    FUSED_TOKENS,
    causal_pairs,
    decode_attention_us,
    linear_attention_us,
    prefill_attention_us,
)
from kernels.coefficients import roofline_coefficients
from sweep.calibrate.operators import hardware_record
from sweep.catalog.fitted import load_fitted

H200 = hardware_record("h200_sxm")
ROOFLINE = roofline_coefficients()
FITTED = load_fitted(("h200_sxm",)).coefficients[0]

sequences = st.integers(1, 256).map(float)
tokens = st.integers(1, 16384).map(float)
priors = st.integers(0, 65536).map(float)
windows = st.sampled_from([0.0, 128.0, 4096.0])
kv_widths = st.sampled_from([1.0, 2.0])
heads = st.sampled_from([(32.0, 8.0), (8.0, 1.0), (64.0, 8.0), (16.0, 16.0)])
engines = st.integers(0, 3)


def pairs_twin(new, prior, window):
    """Count the query-key pairs one query at a time."""
    keys = prior + np.arange(1, int(new) + 1)
    return float(np.sum(np.minimum(keys, window) if window > 0 else keys))


def prefill_limit_us(n, new, prior, q, kv, dim, window, width):
    """Roofline of grouped-query prefill on the H200."""
    peak = H200.tflops_fp8 if width < 1.5 else H200.tflops_bf16
    flops = 4.0 * q * dim * n * pairs_twin(new, prior, window)
    keys = min(prior + new, window + new) if window > 0 else prior + new
    n_bytes = n * (4.0 * new * q * dim + 2.0 * keys * kv * dim * width)
    return max(flops / (peak * 1e6), n_bytes / (H200.hbm_gb_s * 1e3))


def decode_limit_us(n, context, q, kv, dim, width):
    """Roofline of grouped-query decode on the H200; `context` of one sequence."""
    peak = H200.tflops_fp8 if width < 1.5 else H200.tflops_bf16
    flops = 4.0 * q * dim * n * context
    n_bytes = n * (2.0 * context * kv * dim * width + 4.0 * q * dim)
    return max(flops / (peak * 1e6), n_bytes / (H200.hbm_gb_s * 1e3))


def decode_us(n, context, q, kv, dim, width, c, queries=1.0):
    return decode_attention_us(n, n * context, queries, q, kv, dim, dim, 2.0 * kv * dim * width, 0.0, H200, c)


def decode_twin_us(n, context, q, kv, dim, row):
    """The docstring's decode equation for a 16-bit cache, in numpy."""
    rate = H200.hbm_gb_s * 1e3 * row[k.MEMORY_EFFICIENCY]
    compute = 4.0 * (q + row[k.DECODE_PAD_ROWS] * kv) * dim * n * context
    compute /= H200.tflops_bf16 * 1e6 * row[k.COMPUTE_EFFICIENCY]
    memory = np.hypot(4.0 * n * context * kv * dim / rate, row[k.DECODE_ITEM_US] * n * kv)
    memory += row[k.DECODE_QO_PASSES] * 4.0 * n * q * dim / rate
    long, short = max(compute, memory), min(compute, memory)
    serial = row[k.DECODE_US_PER_KTOKEN] * context / 1000.0
    return row[k.OVERHEAD_US] + long + row[k.EXPOSED] * short**2 / long + serial


def prefill_twin_us(n, new, prior, q, kv, dim, row):
    """The docstring's prefill equation for a 16-bit cache without a window, in numpy."""
    tile = row[k.PREFILL_TILE_TOKENS]
    rows = np.sqrt(new**2 + new * tile + tile**2)
    keys = prior + new
    work = q * n * (pairs_twin(new, prior, 0.0) * rows / new + rows * tile / 2.0)
    work += row[k.PREFILL_WAVE_TILES] * 128.0 * keys
    compute = 2.0 * work * np.hypot(2.0 * dim, row[k.PREFILL_SOFTMAX_DIM])
    compute /= H200.tflops_bf16 * 1e6 * row[k.COMPUTE_EFFICIENCY]
    memory = n * (4.0 * new * q * dim + row[k.PREFILL_KV_PASSES] * 4.0 * keys * kv * dim)
    memory /= H200.hbm_gb_s * 1e3 * row[k.MEMORY_EFFICIENCY]
    long, short = max(compute, memory), min(compute, memory)
    return row[k.OVERHEAD_US] + long + row[k.EXPOSED] * short**2 / long


@given(st.integers(1, 600).map(float), priors, windows)
def test_pairs_are_counted_query_by_query(new, prior, window):
    assert causal_pairs(new, prior, window) == pytest.approx(pairs_twin(new, prior, window), rel=1e-12)


@given(sequences, st.integers(1, 600).map(float), priors, heads, windows, kv_widths)
def test_neutral_prefill_is_the_roofline(n, new, prior, heads, window, width):
    q, kv = heads
    time = prefill_attention_us(n, new, prior, q, kv, 128.0, 128.0, window, width, 0.0, H200, ROOFLINE)
    assert time == pytest.approx(prefill_limit_us(n, new, prior, q, kv, 128.0, window, width), rel=1e-12)


@given(sequences, tokens, heads, kv_widths)
def test_neutral_decode_is_the_roofline(n, context, heads, width):
    time = decode_us(n, context, *heads, 128.0, width, ROOFLINE)
    assert time == pytest.approx(decode_limit_us(n, context, *heads, 128.0, width), rel=1e-12)


@given(sequences, st.integers(1, 600).map(float), priors, heads)
def test_prefill_matches_its_equation(n, new, prior, heads):
    time = prefill_attention_us(n, new, prior, *heads, 128.0, 128.0, 0.0, 2.0, 0.0, H200, FITTED[0])
    twin = prefill_twin_us(n, new, prior, *heads, 128.0, FITTED[0, k.OP_PREFILL_GQA])
    assert time == pytest.approx(twin, rel=1e-12)


@given(sequences, tokens, heads)
def test_decode_matches_its_equation(n, context, heads):
    time = decode_us(n, context, *heads, 128.0, 2.0, FITTED[0])
    assert time == pytest.approx(
        decode_twin_us(n, context, *heads, 128.0, FITTED[0, k.OP_DECODE_GQA]), rel=1e-12
    )


@given(sequences, st.integers(1, 600).map(float), priors, heads, kv_widths, engines)
def test_fitted_prefill_is_never_below_the_roofline(n, new, prior, heads, width, engine):
    q, kv = heads
    time = prefill_attention_us(n, new, prior, q, kv, 128.0, 128.0, 0.0, width, 0.0, H200, FITTED[engine])
    assert time >= prefill_limit_us(n, new, prior, q, kv, 128.0, 0.0, width)


@given(sequences, tokens, heads, kv_widths, engines)
def test_fitted_decode_is_never_below_the_roofline(n, context, heads, width, engine):
    time = decode_us(n, context, *heads, 128.0, width, FITTED[engine])
    assert time >= decode_limit_us(n, context, *heads, 128.0, width)


@given(sequences, tokens, heads, kv_widths, engines)
def test_longer_context_never_decodes_faster(n, context, heads, width, engine):
    shorter = decode_us(n, context, *heads, 128.0, width, FITTED[engine])
    assert decode_us(n, context + 1.0, *heads, 128.0, width, FITTED[engine]) >= shorter


@given(sequences, tokens, priors, heads, kv_widths, engines)
def test_more_prompt_never_takes_less_time(n, new, prior, heads, width, engine):
    def time(new, prior):
        return prefill_attention_us(
            n, new, prior, *heads, 128.0, 128.0, 0.0, width, 0.0, H200, FITTED[engine]
        )

    assert time(new + 1.0, prior) >= time(new, prior)
    assert time(new, prior + 1.0) >= time(new, prior)


@given(sequences, tokens, engines)
def test_draft_tokens_cost_less_than_decoding_again(n, context, engine):
    one = decode_us(n, context, 32.0, 8.0, 128.0, 2.0, FITTED[engine])
    assert decode_us(n, context, 32.0, 8.0, 128.0, 2.0, FITTED[engine], queries=2.0) <= 2.0 * one


def test_eight_bit_cache_reads_its_own_row():
    c = ROOFLINE.copy()
    c[k.OP_DECODE_GQA_FP8_KV, k.OVERHEAD_US] = 7.0
    assert decode_us(1.0, 1.0, 32.0, 8.0, 128.0, 1.0, c) > 7.0
    assert decode_us(1.0, 1.0, 32.0, 8.0, 128.0, 2.0, c) < 7.0


def test_latent_cache_reads_its_own_row():
    c = ROOFLINE.copy()
    c[k.OP_DECODE_MLA, k.OVERHEAD_US] = 7.0
    time = decode_attention_us(1.0, 1.0, 1.0, 128.0, 1.0, 576.0, 512.0, 1152.0, 576.0, H200, c)
    assert time > 7.0


@given(sequences, tokens)
def test_neutral_linear_attention_is_the_roofline(n, new):
    flops = 6.0 * n * new * 32.0 * 128.0 * 128.0
    n_bytes = 2.0 * n * 32.0 * 128.0 * 128.0 * 4.0 + 4.0 * n * new * 32.0 * 256.0
    limit = max(flops / (H200.tflops_bf16 * 1e6), n_bytes / (H200.hbm_gb_s * 1e3))
    time = linear_attention_us(n, new, 32.0, 128.0, 128.0, 4.0, H200, ROOFLINE)
    assert time == pytest.approx(limit, rel=1e-12)


@given(sequences, engines)
def test_linear_attention_grows_with_tokens_within_each_kernel(n, engine):
    for first, last in ((1, int(FUSED_TOKENS)), (int(FUSED_TOKENS) + 1, 4096)):
        times = [
            linear_attention_us(n, float(s), 32.0, 128.0, 128.0, 4.0, H200, FITTED[engine])
            for s in np.unique(np.geomspace(first, last, 12).astype(int))
        ]
        assert np.all(np.diff(times) >= 0.0)


def test_nothing_to_attend_takes_no_time():
    assert decode_us(0.0, 0.0, 32.0, 8.0, 128.0, 2.0, FITTED[0]) == 0.0
    assert prefill_attention_us(0.0, 0.0, 0.0, 32.0, 8.0, 128.0, 128.0, 0.0, 2.0, 0.0, H200, FITTED[0]) == 0.0
    assert linear_attention_us(0.0, 1.0, 32.0, 128.0, 128.0, 4.0, H200, FITTED[0]) == 0.0
