"""Mixture of experts: how many experts a step touches, and the grouped GEMMs over them."""

import numpy as np

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    MEMORY_EFFICIENCY,
    OP_MOE_BF16,
    OP_MOE_FP8,
    OP_MOE_FP8_BLOCK,
    OP_MOE_INT4_WO,
    OP_MOE_MXFP4,
    OP_MOE_NVFP4,
    OVERHEAD_US,
)
from kernels.dtypes import WIDTH_BYTES
from kernels.jit import kernel
from kernels.peaks import peak_tflops
from kernels.units import BYTES_PER_US_PER_GB_S, FLOP_PER_US_PER_TFLOPS

OP_BY_DTYPE = np.array(
    [
        OP_MOE_BF16,
        OP_MOE_BF16,
        OP_MOE_BF16,
        OP_MOE_FP8,
        OP_MOE_FP8_BLOCK,
        OP_MOE_FP8,
        OP_MOE_FP8,
        OP_MOE_FP8,
        OP_MOE_NVFP4,
        OP_MOE_MXFP4,
        OP_MOE_INT4_WO,
    ]
)


@kernel
def distinct_experts(tokens, experts_per_token, n_experts):
    """Expected experts touched when each token visits distinct experts uniformly: E (1 - (1 - K/E)^T)."""
    if n_experts <= 0.0 or tokens <= 0.0:
        return 0.0
    return n_experts * (1.0 - (1.0 - experts_per_token / n_experts) ** tokens)


@kernel
def moe_us(routings, touched, hidden, ffn, matrices, dtype, imbalance, p, c):
    """Time of the routed experts of one layer on one rank, us.

    `routings` token-expert pairs land on this rank (mean rank), `touched` of its experts are read, each of width
    `ffn` (the rank's shard) with `matrices` matrices (3 gated, 2 plain). `imbalance` >= 1 is hottest rank / mean: it
    scales the compute, not the weight bytes.
    """
    if routings <= 0.0 or touched <= 0.0:
        return 0.0
    op = OP_BY_DTYPE[int(dtype)]
    width = WIDTH_BYTES[int(dtype)]
    flops = 2.0 * matrices * routings * imbalance * hidden * ffn
    n_bytes = touched * matrices * hidden * ffn * width + routings * (2.0 * hidden + matrices * ffn) * 2.0
    compute_us = flops / (peak_tflops(dtype, p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    memory_us = n_bytes / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    return c[op, OVERHEAD_US] + max(compute_us, memory_us)
