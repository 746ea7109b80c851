"""Reading inputs that may be "auto" (NaN)."""

import numpy as np

from kernels.jit import inlined


@inlined
def given(value):
    """Whether a value was set by the user."""
    return not np.isnan(value)


@inlined
def default_to(value, fallback):
    """`value`, or `fallback` where it is auto."""
    return fallback if np.isnan(value) else value
