"""Random numbers of the simulator: splitmix64 on a counter in the clock, so that a seed fixes every byte."""

import numpy as np

from kernels.hashing import SEED, mix
from kernels.jit import internal


@internal
def uniform(w):
    """Next number in [0, 1)."""
    w.random += 1
    x = mix(np.uint64(w.random) * np.uint64(SEED))
    return float(x >> np.uint64(11)) / 9007199254740992.0
