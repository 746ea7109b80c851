"""Rows and columns of the efficiency coefficients that operator kernels read.

`fitted` has shape (hardware, engine, N_OPS, N_COEF); a deployment's slice `c = fitted[hw, engine]`
goes to every operator kernel. The same kernels give the roofline when `c` is `roofline_coefficients()`:
efficiency 1, every overhead and every waste 0. Fitted efficiencies never exceed 1 and wastes are never
negative, so no operator beats its roofline.
"""

import numpy as np

N_COEF = 10

(
    OP_GEMM_BF16,
    OP_GEMM_FP8,
    OP_GEMM_FP8_BLOCK,
    OP_GEMM_INT8,
    OP_GEMM_NVFP4,
    OP_GEMM_MXFP4,
    OP_GEMM_INT4_WO,
    OP_PREFILL_GQA,
    OP_PREFILL_GQA_FP8_KV,
    OP_PREFILL_MLA,
    OP_PREFILL_MLA_FP8_KV,
    OP_DECODE_GQA,
    OP_DECODE_GQA_FP8_KV,
    OP_DECODE_MLA,
    OP_DECODE_MLA_FP8_KV,
    OP_LINEAR_PREFILL,
    OP_LINEAR_DECODE,
    OP_MOE_BF16,
    OP_MOE_FP8,
    OP_MOE_FP8_BLOCK,
    OP_MOE_NVFP4,
    OP_MOE_MXFP4,
    OP_MOE_INT4_WO,
    OP_ELEMENTWISE,
    OP_ONE_SHOT,
    OP_TWO_SHOT,
    OP_QUANTIZED,
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
    OP_SCALE,
) = range(42)

NEAR_DECODE, NEAR_PROMPT = 42, 48
"""First of six rows each: the surfaces of `kernels.nearby`."""
NEAR_POOLED = 12
"""Rows from a surface to that of split pools."""
LEAST_SHARE = 66
"""Row of the least share of a step's parts (columns kernels.layout.PART_*) that is roofline, not loss."""
N_OPS = 67

COMPUTE_EFFICIENCY, MEMORY_EFFICIENCY, OVERHEAD_US = range(3)
"""Columns that every operator has; columns from 3 are the operator's own."""

EXPOSED = 3
"""Compute-and-stream operators: how much of the shorter of compute and memory time is not hidden by the longer."""

GEMM_WAVE_TILES, GEMM_NARROW_COLUMNS, GEMM_PROLOGUE_K, GEMM_CAST_PASSES = range(4, 8)
"""GEMM. Output tiles of 128 x 128 that an otherwise idle machine computes along; columns at which the
weight stream reaches half its bandwidth; depth of K that fills and drains a tile's pipeline; passes over the
activation that cast it."""

PREFILL_TILE_TOKENS, PREFILL_WAVE_TILES, PREFILL_SOFTMAX_DIM, PREFILL_KV_PASSES = range(4, 8)
"""Prefill attention. Query rows of a tile; tiles of 128 rows an idle machine computes along; head
dimensions that the softmax of one query-key pair costs; times keys and values are read (1 is ideal)."""

DECODE_PAD_ROWS, DECODE_ITEM_US, DECODE_QO_PASSES, DECODE_US_PER_KTOKEN = range(4, 8)
"""Decode attention. Query rows added to each KV head's group by the matrix tile; machine time of one sequence
x KV head however short; times queries and outputs are moved (1 is ideal); serial time per 1000 tokens of context."""

LINEAR_US_PER_KTOKEN, LINEAR_TILE_TOKENS = range(4, 6)
"""Linear attention. Serial time per 1000 new tokens of a sequence; tokens of a chunk."""

(
    MOE_TILE_ROWS,
    MOE_NARROW_COLUMNS,
    MOE_ACTIVATION_PASSES,
    MOE_SORT_PASSES,
    MOE_SHALLOW_FFN,
    MOE_ROUTED_US,
) = range(4, 10)
"""Experts. Rows of a tile; columns over all experts at which the weight stream reaches half its bandwidth; times
activations are moved (1 is ideal); reads of a hidden state per token-expert pair to sort and combine; expert width
at which weights stream at half speed; overhead that grows to its full size with the pairs of a rank."""

(
    HOST_MIXED_SCALE,
    HOST_STEP_US,
    HOST_SEQUENCE_US,
    HOST_LAYER_US,
    HOST_PROMPT_US,
    HOST_PROMPT_TOKEN_US,
    HOST_REQUEST_US,
    HOST_STREAM_US,
    HOST_ROUTING_VARIANCE,
) = range(9)
"""Engine layer, row OP_HOST: multiplier on device time of steps with prefill; host us per step, per running sequence,
per layer, per prompt in the step, per prompt token; us per request before its prefill, and per concurrent request that
the server streams meanwhile; relative variance of the experts' popularity (0: even routing).
Row OP_SCALE multiplies each part of a step (columns kernels.layout.PART_*)."""


NEAR_LOW, NEAR_HIGH, NEAR_KNOWN = range(7, 10)
"""Surfaces. The first row holds the constant and whether it is known; then one row per feature: slope, curvatures with the
features up to its own (columns from 1), and the measured range."""


def roofline_coefficients() -> np.ndarray:
    """Coefficients of an ideal machine, shape (N_OPS, N_COEF): each column's neutral value."""
    c = np.zeros((N_OPS, N_COEF))
    c[:, COMPUTE_EFFICIENCY] = 1.0
    c[:, MEMORY_EFFICIENCY] = 1.0
    c[OP_SCALE] = 1.0
    c[OP_HOST] = 0.0
    c[OP_HOST, HOST_MIXED_SCALE] = 1.0
    c[LEAST_SHARE] = 1.0
    c[OP_PREFILL_GQA : OP_PREFILL_MLA_FP8_KV + 1, PREFILL_KV_PASSES] = 1.0
    c[OP_DECODE_GQA : OP_DECODE_MLA_FP8_KV + 1, DECODE_QO_PASSES] = 1.0
    c[OP_MOE_BF16 : OP_MOE_INT4_WO + 1, MOE_ACTIVATION_PASSES] = 1.0
    return c
