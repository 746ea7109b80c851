"""The frontiers that a search works on: one per scenario and latency, who is on it, and how much room it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sweep.frontier import FRONTIERS, Points, pareto
from sweep.search.figures import Figures

Floats = npt.NDArray[np.float64]

LEAST_EXCESS = 8
"""Deployments kept of a scenario in which none meets the SLO yet: those that miss it least."""
MARGIN = 0.1
"""A frontier's hypervolume reaches this much of its extent beyond its worst cost and latency, so that its ends count."""
SMALLEST_EXTENT = 0.01
"""In logarithms: a frontier of one point has an extent, too."""


@dataclass(frozen=True)
class Contest:
    """One frontier: figures of its deployments, by falling cost, and which latency is weighed (column of `logs`)."""

    scenario: int
    latency: int
    on_it: Figures

    @property
    def meets(self) -> bool:
        """Whether a deployment that meets the SLO is known; else `on_it` are those that miss it least."""
        return bool(self.on_it.excess[0] == 0.0)

    @property
    def points(self) -> Floats:
        """Logarithms of latency and cost, shape (n, 2)."""
        return self.on_it.logs[:, [self.latency, 0]]


def contests(figures: Figures) -> list[Contest]:
    """Every scenario's frontiers among `figures`."""
    meeting = figures.take(figures.excess == 0.0)
    found = []
    for latency in range(1, 1 + len(FRONTIERS)):
        best = _frontier(meeting, latency)
        found += [Contest(int(s), latency, best.take(where)) for s, where in _groups(best.scenario)]
    missing = figures.take(~np.isin(figures.scenario, meeting.scenario))
    for scenario, where in _groups(missing.scenario):
        nearest = where[np.argsort(missing.excess[where], kind="stable")[:LEAST_EXCESS]]
        found.append(Contest(int(scenario), 1, missing.take(nearest)))
    return found


def _frontier(figures: Figures, latency: int) -> Figures:
    """Those on the frontier of their scenario, by rising latency."""
    positions = np.arange(figures.row.size)
    best = pareto(Points(positions, figures.scenario, figures.logs[:, latency], figures.logs[:, 0])).row
    return figures.take(best[np.argsort(figures.logs[best, latency], kind="stable")])


def _groups(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[np.int64, npt.NDArray[np.intp]]]:
    for number in np.unique(numbers):
        yield number, np.flatnonzero(numbers == number)


def best_of(found: list[Contest]) -> Figures:
    """Deployments on any frontier, each once."""
    together = Figures.none()
    for contest in found:
        together = together.joined(contest.on_it)
    return together.take(np.unique(together.row, return_index=True)[1])


def gaps(contest: Contest) -> Floats:
    """Room beside each deployment of a frontier: the longer of the steps to its neighbours; ends have the longest."""
    points = contest.points
    if len(points) < 3 or not contest.meets:
        return np.ones(len(points))
    extent = np.maximum(np.ptp(points, axis=0), SMALLEST_EXTENT)
    steps = np.abs(np.diff(points, axis=0) / extent).sum(axis=1)
    room: Floats = np.maximum(np.append(steps, steps.max()), np.insert(steps, 0, steps.max()))
    return room


def hypervolume(points: Floats, box: Floats) -> float:
    """Share of a frontier's box that `points` (latency, cost; logarithms) dominate.

    The box spans from the best to the worst latency and cost of the frontier `box`, and MARGIN beyond the worst.
    """
    low = box.min(axis=0)
    scaled = (points - low) / np.maximum(box.max(axis=0) - low, SMALLEST_EXTENT)
    worst = 1.0 + MARGIN
    scaled = scaled[(scaled < worst).all(axis=1)]
    x, y = scaled[np.lexsort((scaled[:, 1], scaled[:, 0]))].T
    y = np.minimum.accumulate(y) if y.size else y
    return float(np.sum(np.diff(np.append(x, worst)) * (worst - y)) / worst**2)


def improvement(contest: Contest, logs: Floats) -> Floats:
    """By how much each of the deployments `logs` alone would raise a frontier's hypervolume; negative: how far behind it is.

    Behind is the logarithm by which both latency and cost would have to fall.
    """
    front = contest.points
    low = front.min(axis=0)
    extent = np.maximum(front.max(axis=0) - low, SMALLEST_EXTENT)
    x, y = ((front - low) / extent).T
    worst = 1.0 + MARGIN
    at, cost = ((logs[:, [contest.latency, 0]] - low) / extent).T[:, :, None]
    edges = np.append(x, worst)
    wide = np.clip(edges[1:] - np.maximum(edges[:-1], at), 0.0, None)
    gained = (wide * np.clip(y - cost, 0.0, None)).sum(axis=1)
    before = np.clip(x[0] - at[:, 0], 0.0, None) * np.clip(worst - cost[:, 0], 0.0, None)
    room = np.maximum(front[:, 0] - logs[:, contest.latency, None], front[:, 1] - logs[:, 0, None]).min(
        axis=1
    )
    found: Floats = np.where(room > 0.0, gained + before, room)
    return found


def growth(before: list[Contest], after: list[Contest]) -> Floats:
    """By how much each frontier of `after` has grown since `before`: share of its hypervolume that was not there.

    Frontiers without a deployment that meets the SLO are left out.
    """
    known = {(c.scenario, c.latency): c for c in before if c.meets}
    shares = []
    for contest in (c for c in after if c.meets):
        old = known.get((contest.scenario, contest.latency))
        whole = hypervolume(contest.points, contest.points)
        had = hypervolume(old.points, contest.points) if old is not None else 0.0
        shares.append(1.0 - had / whole)
    return np.array(shares)
