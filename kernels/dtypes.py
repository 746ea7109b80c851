"""Number formats: codes, bytes per element with their scales, and the math unit they run on.

Codes index `NAMES`, `WIDTH_BYTES` and `MATH`. Widths carry the scale factors a checkpoint stores:
fp8_block one float32 per 128 x 128 block (DeepSeek-V3 checkpoints), mxfp8 and mxfp4 one e8m0 byte per
32 elements (OCP MX specification 1.0), nvfp4 one fp8 byte per 16, int4_wo one float16 per 128
(GPTQ/AWQ group size 128).
"""

import numpy as np

FLOAT32, BFLOAT16, FLOAT16, FP8, FP8_BLOCK, FP8_PTPC, MXFP8, INT8, NVFP4, MXFP4, INT4_WO = range(11)

NAMES = (
    "float32",
    "bfloat16",
    "float16",
    "fp8",
    "fp8_block",
    "fp8_ptpc",
    "mxfp8",
    "int8",
    "nvfp4",
    "mxfp4",
    "int4_wo",
)

WIDTH_BYTES = np.array(
    [4.0, 2.0, 2.0, 1.0, 1.0 + 4.0 / 128**2, 1.0, 1.03125, 1.0, 0.5625, 0.53125, 0.5 + 2.0 / 128]
)

MATH_FP32, MATH_BF16, MATH_FP8, MATH_INT8, MATH_FP4 = range(5)
MATH = np.array(
    [
        MATH_FP32,
        MATH_BF16,
        MATH_BF16,
        MATH_FP8,
        MATH_FP8,
        MATH_FP8,
        MATH_FP8,
        MATH_INT8,
        MATH_FP4,
        MATH_FP4,
        MATH_BF16,
    ]
)
"""Math unit of a GEMM whose weights have this format; int4_wo is dequantised to 16 bit."""

FAMILY_WIDE, FAMILY_FP8, FAMILY_INT8, FAMILY_FP4, FAMILY_INT4 = range(5)
FAMILY = np.array(
    [
        FAMILY_WIDE,
        FAMILY_WIDE,
        FAMILY_WIDE,
        FAMILY_FP8,
        FAMILY_FP8,
        FAMILY_FP8,
        FAMILY_FP8,
        FAMILY_INT8,
        FAMILY_FP4,
        FAMILY_FP4,
        FAMILY_INT4,
    ]
)
"""Formats that name the same kind of checkpoint: "fp8" asked of an fp8_block checkpoint means the checkpoint itself."""
