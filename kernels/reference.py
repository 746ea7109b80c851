"""A reference for the speed of a machine: work that no change of ours makes faster or slower."""

import math

import numpy as np

from kernels.jit import kernel

REFERENCE_RECORDS = 2048
"""Of eight numbers: 128 KiB, in the second-level cache like the rows and coefficients of a block."""


def reference_table():
    """Input of `mixed_rounds`: float64 (REFERENCE_RECORDS, 8), between 0.5 and 1.5."""
    return np.random.default_rng(0).random((REFERENCE_RECORDS, 8)) + 0.5


@kernel
def mixed_rounds(n, table):
    """`n` rounds of what a row of a grid is made of: t = max(a/b, c/d), then b*exp(-t) or d*ln(1+t), ceil(e/f)*a/(b+c), a root, two stores.

    As in a row, branches follow the data and rounds can overlap, so that whoever shares the core slows both alike.
    A chain of divisions, each waiting for the one before, leaves most of a core free and feels no neighbour.
    """
    total = 0.0
    for i in range(n):
        r = i % table.shape[0]
        a, b, c, d = table[r, 0], table[r, 1], table[r, 2], table[r, 3]
        e, f = table[r, 4], table[r, 5]
        t = max(a / b, c / d)
        if a > c:
            t += math.exp(-t) * b
        else:
            t += math.log(1.0 + t) * d
        t += math.ceil(e / f) * a / (b + c)
        if t > e:
            t = math.sqrt(t * f)
        table[r, 6] = t
        table[r, 7] = t / (e + f)
        total += t
    return total
