"""Scaling what an operator's fitted curve loses against its roofline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sweep.catalog.fitted import COLUMNS, OPS, operator_class

Floats = npt.NDArray[np.float64]

EFFICIENCIES = ("compute_efficiency", "memory_efficiency")
PASSES = ("kv_passes", "qo_passes", "activation_passes")
"""Columns whose ideal is 1 pass."""
GEOMETRY = ("exposed", "tile_tokens", "softmax_dim", "pad_rows", "tile_rows")
"""Columns that a better kernel lowers, but that a slower one does not raise: tiles and hiding have their limits."""


def scale_losses(c: Floats, operator: str, factor: Floats) -> None:
    """Multiply the losses of `operator` in coefficients (n, N_OPS, N_COEF) by `factor` (n,), in place.

    Time over roofline time, less one, changes by the factor: 1 / efficiency - 1, passes - 1, and every overhead. At 0
    the operator is its roofline; no factor makes it faster.
    """
    rows = c[:, OPS[operator]]
    for place, name in enumerate(COLUMNS[operator_class(operator)]):
        column = rows[:, place]
        if name in EFFICIENCIES:
            column[:] = 1.0 / (1.0 + (1.0 / column - 1.0) * factor)
        elif name in PASSES:
            column[:] = 1.0 + (column - 1.0) * factor
        else:
            column *= np.minimum(factor, 1.0) if name in GEOMETRY else factor
