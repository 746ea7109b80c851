"""Blocks of kernel results as polars frames."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.columns import transpose_to_float32
from kernels.layout import N_OUT, RESULT_INDEX
from kernels.reasons import OK
from sweep.axes import Grid, Label
from sweep.grid_columns import Floats, values_at
from sweep.grid_intervals import GridIntervals, Weights
from sweep.results import FEASIBLE, KERNEL_COLUMNS, MEETS_SLO, ROW, Column

SLO = ("ttft_ms", "tpot_ms", "e2e_ms")
"""Limits in the input record and results they bound: the same names."""


class FrameBuilder:
    """Builds the frame of any rows of one grid; labels are made once and gathered per block."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._labels = [[label_series(label) for label in axis.labels] for axis in grid.axes]
        self._intervals = GridIntervals(grid)

    def frame(
        self, rows: npt.NDArray[np.int64], results: Floats, weights: Weights | None = None
    ) -> pl.DataFrame:
        """Frame of `rows` (row numbers) whose results are `results`, shape (n, N_OUT); `weights` of measured corrections."""
        codes = self.grid.codes_of(rows)
        columns = [pl.Series(ROW.name, rows)]
        for labels, code in zip(self._labels, codes, strict=True):
            columns += [label.gather(code) for label in labels]
        feasible = results[:, RESULT_INDEX["reason"]] == OK
        columns += self._verdicts(rows, results, feasible)
        by_column = np.empty((N_OUT, rows.size), np.float32)
        transpose_to_float32(results, by_column)
        columns += [
            _series(c, (by_column if c.kind == "float" else results.T)[RESULT_INDEX[c.name]])
            for c in KERNEL_COLUMNS
        ]
        latencies = {name: by_column[RESULT_INDEX[name]] for name in ("ttft_ms", "tpot_ms")}
        doublings = by_column[RESULT_INDEX["doublings_from_measured"]]
        columns += self._intervals.series(codes, feasible, latencies, doublings, weights)
        return pl.DataFrame(columns)

    def narrow(self, rows: npt.NDArray[np.int64], results: Floats, names: Collection[str]) -> pl.DataFrame:
        """The columns `names` of `frame`: row, feasible, meets_slo and some of the kernel's."""
        columns = [pl.Series(ROW.name, rows)]
        columns += self._verdicts(rows, results, results[:, RESULT_INDEX["reason"]] == OK)
        for column in KERNEL_COLUMNS:
            if column.name in names:
                values = results[:, RESULT_INDEX[column.name]]
                stored = values.astype(np.float32) if column.kind == "float" else values
                columns.append(_series(column, stored))
        return pl.DataFrame(columns).select(names)

    def _verdicts(
        self, rows: npt.NDArray[np.int64], results: Floats, feasible: npt.NDArray[np.bool_]
    ) -> list[pl.Series]:
        """Whether rows can run, and whether they then meet every limit of the SLO."""
        meets = feasible.copy()
        for name in SLO:
            limit = values_at(self.grid, name, rows)
            meets &= np.isnan(limit) | (results[:, RESULT_INDEX[name]] <= limit)
        return [pl.Series(FEASIBLE.name, feasible), pl.Series(MEETS_SLO.name, meets)]


def label_series(label: Label) -> pl.Series:
    """One value per choice of an axis: numbers as numbers, words as an enumeration."""
    values = list(label.values)
    given = [v for v in values if v is not None]
    kind = label.field.kind if label.field is not None else "text"
    dtype: Any
    if kind == "int":
        dtype = pl.Int32 if all(abs(v) < 2**31 for v in given) else pl.Int64
    elif kind == "float":
        dtype = pl.Float64
    elif kind == "bool":
        dtype = pl.Boolean
    else:
        values = ["auto" if v is None else str(v) for v in values]
        dtype = pl.Enum(list(dict.fromkeys(values)))
    return pl.Series(label.name, values, dtype=dtype)


def _series(column: Column, values: npt.NDArray[np.floating[Any]]) -> pl.Series:
    """A kernel column in its result type (floats as they are given); NaN (no answer) becomes null."""
    if column.kind == "float":
        return pl.Series(column.name, values, nan_to_null=True)
    if column.kind == "bool":
        return pl.Series(column.name, values > 0.0)
    known = ~np.isnan(values)
    whole = np.where(known, values, 0.0)
    if column.kind == "count":
        series = pl.Series(column.name, whole.astype(np.int64))
    else:
        words = pl.Series(column.name, list(column.choices), dtype=pl.Enum(list(column.choices)))
        series = words.gather(whole.astype(np.int64))
    return series if known.all() else series.zip_with(pl.Series(known), pl.Series([None], dtype=series.dtype))
