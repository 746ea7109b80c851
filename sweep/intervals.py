"""p10 and p90 of the latency estimates and the evidence behind them, for one deployment and for the rows of a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.axes import Grid
from sweep.catalog.engine_layer import Interval, interval
from sweep.catalog.models import resolve_model
from sweep.fields import record_dtype
from sweep.fields.engine import ENGINES
from sweep.results import BOUNDS, EVIDENCE, EVIDENCE_WORDS, LOWER_BOUND

Codes = Sequence[npt.NDArray[np.int64]]

BELOW_EVERY_ENGINE = Interval(math.nan, math.nan, math.nan, math.nan, LOWER_BOUND)
"""The roofline estimates no engine: it has no interval, whatever runs is slower."""
CHANGED = ("model.", "hardware.")
"""Keys whose change by hand makes another architecture or accelerator than the measured one."""


def interval_of(model: str, hardware: str, engine: str, fidelity: str) -> Interval:
    """The interval of an estimate; `model` is a catalogue name, empty for an architecture changed by hand."""
    return BELOW_EVERY_ENGINE if fidelity == "roofline" else interval(model, hardware, engine)


def bounds_of(found: Interval, ttft_ms: float, tpot_ms: float) -> dict[str, float]:
    """The interval's bounds in ms, by column name."""
    return {name: f * (ttft_ms if name.startswith("ttft") else tpot_ms) for name, f in _factors(found)}


def _factors(found: Interval) -> list[tuple[str, float]]:
    factors = (found.ttft_p10, found.ttft_p90, found.tpot_p10, found.tpot_p90)
    return [(column.name, factor) for column, factor in zip(BOUNDS, factors, strict=True)]


class GridIntervals:
    """Intervals of one grid's rows: one entry per combination of model, accelerator and engine, gathered per block."""

    def __init__(self, grid: Grid) -> None:
        changed = any(key.startswith(CHANGED) for key in grid.given)
        fidelity = str(grid.settings["fidelity.level"])
        models = _model_names(grid)
        found = [
            interval_of("" if changed else model, hardware, engine, fidelity)
            for model in models
            for hardware in grid.hardware
            for engine in ENGINES
        ]
        self._grid = grid
        self._shape = (len(models), len(grid.hardware), len(ENGINES))
        self._factors = np.array([[f for _, f in _factors(x)] for x in found], np.float32).T.copy()
        self._evidence = np.array([EVIDENCE_WORDS.index(x.support) for x in found])
        words = pl.Enum(list(EVIDENCE_WORDS))
        self._words = pl.Series(EVIDENCE.name, [*EVIDENCE_WORDS, None], dtype=words)

    def series(
        self, codes: Codes, feasible: npt.NDArray[np.bool_], latencies: Mapping[str, npt.NDArray[np.float32]]
    ) -> list[pl.Series]:
        """Columns `BOUNDS` and `EVIDENCE` of rows with these axis codes; `latencies` has ttft_ms and tpot_ms."""
        combination = self._combination(codes)
        columns = []
        for bound, factors in zip(BOUNDS, self._factors, strict=True):
            estimate = latencies[bound.name.rsplit("_", 1)[0]]
            columns.append(pl.Series(bound.name, factors[combination] * estimate, nan_to_null=True))
        evidence = np.where(feasible, self._evidence[combination], len(EVIDENCE_WORDS))
        return [*columns, self._words.gather(evidence)]

    def _combination(self, codes: Codes) -> npt.NDArray[np.int64]:
        """Index of each row's combination; one element where the whole block shares one."""
        model = next(c for a, c in zip(self._grid.axes, codes, strict=True) if a.name == "model")
        parts = (model, *(self._column(name, codes) for name in ("hardware_index", "engine")))
        parts = tuple(p[:1] if p.size and (p == p[0]).all() else p for p in parts)
        index: npt.NDArray[np.int64] = np.ravel_multi_index(np.broadcast_arrays(*parts), self._shape)
        return index

    def _column(self, column: str, codes: Codes) -> npt.NDArray[np.int64]:
        for axis, code in zip(reversed(self._grid.axes), reversed(codes), strict=True):
            if column in axis.columns:
                values = axis.table[:, axis.columns.index(column)].astype(np.int64)
                return np.asarray(values[code], dtype=np.int64)
        position = (record_dtype().names or ()).index(column)
        return self._grid.base[[position]].astype(np.int64)


def _model_names(grid: Grid) -> tuple[str, ...]:
    """Catalogue names of the grid's models."""
    axis = next(axis for axis in grid.axes if axis.name == "model")
    names = next(label.values for label in axis.labels if label.name == "model")
    return tuple(resolve_model(str(name)).name for name in names)
