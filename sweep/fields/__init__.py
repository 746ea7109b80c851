"""The field registry: every input of the model, declared once.

From it come the Hydra schema, the command lines, validation, the kernel record and the docs.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kernels.mode import record_type
from sweep.fields import (
    attention,
    cluster,
    comms,
    des,
    disagg,
    engine,
    hardware,
    host,
    model,
    moe,
    parallelism,
    precision,
    price,
    serving_sim,
    speculation,
    traffic,
    workload,
)
from sweep.fields.spec import SAME, Expect, Field, Seed

__all__ = ["FIELDS", "SAME", "Expect", "Field", "Seed", "by_key", "by_name", "encode", "record_dtype"]

FIELDS: tuple[Field, ...] = (
    *model.FIELDS,
    *attention.FIELDS,
    *hardware.FIELDS,
    *cluster.FIELDS,
    *precision.FIELDS,
    *parallelism.FIELDS,
    *moe.FIELDS,
    *engine.FIELDS,
    *host.FIELDS,
    *comms.FIELDS,
    *speculation.FIELDS,
    *disagg.FIELDS,
    *workload.FIELDS,
    *traffic.FIELDS,
    *des.FIELDS,
    *serving_sim.FIELDS,
    *price.FIELDS,
)

LOOKUPS = ("hardware_index", "architecture_index")
"""Columns the composition fills: which rows of the fitted coefficients belong to this deployment."""


@cache
def by_key() -> dict[str, Field]:
    """Fields by Hydra key."""
    return {f.key: f for f in FIELDS}


@cache
def by_name() -> dict[str, Field]:
    """Fields by kernel column (short name). Short names of kernel columns are unique."""
    return {f.name: f for f in FIELDS if f.column}


@cache
def record_dtype() -> np.dtype[np.void]:
    """The kernel's input record: one float64 per field, so that a record is also a flat vector.

    Choices are their index, booleans 0 or 1, "auto" is NaN.
    """
    names = [f.name for f in FIELDS if f.column] + list(LOOKUPS)
    if len(set(names)) != len(names):
        doubled = sorted({n for n in names if names.count(n) > 1})
        raise ValueError(f"two fields share a kernel column: {doubled}")
    return record_type([(n, np.float64) for n in names])  # type: ignore[no-any-return]


def encode(field: Field, value: object) -> float:
    """A field's value as its kernel column holds it. Validation happens before."""
    if value is None:
        return float("nan")
    if field.kind == "choice":
        return float(field.choices.index(str(value)))
    return float(value)  # type: ignore[arg-type]
