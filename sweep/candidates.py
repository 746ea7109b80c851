"""Which rows of a sweep are worth simulating: candidates of the frontier, and their neighbours on the grid."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sweep.axes import Axis, Grid
from sweep.frontier import COST, FRONTIERS
from sweep.grid_columns import records_of

Rows = NDArray[np.int64]


def record_of(grid: Grid, row: int) -> NDArray[np.float64]:
    """Input record of a row as a flat vector: each axis writes its columns over the base."""
    return records_of(grid, np.array([row])).view(np.float64)


def chosen(frontier: pl.DataFrame, top: int, scenario: list[str]) -> Rows:
    """`top` rows of a frontier table: half the cheapest that meet the SLO, half spread evenly along the frontiers by cost.

    Scenarios (rows alike in the columns `scenario`) take turns, and accelerators within one. Empty where no row has a
    price.
    """
    priced = frontier.filter(pl.col("feasible") & pl.col(COST).is_not_null()).sort(COST, "row")
    meeting = priced.filter(pl.col("meets_slo")).unique(
        [*scenario, "hardware"], keep="first", maintain_order=True
    )
    turn = pl.col(COST).rank("ordinal").over(scenario)
    cheapest = meeting.sort(turn, COST, "row").head((top + 1) // 2)
    others = priced.filter(_on_frontier(priced) & ~pl.col("row").is_in(cheapest["row"].implode()))
    left = min(top - cheapest.height, others.height)
    spread = np.unique(np.linspace(0, max(others.height - 1, 0), left).round().astype(np.int64))
    return np.concatenate([cheapest["row"].to_numpy(), others["row"].to_numpy()[spread]]).astype(np.int64)


def _on_frontier(frame: pl.DataFrame) -> pl.Expr:
    marks = [f"frontier_{latency}" for latency in FRONTIERS if f"frontier_{latency}" in frame.columns]
    return pl.any_horizontal(marks) if marks else pl.lit(True)


def with_neighbours(grid: Grid, rows: Rows) -> Rows:
    """The rows and, one step up and down each ordered axis, the rows beside them; each once, in row order."""
    found = set(rows.tolist())
    for axis, stride in zip(grid.axes, grid.strides(), strict=True):
        if not _is_ordered(axis):
            continue
        code = rows // stride % axis.radix
        found |= set((rows[code > 0] - stride).tolist()) | set(
            (rows[code < axis.radix - 1] + stride).tolist()
        )
    return np.array(sorted(found), dtype=np.int64)


def _is_ordered(axis: Axis) -> bool:
    """Whether an axis has an order in which neighbours are alike: numbers, and parallel shapes as listed."""
    if axis.name == "parallelism":
        return True
    numbers = [label.field for label in axis.labels if label.field is not None]
    return "." in axis.name and bool(numbers) and all(field.kind in ("int", "float") for field in numbers)
