"""Peak rates of the accelerator in the input record, and how compute and memory time combine."""

import numpy as np

from kernels.dtypes import MATH, MATH_FP4, MATH_FP8, MATH_FP32, MATH_INT8
from kernels.jit import inlined


@inlined
def clock_ratio(p):
    """Compute clock that the user assumes over the clock that the peaks stand for."""
    if np.isnan(p.gpu_clock_mhz) or np.isnan(p.clock_mhz):
        return 1.0
    return p.gpu_clock_mhz / p.clock_mhz


@inlined
def datasheet_tflops(dtype, p):
    """Dense peak of the math unit that a weight format runs on at the datasheet's clock, TFLOP/s; NaN where there is none.

    Engines run fp8 and fp4 weights without math of their own on the 16-bit units (weight-only kernels).
    """
    math = MATH[int(dtype)]
    if math == MATH_FP32:
        return p.tflops_fp32
    if math == MATH_INT8:
        return p.tflops_int8
    if math == MATH_FP8 and not np.isnan(p.tflops_fp8):
        return p.tflops_fp8
    if math == MATH_FP4 and not np.isnan(p.tflops_fp4):
        return p.tflops_fp4
    return p.tflops_bf16


@inlined
def peak_tflops(dtype, p):
    """The same at the assumed clock."""
    return datasheet_tflops(dtype, p) * clock_ratio(p)


@inlined
def overlapped_us(compute_us, memory_us, exposed):
    """Time of work whose compute and memory phases overlap: long + exposed * short^2 / long, us.

    `exposed` 0 is the roofline's max(); 1 doubles the time where both are equal. Where one dominates, the other
    vanishes quadratically, as a power mean does, without its powers.
    """
    longer = max(compute_us, memory_us)
    shorter = min(compute_us, memory_us)
    return longer + exposed * shorter * (shorter / longer)


@inlined
def padded_rows(rows, tile):
    """Rows that matrix tiles of `tile` rows compute for `rows` useful ones: sqrt(rows^2 + rows tile + tile^2).

    At least one tile, on average half a tile more than asked for; smooth, so that sweeps have no sawtooth.
    """
    return np.sqrt(rows * rows + rows * tile + tile * tile)
