"""Measured points on the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.evaluate import LOAD_RATE
from kernels.layout import N_OUT
from kernels.reasons import OK
from sweep.anchors.apply import scale
from sweep.anchors.correction import Anchors
from sweep.anchors.laws import Floats
from sweep.anchors.regime import regime_of
from sweep.anchors.store import load
from sweep.evaluation import Evaluated
from sweep.point_rows import Place


@dataclass
class PointAnchors:
    """Anchors for rows of a table (`sweep.points.PointCorrector`)."""

    anchors: Anchors
    scaled: int = 0
    """Rows that a measured point has scaled so far."""

    def told(self) -> list[str]:
        """What a person should know once rows were corrected: points that cannot be used, and that none applied."""
        unused = self.anchors.unused
        lines = [f"{len(unused)} points cannot be used ({unused[0]})"] if unused else []
        if not self.scaled:
            lines.append("no measured point is of the regime of any row: the estimates are the model's own")
        return lines

    def correct(
        self, places: Sequence[Place | None], records: npt.NDArray[Any], evaluated: Evaluated
    ) -> dict[str, Floats]:
        """Scale the results of rows in place; the weight of each row's correction, by latency."""
        results, n = evaluated.results, len(places)
        factors = {name: np.ones(n) for name in ("ttft_ms", "tpot_ms")}
        weights = {name: np.zeros(n) for name in factors}
        for i, place in enumerate(places):
            if place is None or place[:2] not in self.anchors.places or results["reason"][i] != OK:
                continue
            p, d = records[i], evaluated.derived[i]
            in_flight = results["resident"][i] if p["load"] == LOAD_RATE else p["concurrency"]
            found = self.anchors.correction(regime_of(*place[:2], p, d), p, d, np.array([in_flight]))
            if found is not None:
                self.scaled += 1
                factors["ttft_ms"][i], factors["tpot_ms"][i] = found.ttft[0], found.tpot[0]
                weights["ttft_ms"][i], weights["tpot_ms"][i] = found.ttft_weight[0], found.tpot_weight[0]
        scale(
            results.view(np.float64).reshape(n, N_OUT),
            factors["ttft_ms"],
            factors["tpot_ms"],
            records["load"],
        )
        return weights


def point_anchors(store: Path, fidelity: str) -> PointAnchors:
    """Anchors of a store for estimates of a rung. Raises UserError."""
    points, _ = load(store)
    return PointAnchors(Anchors(points, "fitted" if fidelity == "anchored" else fidelity))
