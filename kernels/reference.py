"""A reference for the speed of a machine: work that no change of ours makes faster or slower."""

from kernels.jit import kernel


@kernel
def dependent_divisions(n):
    """`n` rounds of x -> 1 / (x + 1/2), each waiting for the one before: the latency of an addition and a division."""
    x = 1.0
    for _ in range(n):
        x = 1.0 / (x + 0.5)
    return x
