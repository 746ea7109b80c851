"""p10 and p90 of the latency estimates and the evidence behind them, for one deployment and for the rows of a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.anchors.laws import remaining_width
from sweep.axes import Grid
from sweep.catalog.engine_layer import NEAR, Interval, interval
from sweep.fields.engine import ENGINES
from sweep.grid_columns import Codes, column_values, model_codes, model_names
from sweep.results import BOUNDS, EVIDENCE, EVIDENCE_WORDS, LOWER_BOUND

Weights = Mapping[str, npt.NDArray[np.float64]]

BELOW_EVERY_ENGINE = Interval(math.nan, math.nan, math.nan, math.nan, LOWER_BOUND)
"""The roofline estimates no engine: it has no interval, whatever runs is slower."""
CHANGED = ("model.", "hardware.")
"""Keys whose change by hand makes another architecture or accelerator than the measured one."""


def interval_of(model: str, hardware: str, engine: str, fidelity: str) -> Interval:
    """The interval of an estimate; `model` is a catalogue name, empty for an architecture changed by hand."""
    return BELOW_EVERY_ENGINE if fidelity == "roofline" else interval(model, hardware, engine)


ANCHORED_NEAR = 0.5
"""Weight of a measured correction from which an estimate counts as measured near."""


def narrowed(found: Interval, ttft_weight: float, tpot_weight: float) -> Interval:
    """The interval after corrections of these weights by measured points."""
    ttft, tpot = (float(remaining_width(weight)) for weight in (ttft_weight, tpot_weight))
    return Interval(
        found.ttft_p10**ttft,
        found.ttft_p90**ttft,
        found.tpot_p10**tpot,
        found.tpot_p90**tpot,
        NEAR if tpot_weight >= ANCHORED_NEAR else found.support,
    )


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
        models = model_names(grid)
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
        self,
        codes: Codes,
        feasible: npt.NDArray[np.bool_],
        latencies: Mapping[str, npt.NDArray[np.float32]],
        weights: Weights | None = None,
    ) -> list[pl.Series]:
        """Columns `BOUNDS` and `EVIDENCE` of rows with these axis codes; `latencies` has ttft_ms and tpot_ms.

        `weights` are those of measured corrections, by latency, where anchors scaled the rows.
        """
        combination = self._combination(codes)
        columns = []
        for bound, factors in zip(BOUNDS, self._factors, strict=True):
            latency = bound.name.rsplit("_", 1)[0]
            factor = factors[combination]
            if weights is not None:
                factor = (factor ** remaining_width(weights[latency])).astype(np.float32)
            columns.append(pl.Series(bound.name, factor * latencies[latency], nan_to_null=True))
        evidence = self._evidence[combination]
        if weights is not None:
            near = weights["tpot_ms"] >= ANCHORED_NEAR
            evidence = np.where(near, EVIDENCE_WORDS.index(NEAR), evidence)
        return [*columns, self._words.gather(np.where(feasible, evidence, len(EVIDENCE_WORDS)))]

    def _combination(self, codes: Codes) -> npt.NDArray[np.int64]:
        """Index of each row's combination; one element where the whole block shares one."""
        inputs = [
            column_values(self._grid, name, codes).astype(np.int64) for name in ("hardware_index", "engine")
        ]
        parts = [p[:1] if (p == p[:1]).all() else p for p in (model_codes(self._grid, codes), *inputs)]
        index: npt.NDArray[np.int64] = np.ravel_multi_index(np.broadcast_arrays(*parts), self._shape)
        return index
