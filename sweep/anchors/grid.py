"""Measured points on the rows of a grid: one correction per deployment, along the loads put on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernels.evaluate import LOAD_RATE
from kernels.layout import RESULT_INDEX
from sweep.anchors.apply import scale
from sweep.anchors.correction import Anchors, Correction
from sweep.anchors.regime import regime_of
from sweep.anchors.store import load
from sweep.axes import Grid
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.grid_columns import Floats, column_values, model_codes, model_names, records_of
from sweep.intervals import CHANGED

ALONG = frozenset(
    ("concurrency", "num_prompts", "request_rate", "arrival", "usd_per_gpu_hour", "utilization")
)
"""Input columns along which one deployment's correction is read; any other makes another deployment."""
PREFILL_RATE = "prefill_rate_us_per_token"


@dataclass(frozen=True)
class GridAnchors:
    """Anchors and the coefficients that price the grid's rows."""

    anchors: Anchors
    fitted: Floats

    @property
    def told(self) -> str:
        """What there is, in a line."""
        points, unused = len(self.anchors.points), self.anchors.unused
        first = f"; {len(unused)} cannot be used ({unused[0]})" if unused else ""
        return f"anchored to {points} measured points of {len(self.anchors.places)} models and accelerators{first}"

    @property
    def digest(self) -> str:
        """Identity of the measured points."""
        return ",".join(sorted(point.anchor.identity for point in self.anchors.points))

    def correct(self, grid: Grid, rows: npt.NDArray[np.int64], results: Floats) -> dict[str, Floats]:
        """Scale `results` (len(rows), N_OUT) in place; the weight of each row's correction, by latency."""
        codes = grid.codes_of(rows)
        factors = {name: np.ones(rows.size) for name in ("ttft_ms", "tpot_ms")}
        weights = {name: np.zeros(rows.size) for name in factors}
        mode = np.broadcast_to(column_values(grid, "load", codes), rows.shape)
        asked = np.broadcast_to(column_values(grid, "concurrency", codes), rows.shape)
        in_flight = np.where(mode == LOAD_RATE, results[:, RESULT_INDEX["resident"]], asked)
        for where in _deployments(grid, codes, self._measured(grid, codes)):
            found = self._correction(grid, rows[where[0]], in_flight[where])
            if found is not None:
                factors["ttft_ms"][where], factors["tpot_ms"][where] = found.ttft, found.tpot
                weights["ttft_ms"][where], weights["tpot_ms"][where] = found.ttft_weight, found.tpot_weight
        scale(results, factors["ttft_ms"], factors["tpot_ms"], mode)
        return weights

    def _measured(self, grid: Grid, codes: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.intp]:
        """Positions of rows whose model and accelerator were measured at all, as the catalogue has them."""
        if any(key.startswith(CHANGED) for key in grid.given):
            return np.empty(0, np.intp)
        pairs = [
            [(model, hardware) in self.anchors.places for hardware in grid.hardware]
            for model in model_names(grid)
        ]
        hardware = np.broadcast_to(column_values(grid, "hardware_index", codes), codes[0].shape).astype(
            np.int64
        )
        return np.flatnonzero(np.array(pairs)[model_codes(grid, codes), hardware])

    def _correction(self, grid: Grid, row: int, in_flight: Floats) -> Correction | None:
        record = records_of(grid, np.array([row]))
        derived = evaluate(record, self.fitted).derived[0]
        p = record[0]
        model = model_names(grid)[int(model_codes(grid, grid.codes_of(np.array([row])))[0])]
        regime = regime_of(model, grid.hardware[int(p["hardware_index"])], p, derived)
        return self.anchors.correction(regime, p, derived, in_flight)


def _deployments(
    grid: Grid, codes: Sequence[npt.NDArray[np.int64]], positions: npt.NDArray[np.intp]
) -> list[npt.NDArray[np.intp]]:
    """`positions` split by deployment: rows that differ in load alone stay together."""
    if positions.size == 0:
        return []
    number = np.zeros(positions.size, np.int64)
    for axis, code in zip(grid.axes, codes, strict=True):
        if not ALONG.issuperset(axis.columns):
            number = number * axis.radix + code[positions]
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order])) + 1
    return np.split(positions[order], starts)


def grid_anchors(grid: Grid, fitted: Floats) -> GridAnchors | None:
    """The anchors of a run with fidelity=anchored; None for other rungs. Raises UserError where none are given."""
    if grid.settings["fidelity.level"] != "anchored":
        return None
    path = grid.settings["fidelity.anchors"] or grid.settings["fidelity.load_benchmark"]
    if not path:
        raise UserError(
            "fidelity=anchored needs measured points", field="fidelity.anchors", allowed="a file or folder"
        )
    if not np.isnan(column_values(grid, PREFILL_RATE, grid.codes_of(np.array([0])))).all():
        raise UserError(
            "anchors measure TTFT already",
            field=f"host.{PREFILL_RATE}",
            allowed="null with fidelity=anchored",
        )
    points, _ = load(Path(str(path)))
    spread = float(np.ravel(column_values(grid, "decode_spread", grid.codes_of(np.array([0]))))[0])
    return GridAnchors(Anchors(points, decode_spread=spread), fitted)
