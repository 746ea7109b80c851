"""The Pareto frontier and the cheapest deployments, kept while blocks stream by.

Only comparable rows compete: a scenario is what is given (model, workload, SLO, price book), the rest is the
design. Each accelerator has a frontier of its own within a scenario; the scenario's is the frontier of those. Both summaries are exact whatever the order and size of blocks: ties go to the lower row number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.pareto import cheapest_mask, pareto_mask
from sweep.axes import FASTEST, Axis, Grid, Label

COST = "usd_per_m_total"
FRONTIERS = ("tpot_ms", "ttft_ms")
"""Latencies that cost is weighed against, one frontier each."""
SCENARIO = ("model", "workload", "slo", "price")


class Grouping:
    """Group number of a row, from the choices of the axes whose labels `belongs` accepts."""

    def __init__(self, grid: Grid, *groups: str) -> None:
        self.grid = grid
        ids = [_ids_of_choices(axis, groups) for axis in grid.axes]
        self._ids = {i: ids_of for i, ids_of in enumerate(ids) if ids_of.max() > 0}
        """By number of the axis, those alone that tell groups apart."""
        self.count = prod(int(ids_of.max()) + 1 for ids_of in ids)

    def of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Group numbers of `rows`."""
        group = np.zeros(rows.shape[0], dtype=np.int64)
        for axis, ids in self._ids.items():
            group = group * (int(ids.max()) + 1) + ids[self.grid.code_of(rows, axis)]
        return group


def _ids_of_choices(axis: Axis, groups: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """A number per choice of an axis: choices that agree on every label of `groups` share one."""
    labels = [label for label in axis.labels if _group_of(axis, label) in groups]
    keys = [tuple(label.values[i] for label in labels) for i in range(axis.radix)]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def _group_of(axis: Axis, label: Label) -> str:
    """Config group that a label belongs to; a label without a field names a group's choices itself."""
    if axis.name in FASTEST:
        return ""
    return label.name if label.field is None else label.field.group


@dataclass(frozen=True)
class Points:
    """Rows with their group and two coordinates, in row order."""

    row: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]

    @staticmethod
    def none() -> Points:
        empty = np.empty(0)
        return Points(empty.astype(np.int64), empty.astype(np.int64), empty, empty)

    def take(self, keep: npt.NDArray[np.bool_]) -> Points:
        return Points(self.row[keep], self.group[keep], self.x[keep], self.y[keep])

    def joined(self, other: Points) -> Points:
        row = np.concatenate([self.row, other.row])
        order = np.argsort(row, kind="stable")
        return Points(
            row[order],
            np.concatenate([self.group, other.group])[order],
            np.concatenate([self.x, other.x])[order],
            np.concatenate([self.y, other.y])[order],
        )


def pareto(points: Points) -> Points:
    """Points of their group that no other dominates (smaller is better); of equal ones the lowest row."""
    names, dense = np.unique(points.group, return_inverse=True)
    order = np.argsort(points.x, kind="stable")
    return points.take(pareto_mask(order, dense, points.x, points.y, max(1, names.size)))


def cheapest(points: Points) -> Points:
    """The point of each group with the smallest y; of equal ones the lowest row."""
    names, dense = np.unique(points.group, return_inverse=True)
    return points.take(cheapest_mask(dense, points.y, max(1, names.size)))


def ranks(points: Points) -> npt.NDArray[np.int64]:
    """Place of each point in its group, from 0, the smallest y first; of equal ones the lowest row."""
    order = np.lexsort((points.row, points.y, points.group))
    group = points.group[order]
    first = np.searchsorted(group, group, side="left")
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size) - first
    return places


def cheapest_n(points: Points, n: int) -> Points:
    """The `n` points of each group with the smallest y."""
    return points.take(ranks(points) < n)


@dataclass(frozen=True)
class Summary:
    """What is kept of rows seen so far: each accelerator's frontiers, the cheapest rows that meet the SLO, and counts.

    `top` are the `n_top` cheapest of each scenario and accelerator; `best` the first of those.
    """

    frontiers: tuple[Points, ...]
    """One per latency of `FRONTIERS`, within each scenario and accelerator."""
    best: Points
    reasons: dict[str, int]
    priced: int
    meets_slo: int
    top: Points = field(default_factory=Points.none)
    n_top: int = 0

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows that are kept for any reason, in order."""
        return np.unique(np.concatenate([p.row for p in (*self.frontiers, self.best, self.top)]))

    def joined(self, other: Summary) -> Summary:
        pairs = zip(self.frontiers, other.frontiers, strict=True)
        names = dict.fromkeys([*self.reasons, *other.reasons])
        return Summary(
            frontiers=tuple(pareto(a.joined(b)) for a, b in pairs),
            best=cheapest(self.best.joined(other.best)),
            reasons={n: self.reasons.get(n, 0) + other.reasons.get(n, 0) for n in names},
            priced=self.priced + other.priced,
            meets_slo=self.meets_slo + other.meets_slo,
            top=cheapest_n(self.top.joined(other.top), max(self.n_top, other.n_top)),
            n_top=max(self.n_top, other.n_top),
        )

    @staticmethod
    def nothing() -> Summary:
        return Summary(tuple(Points.none() for _ in FRONTIERS), Points.none(), {}, 0, 0)


class Running:
    """The summary of blocks that stream by, in O(n log n) whatever the size of the frontier.

    Summaries are joined with those of as many blocks only, as a binary counter carries: a point takes part in at
    most log2(blocks) joins, where one summary that takes each block in turn would sort a long frontier for each.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, Summary]] = []

    def add(self, summary: Summary) -> None:
        """Take in the summary of one more block."""
        blocks = 1
        while self._held and self._held[-1][0] == blocks:
            blocks *= 2
            summary = self._held.pop()[1].joined(summary)
        self._held.append((blocks, summary))

    def total(self) -> Summary:
        """Summary of all blocks so far."""
        return reduce(lambda done, one: one[1].joined(done), reversed(self._held), Summary.nothing())


class Summariser:
    """Summarises frames of one grid; `n_top` cheapest rows of each contest are kept besides the frontiers."""

    columns = ("row", "feasible", "reason", "meets_slo", COST, *FRONTIERS)
    """What a summary is made of."""

    def __init__(self, grid: Grid, n_top: int = 0) -> None:
        self.n_top = n_top
        self._scenario = Grouping(grid, *SCENARIO)
        self._contest = Grouping(grid, *SCENARIO, "hardware")

    def summary(self, frame: pl.DataFrame) -> Summary:
        """Summary of a block, from the values as they are stored."""
        narrow = frame.select("row", "feasible", "meets_slo", COST, *FRONTIERS)
        priced = narrow.filter(pl.col("feasible") & pl.col(COST).is_not_null())
        group = self._contest.of(priced["row"].to_numpy())
        meets = priced["meets_slo"].to_numpy()
        counts = frame["reason"].value_counts(sort=False)
        within = _points(priced, group, FRONTIERS[0]).take(meets)
        return Summary(
            frontiers=tuple(pareto(_points(priced, group, latency)) for latency in FRONTIERS),
            best=cheapest(within),
            top=cheapest_n(within, self.n_top),
            n_top=self.n_top,
            reasons=dict(
                sorted(
                    zip(counts["reason"].cast(pl.String).to_list(), counts["count"].to_list(), strict=True)
                )
            ),
            priced=priced.height,
            meets_slo=int(frame["meets_slo"].sum()),
        )

    def overall(self, frontier: Points) -> Points:
        """Of the accelerators' frontiers, the frontier of their scenario."""
        return pareto(Points(frontier.row, self._scenario.of(frontier.row), frontier.x, frontier.y))


def _points(frame: pl.DataFrame, group: npt.NDArray[np.int64], latency: str) -> Points:
    x, y = (frame[name].cast(pl.Float64).to_numpy() for name in (latency, COST))
    return Points(frame["row"].to_numpy(), group, x, y)
