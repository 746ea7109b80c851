"""Expert time: equation, limits, order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import coefficients as k
from kernels.dtypes import BFLOAT16, FP8_BLOCK, MXFP4, NVFP4, WIDTH_BYTES
from kernels.moe import FEW_PAIRS, OP_BY_DTYPE, distinct_experts, moe_us
from sweep.calibrate.operators import hardware_record
from sweep.catalog.fitted import load_fitted

B200 = hardware_record("b200_sxm")
H200 = hardware_record("h200_sxm")
ROOFLINE = k.roofline_coefficients()
FITTED = load_fitted(("b200_sxm", "h200_sxm")).coefficients

EXPERTS, TOP_K = 128.0, 8.0
tokens = st.integers(1, 16384).map(float)
formats = st.sampled_from([BFLOAT16, FP8_BLOCK, NVFP4, MXFP4])
imbalances = st.floats(1.0, 3.0)
cells = st.tuples(st.integers(0, 1), st.integers(0, 3))
PEAKS = {BFLOAT16: "tflops_bf16", FP8_BLOCK: "tflops_fp8", NVFP4: "tflops_fp4", MXFP4: "tflops_fp4"}


def peak(dtype, record):
    own = record[PEAKS[dtype]]
    return record.tflops_bf16 if np.isnan(own) else own


def twin_us(pairs, routings, touched, hidden, ffn, dtype, imbalance, record, row):
    """The docstring's equation in numpy, three matrices."""
    r = routings / touched
    rows = np.sqrt(r**2 + r * row[k.MOE_TILE_ROWS] + row[k.MOE_TILE_ROWS] ** 2)
    compute = 6.0 * touched * rows * imbalance * hidden * ffn
    compute /= peak(dtype, record) * 1e6 * row[k.COMPUTE_EFFICIENCY]
    slower = 1.0 + row[k.MOE_NARROW_COLUMNS] / (touched * ffn) + row[k.MOE_SHALLOW_FFN] / ffn
    n_bytes = 3.0 * touched * hidden * ffn * WIDTH_BYTES[dtype] * slower
    n_bytes += row[k.MOE_ACTIVATION_PASSES] * routings * (2.0 * hidden + 3.0 * ffn) * 2.0
    rate = record.hbm_gb_s * 1e3
    memory = n_bytes / (rate * row[k.MEMORY_EFFICIENCY])
    long, short = max(compute, memory), min(compute, memory)
    overhead = row[k.OVERHEAD_US] + row[k.MOE_ROUTED_US] * routings / (routings + FEW_PAIRS)
    sort = row[k.MOE_SORT_PASSES] * pairs * hidden * 2.0 / rate
    return overhead + long + row[k.EXPOSED] * short**2 / long + sort


def one_rank(n_tokens, ep=1.0):
    """(pairs, routings, touched) of one of `ep` expert ranks."""
    pairs = n_tokens * TOP_K
    return pairs, pairs / ep, distinct_experts(n_tokens, TOP_K, EXPERTS) / ep


@given(tokens, formats, imbalances)
def test_neutral_coefficients_give_the_roofline(n_tokens, dtype, imbalance):
    pairs, routings, touched = one_rank(n_tokens)
    flops = 6.0 * routings * imbalance * 4096.0 * 1536.0
    n_bytes = 3.0 * touched * 4096.0 * 1536.0 * WIDTH_BYTES[dtype]
    n_bytes += routings * (2.0 * 4096.0 + 3.0 * 1536.0) * 2.0
    limit = max(flops / (peak(dtype, B200) * 1e6), n_bytes / (B200.hbm_gb_s * 1e3))
    time = moe_us(pairs, routings, touched, 4096.0, 1536.0, 3.0, dtype, imbalance, B200, ROOFLINE)
    assert time == pytest.approx(limit, rel=1e-12)


@given(tokens, formats, imbalances, cells)
def test_kernel_matches_its_equation_and_never_beats_the_roofline(n_tokens, dtype, imbalance, cell):
    record, c = (B200, H200)[cell[0]], FITTED[cell]
    pairs, routings, touched = one_rank(n_tokens)
    time = moe_us(pairs, routings, touched, 4096.0, 1536.0, 3.0, dtype, imbalance, record, c)
    row = c[OP_BY_DTYPE[dtype]]
    twin = twin_us(pairs, routings, touched, 4096.0, 1536.0, dtype, imbalance, record, row)
    assert time == pytest.approx(twin, rel=1e-12)
    assert time >= moe_us(pairs, routings, touched, 4096.0, 1536.0, 3.0, dtype, imbalance, record, ROOFLINE)


@given(tokens, formats, cells)
def test_more_tokens_never_take_less_time(n_tokens, dtype, cell):
    record, c = (B200, H200)[cell[0]], FITTED[cell]
    fewer = moe_us(*one_rank(n_tokens), 4096.0, 1536.0, 3.0, dtype, 1.0, record, c)
    more = moe_us(*one_rank(n_tokens + 1.0), 4096.0, 1536.0, 3.0, dtype, 1.0, record, c)
    assert more >= fewer * (1.0 - 1e-12)


@given(tokens, cells)
def test_sharding_experts_over_ranks_is_never_slower(n_tokens, cell):
    record, c = (B200, H200)[cell[0]], FITTED[cell]
    whole = moe_us(*one_rank(n_tokens), 4096.0, 1536.0, 3.0, FP8_BLOCK, 1.0, record, c)
    assert moe_us(*one_rank(n_tokens, ep=4.0), 4096.0, 1536.0, 3.0, FP8_BLOCK, 1.0, record, c) <= whole


def test_imbalance_hardly_matters_where_weights_bind_and_scales_compute_where_they_do_not():
    def ratio(n_tokens):
        even, skewed = (
            moe_us(*one_rank(n_tokens), 4096.0, 1536.0, 3.0, FP8_BLOCK, x, B200, ROOFLINE) for x in (1.0, 2.0)
        )
        return skewed / even

    assert ratio(16.0) == pytest.approx(1.0)
    assert ratio(65536.0) == pytest.approx(2.0, rel=0.01)


def test_no_routing_takes_no_time():
    assert moe_us(0.0, 0.0, 0.0, 4096.0, 1536.0, 3.0, BFLOAT16, 1.0, B200, FITTED[0, 0]) == 0.0
