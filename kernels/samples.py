"""Operator times over arrays of shapes: what calibration fits and validation scores.

Row i of `shapes` holds the arguments of one call, by operator class:

    gemm              m n k
    prefill           n_seqs new_tokens prior_tokens heads kv_heads qk_dim v_dim window kv_width
    decode            n_seqs context_tokens queries heads kv_heads qk_dim v_dim kv_width
    linear            n_seqs new_tokens v_heads k_dim v_dim state_width
    moe               pairs routings touched hidden ffn matrices
    elementwise       n_bytes

Decode's context_tokens are of one sequence; MLA caches one latent of qk_dim elements per token.
"""

import numpy as np

from kernels import coefficients as k
from kernels.attention import decode_attention_us, linear_attention_us, prefill_attention_us
from kernels.dtypes import BFLOAT16, FP8, FP8_BLOCK, INT4_WO, INT8, MXFP4, NVFP4
from kernels.elementwise import elementwise_us
from kernels.gemm import gemm_us
from kernels.jit import kernel
from kernels.moe import moe_us

OP_GEMM_FIRST, OP_GEMM_LAST = k.OP_GEMM_BF16, k.OP_GEMM_INT4_WO
OP_PREFILL_FIRST, OP_PREFILL_LAST = k.OP_PREFILL_GQA, k.OP_PREFILL_MLA_FP8_KV
OP_DECODE_FIRST, OP_DECODE_LAST = k.OP_DECODE_GQA, k.OP_DECODE_MLA_FP8_KV
OP_MOE_FIRST, OP_MOE_LAST = k.OP_MOE_BF16, k.OP_MOE_INT4_WO
OP_LINEAR_FIRST, OP_LINEAR_LAST = k.OP_LINEAR_PREFILL, k.OP_LINEAR_DECODE
OP_STREAM = k.OP_ELEMENTWISE
OP_PREFILL_MLA_FIRST, OP_DECODE_MLA_FIRST = k.OP_PREFILL_MLA, k.OP_DECODE_MLA

DTYPE_OF_OP = np.full(k.N_OPS, BFLOAT16)
"""A weight format that runs on each row of the coefficients."""
for _op, _dtype in (
    (k.OP_GEMM_FP8, FP8),
    (k.OP_GEMM_FP8_BLOCK, FP8_BLOCK),
    (k.OP_GEMM_INT8, INT8),
    (k.OP_GEMM_NVFP4, NVFP4),
    (k.OP_GEMM_MXFP4, MXFP4),
    (k.OP_GEMM_INT4_WO, INT4_WO),
    (k.OP_MOE_FP8, FP8),
    (k.OP_MOE_FP8_BLOCK, FP8_BLOCK),
    (k.OP_MOE_NVFP4, NVFP4),
    (k.OP_MOE_MXFP4, MXFP4),
    (k.OP_MOE_INT4_WO, INT4_WO),
):
    DTYPE_OF_OP[_op] = _dtype


@kernel
def sample_times_us(op, shapes, p, c, out):
    """Fill `out` (n,) with the times of `shapes` (n, columns of the class) at row `op` of `c`, us."""
    dtype = DTYPE_OF_OP[op]
    for i in range(shapes.shape[0]):
        s = shapes[i]
        if OP_GEMM_FIRST <= op <= OP_GEMM_LAST:
            out[i] = gemm_us(s[0], s[1], s[2], dtype, p, c)
        elif OP_PREFILL_FIRST <= op <= OP_PREFILL_LAST:
            mla = 1.0 if op >= OP_PREFILL_MLA_FIRST else 0.0
            out[i] = prefill_attention_us(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], mla, p, c)
        elif OP_DECODE_FIRST <= op <= OP_DECODE_LAST:
            mla = 1.0 if op >= OP_DECODE_MLA_FIRST else 0.0
            elements = s[5] if mla > 0.0 else s[4] * (s[5] + s[6])
            out[i] = decode_attention_us(
                s[0], s[0] * s[1], s[2], s[3], s[4], s[5], s[6], elements * s[7], mla, p, c
            )
        elif OP_LINEAR_FIRST <= op <= OP_LINEAR_LAST:
            out[i] = linear_attention_us(s[0], s[1], s[2], s[3], s[4], s[5], p, c)
        elif OP_MOE_FIRST <= op <= OP_MOE_LAST:
            out[i] = moe_us(s[0], s[1], s[2], s[3], s[4], s[5], dtype, 1.0, p, c)
        elif op == OP_STREAM:
            out[i] = elementwise_us(s[0], p, c)
        else:
            out[i] = np.nan
