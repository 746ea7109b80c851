"""Rows and columns of the efficiency coefficients that operator kernels read.

`fitted` has shape (hardware, engine, N_OPS, N_COEF); a deployment's slice `c = fitted[hw, engine]`
goes to every operator kernel. The same kernels give the roofline when `c` is `roofline_coefficients()`:
efficiency 1 and no overhead.
"""

import numpy as np

N_COEF = 8

(
    OP_GEMM_BF16,
    OP_GEMM_FP8,
    OP_GEMM_FP8_BLOCK,
    OP_GEMM_INT8,
    OP_GEMM_NVFP4,
    OP_GEMM_MXFP4,
    OP_GEMM_INT4_WO,
    OP_PREFILL_GQA,
    OP_PREFILL_MLA,
    OP_DECODE_GQA,
    OP_DECODE_MLA,
    OP_LINEAR_ATTENTION,
    OP_MOE_BF16,
    OP_MOE_FP8,
    OP_MOE_FP8_BLOCK,
    OP_MOE_NVFP4,
    OP_MOE_MXFP4,
    OP_MOE_INT4_WO,
    OP_ELEMENTWISE,
    OP_ONE_SHOT,
    OP_TWO_SHOT,
    OP_RING_LL,
    OP_RING_LL128,
    OP_RING_SIMPLE,
    OP_NVLS,
    OP_ALL_GATHER,
    OP_REDUCE_SCATTER,
    OP_ALL_TO_ALL_LL,
    OP_ALL_TO_ALL,
    OP_DISPATCH_LL,
    OP_DISPATCH,
    OP_COMBINE_LL,
    OP_COMBINE,
    OP_NIC,
    OP_HOST,
) = range(35)
N_OPS = 35


COMPUTE_EFFICIENCY, MEMORY_EFFICIENCY, OVERHEAD_US = range(3)
"""Columns that every operator has; columns 3 to 7 are the operator's own shape parameters."""


def roofline_coefficients() -> np.ndarray:
    """Coefficients of an ideal machine, shape (N_OPS, N_COEF): each column's neutral value."""
    c = np.zeros((N_OPS, N_COEF))
    c[:, COMPUTE_EFFICIENCY] = 1.0
    c[:, MEMORY_EFFICIENCY] = 1.0
    return c
