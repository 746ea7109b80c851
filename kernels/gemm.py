"""Dense matrix multiplication of (m x k) by (k x n).

    compute = 2 (m n + wave * 128^2) (k + prologue) / (peak * ec)
    memory  = (m k a + n k w + m n 2) / (bandwidth * em) * (1 + narrow / n)
    t       = overhead + overlapped(compute, memory) + cast * 3 m k / bandwidth

with a, w the bytes of an activation and weight element and bf16 outputs. `wave` tiles stand for the time in
which a product too small for the machine leaves part of it idle, `prologue` for filling and draining a tile's
pipeline, `narrow` for weight streams with too few columns to keep all memory channels busy, `cast` for the
passes that quantise the activation (bf16 in, one byte out). Fitted per format: docs/operators.md.
"""

import numpy as np

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    EXPOSED,
    GEMM_CAST_PASSES,
    GEMM_NARROW_COLUMNS,
    GEMM_PROLOGUE_K,
    GEMM_WAVE_TILES,
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
from kernels.dtypes import INT4_WO, WIDTH_BYTES
from kernels.jit import inlined
from kernels.peaks import overlapped_us, peak_tflops
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


ACTIVATION_WIDTH = np.minimum(WIDTH_BYTES, 2.0)
ACTIVATION_WIDTH[INT4_WO] = 2.0
"""Bytes per activation element that a GEMM reads: quantised like the weights, except in weight-only formats."""

TILE_AREA = 128.0 * 128.0
"""Output elements of the tile that `wave` counts in."""


CEILING_MEMORY, CEILING_COMPUTE = 0.70, 0.60
"""Shares of bandwidth and peak under gemm_backend=origami (the compatible tool's ceiling; 0.55 to 0.70 for large m)."""


@inlined
def ceiling_us(m, n, k, dtype, p):
    """One product at fixed efficiencies: max((m k a + k n w + m n 2) / (0.70 bandwidth), 2 m n k / (0.60 peak)), us."""
    n_bytes = n * k * WIDTH_BYTES[int(dtype)] + m * k * ACTIVATION_WIDTH[int(dtype)] + m * n * 2.0
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * CEILING_MEMORY)
    return max(
        memory_us, 2.0 * m * n * k / (peak_tflops(dtype, p) * FLOP_PER_US_PER_TFLOPS * CEILING_COMPUTE)
    )


@inlined
def gemm_us(m, n, k, dtype, p, c):
    """Time of one (m x k) by (k x n) product, us.

    `dtype` is the weight format's code, `p` the input record, `c` the coefficients (N_OPS, N_COEF).
    """
    if m <= 0.0 or n <= 0.0 or k <= 0.0:
        return 0.0
    if p.gemm_backend > 0.0:
        return ceiling_us(m, n, k, dtype, p)
    op = OP_BY_DTYPE[int(dtype)]
    width = WIDTH_BYTES[int(dtype)]
    flops = 2.0 * (m * n + c[op, GEMM_WAVE_TILES] * TILE_AREA) * (k + c[op, GEMM_PROLOGUE_K])
    compute_us = flops / (peak_tflops(dtype, p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    bytes_per_us = p.hbm_gb_s * BYTES_PER_US_PER_GB_S
    n_bytes = n * k * width + m * k * ACTIVATION_WIDTH[int(dtype)] + m * n * 2.0
    memory_us = n_bytes / (bytes_per_us * c[op, MEMORY_EFFICIENCY]) * (1.0 + c[op, GEMM_NARROW_COLUMNS] / n)
    # A cast that the user names is priced by itself (kernels.cast)
    passes = c[op, GEMM_CAST_PASSES] if np.isnan(p.act_quant_dtype) else 0.0
    cast_us = passes * 3.0 * m * k / bytes_per_us
    return c[op, OVERHEAD_US] + overlapped_us(compute_us, memory_us, c[op, EXPOSED]) + cast_us
