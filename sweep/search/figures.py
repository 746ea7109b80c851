"""What a search weighs: cost against each latency of the frontiers, per scenario, within the SLO where one is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.frame import SLO
from sweep.frontier import COST, FRONTIERS
from sweep.grid_columns import values_at
from sweep.search.space import Rows, Space

Floats = npt.NDArray[np.float64]

WEIGHED = ("row", "feasible", COST, *SLO)
"""Columns of the result table that figures are made of."""


@dataclass(frozen=True)
class Figures:
    """Priced, feasible deployments: logarithms of cost and latencies, and by how much they miss the SLO.

    `logs` has shape (n, 1 + latencies): COST, then FRONTIERS. `excess` is the largest logarithm of a latency over its
    limit, 0 where all are met.
    """

    row: Rows
    scenario: Rows
    logs: Floats
    excess: Floats

    def take(self, where: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Figures:
        return Figures(self.row[where], self.scenario[where], self.logs[where], self.excess[where])

    def joined(self, other: Figures) -> Figures:
        return Figures(
            np.concatenate([self.row, other.row]),
            np.concatenate([self.scenario, other.scenario]),
            np.concatenate([self.logs, other.logs]),
            np.concatenate([self.excess, other.excess]),
        )

    @staticmethod
    def none() -> Figures:
        empty = np.empty(0, np.int64)
        return Figures(empty, empty, np.empty((0, 1 + len(FRONTIERS))), np.empty(0))


def figures_of(space: Space, frame: pl.DataFrame, within_slo: bool) -> Figures:
    """Figures of the rows of a result frame that have a price."""
    known = frame.filter(pl.col("feasible") & pl.col(COST).is_not_null())
    rows = known["row"].to_numpy()
    columns = [known[name].cast(pl.Float64).to_numpy() for name in (COST, *FRONTIERS)]
    excess = np.zeros(rows.size)
    if within_slo:
        for name in SLO:
            over = known[name].cast(pl.Float64).to_numpy() / values_at(space.grid, name, rows)
            excess = np.fmax(excess, np.log(over))
    return Figures(rows, space.scenario(rows), np.log(np.column_stack(columns)), excess)


def limits_of(space: Space, rows: Rows) -> Floats:
    """Logarithms of the SLO's limits on the latencies of FRONTIERS, shape (n, latencies); NaN without a limit."""
    limits = [np.broadcast_to(values_at(space.grid, name, rows), rows.shape) for name in FRONTIERS]
    return np.log(np.column_stack(limits))
