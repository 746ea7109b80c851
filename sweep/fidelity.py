"""Coefficients of each rung of the fidelity ladder, for every accelerator of the catalogue and every engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.coefficients import N_COEF, N_OPS, roofline_coefficients
from sweep.catalog.architecture import architecture_codes
from sweep.catalog.engine_layer import known_architectures, with_engine_layer
from sweep.catalog.fitted import load_fitted
from sweep.catalog.hardware import hardware_names
from sweep.errors import UserError, nearest
from sweep.fields.engine import ENGINES

Coefficients = npt.NDArray[np.float64]
RUNGS = ("roofline", "fitted", "anchored")


def base_of(fidelity: str) -> str:
    """The rung whose coefficients a rung starts from: measured points scale the fitted one."""
    return "fitted" if fidelity == "anchored" else fidelity


@cache
def coefficients_for(fidelity: str, hardware: tuple[str, ...] | None = None) -> Coefficients:
    """Coefficients (architecture, hardware, engine, N_OPS, N_COEF) of a rung; accelerators by catalogue name (all, in its order).

    `roofline`: datasheet peaks. `fitted`: operator curves, then collectives, then the engine layer, each from
    conf/hardware/fitted. Raises UserError for another name: `tables` and `anchored` have no coefficients of their own.
    """
    names = hardware_names() if hardware is None else hardware
    if fidelity == "roofline":
        shape = (len(known_architectures()), len(names), len(ENGINES), N_OPS, N_COEF)
        table = np.broadcast_to(roofline_coefficients(), shape).copy()
    elif fidelity == "fitted":
        table = _fitted(names)
    elif fidelity == "anchored":
        raise UserError(
            "scales what estimate, points and sweep say, not this; fitted is what it starts from",
            field="fidelity",
            value=fidelity,
            allowed="roofline, fitted",
        )
    elif fidelity == "tables":
        raise UserError(
            "prices one deployment at a time: servesweep estimate --operator-profiles DIR; for tables and grids fit them "
            "(servesweep calibrate operators DIR) and use fitted",
            field="fidelity",
            value=fidelity,
            allowed=", ".join(RUNGS),
        )
    else:
        raise UserError(
            "not a fidelity",
            field="fidelity",
            value=fidelity,
            allowed=", ".join(RUNGS),
            near=nearest(fidelity, RUNGS),
        )
    table.setflags(write=False)
    return table


def _fitted(names: tuple[str, ...]) -> Coefficients:
    return with_engine_layer(load_fitted(names).coefficients, names)


def coefficients_of(table: Coefficients, record: Any) -> Coefficients:
    """The coefficients (N_OPS, N_COEF) of one input record (shape (1,) or a scalar of it) in a table of `coefficients_for`."""
    one = np.atleast_1d(record)
    code = architecture_codes(one, known_architectures())[0]
    return np.ascontiguousarray(table[code, int(one["hardware_index"][0]), int(one["engine"][0])])
