"""Dense matrix multiplication.

    t = overhead + max(2 m n k / (peak * ec), (m k a + n k w + m n o) / (bandwidth * em))

with a, w, o the bytes of an activation, weight and output element.
"""

import numpy as np

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    MEMORY_EFFICIENCY,
    OP_GEMM_BF16,
    OP_GEMM_FP8,
    OP_GEMM_FP8_BLOCK,
    OP_GEMM_INT4_WO,
    OP_GEMM_INT8,
    OP_GEMM_MXFP4,
    OP_GEMM_NVFP4,
    OVERHEAD_US,
)
from kernels.dtypes import WIDTH_BYTES
from kernels.jit import kernel
from kernels.peaks import peak_tflops
from kernels.units import BYTES_PER_US_PER_GB_S, FLOP_PER_US_PER_TFLOPS

OP_BY_DTYPE = np.array(
    [
        OP_GEMM_BF16,
        OP_GEMM_BF16,
        OP_GEMM_BF16,
        OP_GEMM_FP8,
        OP_GEMM_FP8_BLOCK,
        OP_GEMM_FP8,
        OP_GEMM_FP8,
        OP_GEMM_INT8,
        OP_GEMM_NVFP4,
        OP_GEMM_MXFP4,
        OP_GEMM_INT4_WO,
    ]
)
"""Row of the coefficients for each weight format of `kernels.dtypes`."""


@kernel
def gemm_us(m, n, k, dtype, p, c):
    """Time of one (m x k) by (k x n) product, us.

    `dtype` is the weight format's code, `p` the input record, `c` the coefficients (N_OPS, N_COEF).
    """
    if m <= 0.0 or n <= 0.0 or k <= 0.0:
        return 0.0
    op = OP_BY_DTYPE[int(dtype)]
    width = WIDTH_BYTES[int(dtype)]
    compute_us = (
        2.0 * m * n * k / (peak_tflops(dtype, p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    )
    n_bytes = n * k * width + m * k * min(width, 2.0) + m * n * 2.0
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    return c[op, OVERHEAD_US] + max(compute_us, memory_us)
