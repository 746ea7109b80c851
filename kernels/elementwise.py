"""Norms, activations, rotary embedding, casts: whatever only streams bytes."""

from kernels.coefficients import MEMORY_EFFICIENCY, OP_ELEMENTWISE, OVERHEAD_US
from kernels.jit import inlined
from kernels.units import BYTES_PER_US_PER_GB_S


@inlined
def elementwise_us(n_bytes, p, c):
    """Time to stream `n_bytes` (read + written) through memory: overhead + bytes / (bandwidth * em), us."""
    return c[OP_ELEMENTWISE, OVERHEAD_US] + n_bytes / (
        p.hbm_gb_s * BYTES_PER_US_PER_GB_S * c[OP_ELEMENTWISE, MEMORY_EFFICIENCY]
    )
