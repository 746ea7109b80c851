"""Casting activations before low-precision GEMMs where the user names the format."""

import numpy as np

from kernels.elementwise import elementwise_us
from kernels.jit import inlined, kernel

CAST_WIDTH_BYTES = np.array([0.0, 0.0, 1.0, 0.53125, 0.5625])
"""Bytes written per element, in the registry's order: none, bfloat16, fp8, mxfp4, nvfp4 (scales included)."""


@inlined
def cast_is_given(p):
    """Whether the cast is the user's and no longer part of the fitted GEMM times."""
    return not np.isnan(p.act_quant_dtype)


@kernel
def cast_us(tokens, routings, p, d, c):
    """Casts of one forward pass, us: (2 + w) bytes per element of every GEMM input.

    Dense layers cast the inputs of attention, MLP and down projection (2 h + f), MoE layers the attention's (h) and, per
    routing on this rank, the experts' (h + f).
    """
    width = CAST_WIDTH_BYTES[int(p.act_quant_dtype)]
    if width <= 0.0:
        return 0.0
    per_element = 2.0 + width
    t = 0.0
    if d.dense_layers > 0.0:
        elements = tokens * (2.0 * p.hidden_size + d.ffn_local)
        t += d.dense_layers * elementwise_us(per_element * elements, p, c)
    if d.moe_layers > 0.0:
        elements = tokens * p.hidden_size + routings * (p.hidden_size + d.moe_ffn_local)
        t += d.moe_layers * elementwise_us(per_element * elements, p, c)
    return t
