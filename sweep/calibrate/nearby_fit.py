"""Surfaces of measured combinations: what the engine layer leaves over, as smooth factors on steps and requests.

Per combination, a ridge regression of the logs of both factors (kernels/nearby.py) on their coordinates, through the slopes
of TTFT and TPOT in them. A number of a surface that its points do not insist on stays at zero, so that a combination with
few points keeps the engine layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.disagg import pool_shapes
from kernels.nearby import features
from sweep.calibrate.engine_points import Floats, Measured
from sweep.catalog.nearby import COLOCATED, OFFSETS, PAIRS, POOLS, SURFACES, write_surface

NOISE = np.array([0.10, 0.05])
"""Scatter of repeated measurements of TTFT and TPOT, log; errors beyond twice that lose influence."""
STEADINESS = {"decode": 0.12, "prompt": 0.25}
"""Standard deviation of the constant and slopes of a surface before measurements; the best of a few on deployments left out."""
CURVATURE = 0.5
"""The same of its curvatures, over that: twice as stiff costs 0.6 points of TTFT and keeps corners without points tame."""
ROUNDS = 6
STEP = 0.05


@dataclass(frozen=True)
class Surfaces:
    """Surfaces of one section by name: numbers (combinations, len(PAIRS)) and ranges (combinations, 2, N_FEATURES)."""

    section: str
    combinations: tuple[str, ...]
    numbers: dict[str, Floats]
    ranges: dict[str, Floats]

    def write(self, c: Floats, labels: npt.NDArray[np.str_]) -> None:
        """Put them into coefficients (n, N_OPS, N_COEF) of combinations `labels` (n,), in place."""
        place = {name: i for i, name in enumerate(self.combinations)}
        known = np.array([label in place for label in labels])
        which = np.array([place[label] for label in labels[known]], np.int64)
        own = c[known]
        for name, row in SURFACES.items():
            low, high = self.ranges[name][which, 0], self.ranges[name][which, 1]
            write_surface(own, row + OFFSETS[self.section], low, high, self.numbers[name][which])
        c[known] = own

    def moved(self, name: str, by: float) -> Surfaces:
        """The same with one surface's constant moved."""
        numbers = {key: value.copy() for key, value in self.numbers.items()}
        numbers[name][:, 0] += by
        return replace(self, numbers=numbers)

    def content(self) -> dict[str, dict[str, Any]]:
        """Content of the file, by combination."""
        return {
            combination: {name: _rounded(self.numbers[name][i]) for name in SURFACES}
            | {"ranges": {name: _rounded(self.ranges[name][i]) for name in SURFACES}}
            for i, combination in enumerate(self.combinations)
        }


def _rounded(values: Floats) -> Any:
    return np.round(values, 4).tolist()


def coordinates(points: Measured) -> dict[str, Floats]:
    """Coordinates (n, N_FEATURES) of every point's decode steps and prompts."""
    pools = np.zeros(2, points.records.dtype)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in SURFACES}
    for p in points.records:
        mean = 0.5 * (1.0 + p["length_range"])
        ranks, prompts_beside = 1.0, p["concurrency"]
        prefill = decode = p
        if p["disaggregate"] > 0.0:
            pool_shapes(p, pools)
            prefill, decode = pools
            # nothing decodes where prompts are computed
            ranks, prompts_beside = p["decode_replicas"], 0.0
        running = p["concurrency"] / (ranks * decode["attention_dp"])
        found["decode"].append(features(running, mean * (p["isl"] + 0.5 * p["osl"]), decode))
        found["prompt"].append(features(prompts_beside / prefill["attention_dp"], mean * p["isl"], prefill))
    return {name: np.array(z) for name, z in found.items()}


def products(z: Floats) -> Floats:
    """What the numbers of a surface multiply, (n, len(PAIRS)), at coordinates (n, N_FEATURES)."""
    one = np.column_stack([np.ones(len(z)), z])
    return np.column_stack([one[:, i] * one[:, j] for i, j in PAIRS])


def neutral(points: Measured, section: str) -> Surfaces:
    """Surfaces that change nothing, with the ranges of every combination's points."""
    names = np.unique(points.combination)
    ranges = {}
    for name, z in coordinates(points).items():
        own = [z[points.combination == combination] for combination in names]
        ranges[name] = np.array([(each.min(axis=0), each.max(axis=0)) for each in own])
    return Surfaces(
        section,
        tuple(names.tolist()),
        {name: np.zeros((len(names), len(PAIRS))) for name in SURFACES},
        ranges,
    )


def fit_sections(points: Measured, predict: Callable[[Measured, Surfaces], Floats]) -> tuple[Surfaces, ...]:
    """Surfaces of colocated points and of split pools, as far as their latency was measured.

    `predict` gives figures (n, FIGURES) of points with surfaces.
    """
    rows = {COLOCATED: points.with_latency & ~points.pooled, POOLS: points.with_latency & points.pooled}
    return tuple(
        _fit_section(section, points.take(own), predict) for section, own in rows.items() if own.any()
    )


def _fit_section(section: str, points: Measured, predict: Callable[[Measured, Surfaces], Floats]) -> Surfaces:
    """Gauss-Newton per combination. A step that makes a combination worse is taken back and tried shorter: where a factor
    meets its limit its slope vanishes, and a full step beyond it would never come back."""
    best = neutral(points, section)
    which = np.searchsorted(best.combinations, points.combination)
    shapes = {name: products(z) for name, z in coordinates(points).items()}
    logs = np.log(points.figures[:, :2])

    def errors(surfaces: Surfaces) -> Floats:
        left: Floats = logs - np.log(predict(points, surfaces)[:, :2])
        return left

    left = errors(best)
    cost = _costs(left, which, best)
    length = np.ones(len(cost))
    for _ in range(ROUNDS):
        slopes = {name: (left - errors(best.moved(name, STEP))) / STEP for name in SURFACES}
        numbers = {name: best.numbers[name].copy() for name in SURFACES}
        for i in range(len(cost)):
            own = which == i
            before = [best.numbers[name][i] for name in SURFACES]
            jacobian = [slopes[name][own][:, :, None] * shapes[name][own][:, None, :] for name in SURFACES]
            found = _ridge(left[own], jacobian, before)
            for name, value in zip(SURFACES, found, strict=True):
                numbers[name][i] += length[i] * (value - numbers[name][i])
        tried = replace(best, numbers=numbers)
        tried_cost = _costs(errors(tried), which, tried)
        better = tried_cost < cost
        length = np.where(better, np.minimum(1.0, 2.0 * length), 0.3 * length)
        merged = {name: np.where(better[:, None], numbers[name], best.numbers[name]) for name in SURFACES}
        best, cost = replace(best, numbers=merged), np.where(better, tried_cost, cost)
        left = errors(best)
    return best


def _pull() -> Floats:
    """Weight of every squared number of both surfaces."""
    stiffness = np.array([CURVATURE if j > 0 else 1.0 for _, j in PAIRS])
    return np.concatenate([(STEADINESS[name] * stiffness) ** -2.0 for name in SURFACES])


def _costs(left: Floats, which: npt.NDArray[np.int64], surfaces: Surfaces) -> Floats:
    """What the fit makes small, per combination: a loss of errors (n, 2) that grows with their logarithm, and the pull."""
    losses = 4.0 * np.log1p((np.nan_to_num(left, nan=0.0) / (2.0 * NOISE)) ** 2).sum(axis=1)
    numbers = np.concatenate([surfaces.numbers[name] for name in SURFACES], axis=1)
    costs: Floats = np.bincount(which, losses, len(numbers)) + (numbers**2 * _pull()).sum(axis=1)
    return costs


def _ridge(errors: Floats, slopes: list[Floats], before: list[Floats]) -> list[Floats]:
    """Numbers of the surfaces that leave the least of `errors` (n, 2); slopes (n, 2, len(PAIRS)) each, at `before`."""
    a = np.concatenate(slopes, axis=2)
    start = np.concatenate(before)
    answered = np.isfinite(errors) & np.isfinite(a).all(axis=2)
    # what the surfaces before explain counts as unexplained again: the pull is towards zero
    target = np.where(answered, errors, 0.0) + np.nan_to_num(a) @ start
    influence = answered / (NOISE**2 * (1.0 + (errors / (2.0 * NOISE)) ** 2))
    influence = np.nan_to_num(influence)
    rows, wanted = np.nan_to_num(a).reshape(-1, a.shape[2]), target.ravel()
    weighted = rows * influence.reshape(-1, 1)
    found = np.linalg.solve(weighted.T @ rows + np.diag(_pull()), weighted.T @ wanted)
    return list(np.split(found, len(slopes)))
