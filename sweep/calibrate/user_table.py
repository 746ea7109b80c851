"""Samples from a user's own CSV: one measured call per row.

Columns: hardware, engine, op (a row name of conf/hardware/fitted), us, and the arguments of the operator's class
(`sweep.calibrate.samples.ARGUMENTS`); a column `group` names what the held-out check leaves out together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from sweep.calibrate.samples import ARGUMENTS, Samples
from sweep.catalog.fitted import OPERATORS, operator_class
from sweep.catalog.hardware import resolve_hardware
from sweep.errors import UserError, nearest
from sweep.fields.engine import ENGINES
from sweep.table_io import need, numbers, read_table


def read_user_table(file: Path) -> Iterator[Samples]:
    """Samples by accelerator, engine and operator. Raises UserError where a column is missing or a value unknown."""
    table = read_table(file)
    try:
        need(table, ("hardware", "engine", "op", "us"))
    except UserError as error:
        raise error.located(file.name, None) from None
    us = numbers(table, "us", file)
    if us.null_count() or not ((us > 0) & us.is_finite()).all():
        raise UserError("times must be above 0", file=file.name, field="us")
    table = table.with_columns(us)
    keys = ["hardware", "engine", "op"]
    for (hardware, engine, op), own in table.group_by(keys, maintain_order=True):
        if op not in OPERATORS:
            raise UserError(
                "is no operator", file=file.name, field="op", value=op, near=nearest(str(op), OPERATORS)
            )
        if engine not in ENGINES:
            raise UserError(
                "is no engine", file=file.name, field="engine", value=engine, allowed=", ".join(ENGINES)
            )
        arguments = ARGUMENTS[operator_class(str(op))]
        missing = [name for name in arguments if name not in own.columns or own[name].null_count()]
        if missing:
            raise UserError(f"column is missing or empty for {op}", file=file.name, field=missing[0])
        shapes = own.select(numbers(own, argument) for argument in arguments).to_numpy()
        label = own["group"].cast(pl.String) if "group" in own.columns else pl.Series(range(own.height))
        groups = label.rank("dense").cast(pl.Int64).to_numpy()
        name = resolve_hardware(str(hardware)).name
        times = own["us"].to_numpy()
        yield Samples(name, str(engine), str(op), np.ascontiguousarray(shapes), times, groups, file.name)
