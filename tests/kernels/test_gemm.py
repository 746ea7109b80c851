"""GEMM time: equation, limits, order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    EXPOSED,
    GEMM_CAST_PASSES,
    GEMM_NARROW_COLUMNS,
    GEMM_PROLOGUE_K,
    GEMM_WAVE_TILES,
    MEMORY_EFFICIENCY,
    OP_GEMM_FP8,
    OVERHEAD_US,
    roofline_coefficients,
)
from kernels.dtypes import BFLOAT16, FP8, FP8_BLOCK, INT4_WO, MXFP4, NVFP4, WIDTH_BYTES
from kernels.gemm import OP_BY_DTYPE, gemm_us
from sweep.calibrate.operators import hardware_record
from sweep.catalog.fitted import load_fitted

H200 = hardware_record("h200_sxm")
B200 = hardware_record("b200_sxm")
ROOFLINE = roofline_coefficients()
FITTED = load_fitted(("h200_sxm", "b200_sxm")).coefficients

rows = st.integers(1, 16384).map(float)
widths = st.integers(128, 65536).map(float)
formats = st.sampled_from([BFLOAT16, FP8, FP8_BLOCK, NVFP4, MXFP4, INT4_WO])


def peak(dtype, record):
    """Dense peak by weight format, TFLOP/s: 16-bit math where the unit is missing."""
    if dtype in (FP8, FP8_BLOCK):
        return record.tflops_fp8
    if dtype in (NVFP4, MXFP4) and not np.isnan(record.tflops_fp4):
        return record.tflops_fp4
    return record.tflops_bf16


def limit_us(m, n, k, dtype, record):
    """The larger of compute and memory time at datasheet peaks."""
    weight = WIDTH_BYTES[dtype]
    activation = 2.0 if dtype == INT4_WO else min(weight, 2.0)
    compute = 2.0 * m * n * k / (peak(dtype, record) * 1e6)
    memory = (n * k * weight + m * k * activation + 2.0 * m * n) / (record.hbm_gb_s * 1e3)
    return max(compute, memory)


def twin_us(m, n, k, record, row):
    """The docstring's equation for fp8 weights, in numpy."""
    flops = 2.0 * (m * n + row[GEMM_WAVE_TILES] * 128**2) * (k + row[GEMM_PROLOGUE_K])
    compute = flops / (record.tflops_fp8 * 1e6 * row[COMPUTE_EFFICIENCY])
    n_bytes = n * k + m * k + 2.0 * m * n
    memory = n_bytes / (record.hbm_gb_s * 1e3 * row[MEMORY_EFFICIENCY]) * (1.0 + row[GEMM_NARROW_COLUMNS] / n)
    long, short = np.maximum(compute, memory), np.minimum(compute, memory)
    cast = row[GEMM_CAST_PASSES] * 3.0 * m * k / (record.hbm_gb_s * 1e3)
    return row[OVERHEAD_US] + long + row[EXPOSED] * short**2 / long + cast


@given(rows, widths, widths, formats, st.sampled_from([H200, B200]))
def test_neutral_coefficients_give_the_roofline(m, n, k, dtype, record):
    assert gemm_us(m, n, k, dtype, record, ROOFLINE) == pytest.approx(
        limit_us(m, n, k, dtype, record), rel=1e-12
    )


@given(rows, widths, widths)
def test_kernel_matches_its_equation(m, n, k):
    c = FITTED[0, 0]
    assert gemm_us(m, n, k, FP8, H200, c) == pytest.approx(twin_us(m, n, k, H200, c[OP_GEMM_FP8]), rel=1e-12)


@given(rows, widths, widths, formats, st.integers(0, 1), st.integers(0, 3))
def test_fitted_time_is_never_below_the_roofline(m, n, k, dtype, hardware, engine):
    record = (H200, B200)[hardware]
    assert gemm_us(m, n, k, dtype, record, FITTED[hardware, engine]) >= limit_us(m, n, k, dtype, record)


@given(rows, widths, widths, formats, st.integers(0, 1), st.integers(0, 3))
def test_more_rows_never_take_less_time(m, n, k, dtype, hardware, engine):
    record, c = (H200, B200)[hardware], FITTED[hardware, engine]
    assert gemm_us(m + 1.0, n, k, dtype, record, c) >= gemm_us(m, n, k, dtype, record, c)


def test_an_empty_product_takes_no_time():
    assert gemm_us(0.0, 4096.0, 4096.0, BFLOAT16, H200, FITTED[0, 0]) == 0.0


def test_every_weight_format_has_a_row():
    assert len(OP_BY_DTYPE) == len(WIDTH_BYTES)


def test_four_bit_weights_beat_sixteen_bit_ones_where_weights_bind():
    c = FITTED[1, 0]
    assert gemm_us(8.0, 8192.0, 8192.0, NVFP4, B200, c) < gemm_us(8.0, 8192.0, 8192.0, BFLOAT16, B200, c)
