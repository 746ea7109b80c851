"""Random numbers of the simulator: splitmix64 on a counter in the clock, so that a seed fixes every byte."""

import numpy as np

from kernels.jit import internal


@internal
def mix(x):
    """splitmix64 finaliser of an unsigned 64-bit word."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@internal
def uniform(w):
    """Next number in [0, 1)."""
    w.random += 1
    x = mix(np.uint64(w.random) * np.uint64(0x9E3779B97F4A7C15))
    return float(x >> np.uint64(11)) / 9007199254740992.0
