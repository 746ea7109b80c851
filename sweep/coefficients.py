"""Which efficiency coefficients price the accelerators of one run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sweep.fidelity import coefficients_for


def coefficients(hardware: Sequence[str], level: str) -> npt.NDArray[np.float64]:
    """Coefficients of accelerators (catalogue names), shape (len(hardware), engines, N_OPS, N_COEF).

    `level` is a choice of `fidelity.level`.
    """
    return coefficients_for(level, tuple(hardware))
