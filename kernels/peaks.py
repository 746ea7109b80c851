"""Peak rates of the accelerator in the input record."""

import numpy as np

from kernels.dtypes import MATH, MATH_BF16, MATH_FP4, MATH_FP8, MATH_FP32, MATH_INT8
from kernels.jit import inlined


@inlined
def peak_tflops(dtype, p):
    """Dense peak of the math unit that a weight format runs on, TFLOP/s; NaN where there is none."""
    math = MATH[int(dtype)]
    if math == MATH_FP32:
        return p.tflops_fp32
    if math == MATH_BF16:
        return p.tflops_bf16
    if math == MATH_FP8:
        return p.tflops_fp8
    if math == MATH_INT8:
        return p.tflops_int8
    if math == MATH_FP4:
        return p.tflops_fp4
    return np.nan
