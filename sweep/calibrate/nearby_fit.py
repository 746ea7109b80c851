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
ROUNDS = 4
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
    surfaces = neutral(points, section)
    shapes = {name: products(z) for name, z in coordinates(points).items()}
    logs = np.log(points.figures[:, :2])
    for _ in range(ROUNDS):
        here = np.log(predict(points, surfaces)[:, :2])
        slopes = {
            name: (np.log(predict(points, surfaces.moved(name, STEP))[:, :2]) - here) / STEP
            for name in SURFACES
        }
        numbers = {name: surfaces.numbers[name].copy() for name in SURFACES}
        for i, combination in enumerate(surfaces.combinations):
            own = points.combination == combination
            found = _ridge(
                logs[own] - here[own],
                [slopes[name][own][:, :, None] * shapes[name][own][:, None, :] for name in SURFACES],
                [surfaces.numbers[name][i] for name in SURFACES],
            )
            for name, value in zip(SURFACES, found, strict=True):
                numbers[name][i] = value
        surfaces = replace(surfaces, numbers=numbers)
    return surfaces


def _ridge(errors: Floats, slopes: list[Floats], before: list[Floats]) -> list[Floats]:
    """Numbers of the surfaces that leave the least of `errors` (n, 2); slopes (n, 2, len(PAIRS)) each, at `before`."""
    a = np.concatenate(slopes, axis=2)
    start = np.concatenate(before)
    answered = np.isfinite(errors) & np.isfinite(a).all(axis=2)
    # what the surfaces before explain counts as unexplained again: the pull is towards zero
    target = np.where(answered, errors, 0.0) + np.nan_to_num(a) @ start
    influence = answered / (NOISE**2 * (1.0 + (errors / (2.0 * NOISE)) ** 2))
    influence = np.nan_to_num(influence)
    stiffness = np.array([CURVATURE if j > 0 else 1.0 for _, j in PAIRS])
    pull = np.concatenate([(STEADINESS[name] * stiffness) ** -2.0 for name in SURFACES])
    rows, wanted = np.nan_to_num(a).reshape(-1, a.shape[2]), target.ravel()
    weighted = rows * influence.reshape(-1, 1)
    found = np.linalg.solve(weighted.T @ rows + np.diag(pull), weighted.T @ wanted)
    return list(np.split(found, len(slopes)))
