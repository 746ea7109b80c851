"""Which efficiency coefficients price a run: the fidelity ladder's lower rungs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernels.coefficients import roofline_coefficients
from sweep.fields.engine import ENGINES


def coefficients(hardware: Sequence[str], level: str) -> npt.NDArray[np.float64]:
    """Coefficients of accelerators, shape (len(hardware), engines, N_OPS, N_COEF).

    `level` is a choice of `fidelity.level`: the roofline is efficiency 1 throughout.
    """
    if level != "roofline":
        try:
            from sweep.catalog.fitted import load_fitted
        except ModuleNotFoundError:
            pass
        else:
            return np.asarray(load_fitted(hardware).coefficients, dtype=np.float64)
    ideal = roofline_coefficients()
    return np.broadcast_to(ideal, (len(hardware), len(ENGINES), *ideal.shape)).copy()
