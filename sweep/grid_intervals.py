"""p10, p90 and evidence of the rows of a grid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.anchors.laws import remaining_width
from sweep.axes import Grid
from sweep.catalog.engine_layer import NEAR
from sweep.fields.engine import ENGINES
from sweep.grid_columns import Codes, column_values, model_codes, model_names
from sweep.intervals import ANCHORED_NEAR, CHANGED, factors_of, interval_of, is_inside
from sweep.results import BOUNDS, EVIDENCE, EVIDENCE_WORDS

Weights = Mapping[str, npt.NDArray[np.float64]]


class GridIntervals:
    """Intervals of one grid's rows: one entry per combination of model, accelerator, engine, split and nearness, gathered per block."""

    def __init__(self, grid: Grid) -> None:
        changed = any(key.startswith(CHANGED) for key in grid.given)
        fidelity = str(grid.settings["fidelity.level"])
        models = model_names(grid)
        found = [
            interval_of("" if changed else model, hardware, engine, fidelity, pooled, inside)
            for model in models
            for hardware in grid.hardware
            for engine in ENGINES
            for pooled in (False, True)
            for inside in (False, True)
        ]
        self._grid = grid
        self._shape = (len(models), len(grid.hardware), len(ENGINES), 2, 2)
        self._factors = np.array([[f for _, f in factors_of(x)] for x in found], np.float32).T.copy()
        self._evidence = np.array([EVIDENCE_WORDS.index(x.support) for x in found])
        words = pl.Enum(list(EVIDENCE_WORDS))
        self._words = pl.Series(EVIDENCE.name, [*EVIDENCE_WORDS, None], dtype=words)

    def series(
        self,
        codes: Codes,
        feasible: npt.NDArray[np.bool_],
        latencies: Mapping[str, npt.NDArray[np.float32]],
        doublings: npt.NDArray[np.float32],
        weights: Weights | None = None,
    ) -> list[pl.Series]:
        """Columns `BOUNDS` and `EVIDENCE` of rows with these axis codes; `latencies` has ttft_ms and tpot_ms, `doublings` is
        the column doublings_from_measured.

        `weights` are those of measured corrections, by latency, where anchors scaled the rows.
        """
        combination = self._combination(codes, is_inside(doublings))
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

    def _combination(self, codes: Codes, inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Index of each row's combination; one element where the whole block shares one."""
        names = ("hardware_index", "engine", "disaggregate")
        inputs = [column_values(self._grid, name, codes).astype(np.int64) for name in names]
        parts = [
            p[:1] if (p == p[:1]).all() else p
            for p in (model_codes(self._grid, codes), *inputs, inside.astype(np.int64))
        ]
        index: npt.NDArray[np.int64] = np.ravel_multi_index(np.broadcast_arrays(*parts), self._shape)
        return index
