"""Values of a grid's inputs, and its models, over rows given by their axis codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sweep.axes import Grid
from sweep.catalog.models import resolve_model
from sweep.errors import UserError
from sweep.fields import record_dtype

Floats = npt.NDArray[np.float64]
Codes = Sequence[npt.NDArray[np.int64]]


def column_values(grid: Grid, column: str, codes: Codes) -> Floats:
    """An input column over rows with these `codes`; one element where no axis sets it."""
    for axis, code in zip(reversed(grid.axes), reversed(codes), strict=True):
        if column in axis.columns:
            return np.asarray(axis.table[code, axis.columns.index(column)], dtype=np.float64)
    return grid.base[[(record_dtype().names or ()).index(column)]]


def values_at(grid: Grid, column: str, rows: npt.NDArray[np.int64]) -> Floats:
    """The same over row numbers `rows`."""
    for i in reversed(range(len(grid.axes))):
        if column in (axis := grid.axes[i]).columns:
            values = axis.table[:, axis.columns.index(column)]
            return np.asarray(values[grid.code_of(rows, i)], dtype=np.float64)
    return grid.base[[(record_dtype().names or ()).index(column)]]


def model_codes(grid: Grid, codes: Codes) -> npt.NDArray[np.int64]:
    """Index of each row's model in `model_names`."""
    return next(code for axis, code in zip(grid.axes, codes, strict=True) if axis.name == "model")


def model_names(grid: Grid) -> tuple[str, ...]:
    """Catalogue name of each choice of the model axis; empty for a choice of one's own (`--config-dir`)."""
    axis = next(axis for axis in grid.axes if axis.name == "model")
    names = next(label.values for label in axis.labels if label.name == "model")
    return tuple(_catalogued(str(name)) for name in names)


def _catalogued(name: str) -> str:
    try:
        return resolve_model(name).name
    except UserError:
        return ""


def records_of(grid: Grid, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Input records of row numbers, shape (n,): each axis writes its columns over the base."""
    records = np.empty(rows.size, record_dtype())
    flat = records.view(np.float64).reshape(rows.size, -1)
    flat[:] = grid.base
    place = {name: i for i, name in enumerate(record_dtype().names or ())}
    for axis, code in zip(grid.axes, grid.codes_of(rows), strict=True):
        flat[:, [place[column] for column in axis.columns]] = axis.table[code]
    return records
