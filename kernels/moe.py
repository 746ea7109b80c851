"""Mixture of experts: how many experts a step touches, and the grouped GEMMs over them.

    rows    = sqrt(r^2 + r tile + tile^2),  r = routings / touched
    compute = 2 matrices touched rows imbalance hidden ffn / (peak * ec)
    memory  = (touched weights (1 + narrow / (touched ffn) + shallow / ffn) + act * activations) / (bandwidth * em)
    t       = overhead + routed * routings / (routings + 64)
              + overlapped(compute, memory) + sort * pairs * hidden * 2 / bandwidth

`rows` is a smooth reading of "rows padded to the tile": a tile at least, half a tile more than r when r is large.
`pairs` are the token-expert pairs of all tokens that the rank looks at, its own experts' or not: permuting,
routing and combining cost memory traffic for each. Fitted per format: docs/operators.md.
"""

import numpy as np

from kernels.coefficients import (
    COMPUTE_EFFICIENCY,
    EXPOSED,
    MEMORY_EFFICIENCY,
    MOE_ACTIVATION_PASSES,
    MOE_NARROW_COLUMNS,
    MOE_ROUTED_US,
    MOE_SHALLOW_FFN,
    MOE_SORT_PASSES,
    MOE_TILE_ROWS,
    OP_MOE_BF16,
    OP_MOE_FP8,
    OP_MOE_FP8_BLOCK,
    OP_MOE_INT4_WO,
    OP_MOE_MXFP4,
    OP_MOE_NVFP4,
    OVERHEAD_US,
)
from kernels.dtypes import WIDTH_BYTES
from kernels.jit import inlined
from kernels.peaks import overlapped_us, padded_rows, peak_tflops
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

FEW_PAIRS = 64.0
"""Pairs at which half of the routed overhead is reached: engines switch from one-shot to sorting kernels there."""


@inlined
def distinct_experts(tokens, experts_per_token, n_experts):
    """Expected experts touched when each token visits distinct experts uniformly: E (1 - (1 - K/E)^T)."""
    if n_experts <= 0.0 or tokens <= 0.0:
        return 0.0
    return n_experts * (1.0 - (1.0 - experts_per_token / n_experts) ** tokens)


@inlined
def moe_us(pairs, routings, touched, hidden, ffn, matrices, dtype, imbalance, p, c):
    """Time of the routed experts of one layer on one rank, us.

    `pairs` token-expert pairs are in front of this rank (all its tokens times experts per token; after a dispatch
    that delivers only its own, `routings`), `routings` of them land on its experts (mean rank), `touched` of its
    experts are read, each of width `ffn` (the rank's shard) with `matrices` matrices (3 gated, 2 plain).
    `imbalance` >= 1 is hottest rank / mean: it scales the compute, not the weight bytes.
    """
    if routings <= 0.0 or touched <= 0.0:
        return 0.0
    op = OP_BY_DTYPE[int(dtype)]
    rows_per_expert = routings / touched
    rows = padded_rows(rows_per_expert, c[op, MOE_TILE_ROWS])
    flops = 2.0 * matrices * touched * rows * imbalance * hidden * ffn
    compute_us = flops / (peak_tflops(dtype, p) * FLOP_PER_US_PER_TFLOPS * c[op, COMPUTE_EFFICIENCY])
    weight_bytes = touched * matrices * hidden * ffn * WIDTH_BYTES[int(dtype)]
    activation_bytes = routings * (2.0 * hidden + matrices * ffn) * 2.0
    slower = 1.0 + (c[op, MOE_NARROW_COLUMNS] / touched + c[op, MOE_SHALLOW_FFN]) / ffn
    n_bytes = weight_bytes * slower + c[op, MOE_ACTIVATION_PASSES] * activation_bytes
    bytes_per_us = p.hbm_gb_s * BYTES_PER_US_PER_GB_S
    memory_us = n_bytes / (bytes_per_us * c[op, MEMORY_EFFICIENCY])
    sort_us = c[op, MOE_SORT_PASSES] * pairs * hidden * 2.0 / bytes_per_us
    overhead_us = c[op, OVERHEAD_US] + c[op, MOE_ROUTED_US] * routings / (routings + FEW_PAIRS)
    return overhead_us + overlapped_us(compute_us, memory_us, c[op, EXPOSED]) + sort_us
