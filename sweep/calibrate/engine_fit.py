"""The engine layer's least squares: terms in levels, each pulled towards what its relatives say.

In logs, a term of a deployment is the sum of one offset per level (`sweep.catalog.engine_layer.LEVELS`). Every offset is
pulled towards zero with the weight of its spread, so a level takes only what its points insist on and what was never
measured inherits. Errors are logs under a loss that grows with their logarithm, so that a few outliers do not steer it.
Gauss-Newton with damping; a term's derivative is the same at every level, so one evaluation per term fills them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from sweep.calibrate.engine_points import FIGURES, Floats, Measured, Rows
from sweep.calibrate.nearby_fit import Surfaces
from sweep.catalog.engine_layer import LEVELS, TERMS, write_layer
from sweep.catalog.fitted import load_fitted
from sweep.catalog.hardware import hardware_names
from sweep.evaluation import evaluate_coded
from sweep.fields.engine import ENGINES

SCALES = np.array([0.30, 0.15, 0.30])
"""Log errors of every figure beyond which a point loses influence: repeated measurements scatter by 5 to 10 %."""
WEIGHTS = np.array([0.7, 1.0, 1.0])
"""Weight of every figure."""
PULL = 0.6
"""Weight of an offset's departure from zero, per spread; chosen, like the shares, on combinations left out."""
SHARES = (1.0, 0.7, 0.5, 0.6, 1.2)
"""Spread of an offset at each level, over that of the term."""
COMBINATION_POWER = -0.1
"""A combination of n rows counts n ** (1 + power) times."""
NO_ANSWER = 2.0
"""Log error of a point that the model does not answer."""
STEP, LARGEST_MOVE, LARGEST_OFFSET = 0.03, 0.7, 4.0
GAIN = 2e-3
"""Relative gain of a round below which the fit ends."""


@dataclass(frozen=True)
class Layout:
    """The offsets of a fit: (level, key) of every row of an offset matrix (len(names), len(TERMS))."""

    names: tuple[tuple[int, str], ...]

    @cached_property
    def place(self) -> dict[tuple[int, str], int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def pull(self) -> Floats:
        """Weight of every squared offset."""
        spread = np.array([term.spread for term in TERMS])
        share = np.array([SHARES[level] for level, _ in self.names])
        pull: Floats = (PULL / (share[:, None] * spread)) ** 2
        return pull

    def rows(self, keys: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
        """Row of the offset matrix at every level, for keys (n, levels)."""
        return np.array([[self.place[level, key] for level, key in enumerate(row)] for row in keys.tolist()])

    def levels(self, offsets: Floats) -> dict[str, dict[str, dict[str, float]]]:
        """Content of the layer's file: values at the first level, factors at the others."""
        found: dict[str, dict[str, dict[str, float]]] = {level: {} for level in LEVELS}
        for (level, key), row in zip(self.names, offsets, strict=True):
            start = [term.prior if level == 0 else 1.0 for term in TERMS]
            values = np.array(start) * np.exp(row)
            found[LEVELS[level]][key] = {
                term.name: float(f"{value:.4g}") for term, value in zip(TERMS, values, strict=True)
            }
        return found


def layout_of(points: Measured) -> Layout:
    """Every key that occurs among the points, sorted within its level."""
    return Layout(
        tuple((level, str(key)) for level in range(len(LEVELS)) for key in np.unique(points.keys[:, level]))
    )


@cache
def _operators() -> Floats:
    """Coefficients of operators and collectives (hardware, engine, N_OPS, N_COEF), before any engine layer."""
    return load_fitted(hardware_names()).coefficients


@dataclass(frozen=True)
class Problem:
    """Points with the groups that share coefficients: group of each point; of each group offset rows (groups, levels), base
    coefficients and combination."""

    points: Measured
    group: Rows
    rows: npt.NDArray[np.int64]
    base: Floats
    combination: npt.NDArray[np.str_]

    def logs(self, offsets: Floats) -> Floats:
        """Log distance of every term from its prior, per group."""
        logs: Floats = offsets[self.rows].sum(axis=1)
        return logs

    def predict(self, logs: Floats, surfaces: Sequence[Surfaces] = ()) -> Floats:
        """Figures of the points (n, FIGURES); NaN where the model has no answer."""
        c = self.base.copy()
        write_layer(c, {term.name: term.value(logs[:, i]) for i, term in enumerate(TERMS)})
        for section in surfaces:
            section.write(c, self.combination)
        # One "architecture" per group, one accelerator, the same coefficients for every engine.
        table = np.repeat(c[:, None, None], len(ENGINES), axis=2)
        results = evaluate_coded(self.points.records, table).results
        return np.stack([results[name] for name in FIGURES], axis=1)


def problem(points: Measured, layout: Layout) -> Problem:
    """Points grouped by what prices them. Their records' lookups become those of the groups."""
    records = points.records.copy()
    places = np.column_stack([layout.rows(points.keys), records["hardware_index"].astype(np.int64)])
    distinct, first, group = np.unique(places, axis=0, return_index=True, return_inverse=True)
    base = _operators()[distinct[:, -1], records["engine"][first].astype(np.int64)]
    records["architecture_index"] = group.ravel()
    records["hardware_index"] = 0.0
    combination = points.combination[first]
    return Problem(replace(points, records=records), group.ravel(), distinct[:, :-1], base, combination)


def tempered(errors: Floats, scale: Floats | float) -> Floats:
    """Signed square root of the loss scale^2 log(1 + (e / scale)^2): like e when small, nearly flat when large."""
    loss: Floats = np.sign(errors) * scale * np.sqrt(np.log1p((errors / scale) ** 2))
    return loss


def weights_of(points: Measured) -> Floats:
    """Weight of every point: a combination with many rows counts less than their number."""
    _, which, counts = np.unique(points.combination, return_inverse=True, return_counts=True)
    weights: Floats = (counts.astype(np.float64) ** COMBINATION_POWER)[which.ravel()]
    return np.asarray(weights / weights.mean(), np.float64)


def residuals(asked: Problem, logs: Floats, weights: Floats) -> Floats:
    """Weighted, tempered log errors of every figure, shape (n, FIGURES); 0 where it was not measured."""
    measured = np.isfinite(asked.points.figures)
    errors = np.nan_to_num(np.log(asked.predict(logs) / asked.points.figures), nan=NO_ANSWER)
    return np.asarray(np.where(measured, weights[:, None] * WEIGHTS * tempered(errors, SCALES), 0.0))


def fit(points: Measured, layout: Layout, rounds: int = 6) -> Floats:
    """Offsets that fit the points best, shape (len(layout.names), len(TERMS)); deterministic."""
    asked, weights = problem(points, layout), weights_of(points)
    offsets = np.zeros((len(layout.names), len(TERMS)))
    current = residuals(asked, asked.logs(offsets), weights)
    cost = float((current**2).sum())
    damping = 1e-3
    for _ in range(rounds):
        matrix, gradient = _normal_equations(asked, layout, offsets, current, weights)
        for _ in range(6):
            damped = matrix + damping * np.diag(np.diag(matrix))
            move = np.linalg.solve(damped, -gradient).reshape(offsets.shape)
            tried = np.clip(
                offsets + np.clip(move, -LARGEST_MOVE, LARGEST_MOVE), -LARGEST_OFFSET, LARGEST_OFFSET
            )
            found = residuals(asked, asked.logs(tried), weights)
            better = float((found**2).sum() + (layout.pull * tried**2).sum())
            if better < cost:
                break
            damping *= 6.0
        else:
            return offsets
        gain, offsets, current, cost = 1.0 - better / cost, tried, found, better
        damping = max(damping / 5.0, 1e-4)
        if gain < GAIN:
            break
    return offsets


def _normal_equations(
    asked: Problem, layout: Layout, offsets: Floats, current: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    logs = asked.logs(offsets)
    slopes = np.empty((*current.shape, len(TERMS)))
    for term in range(len(TERMS)):
        moved = logs.copy()
        moved[:, term] += STEP
        slopes[:, :, term] = (residuals(asked, moved, weights) - current) / STEP
    n, k = len(layout.names), len(TERMS)
    matrix, gradient = np.zeros((n, k, n, k)), layout.pull * offsets
    for group, rows in enumerate(asked.rows):
        own = asked.group == group
        slope = slopes[own].reshape(-1, k)
        square, pressed = slope.T @ slope, slope.T @ current[own].reshape(-1)
        for row in rows:
            gradient[row] += pressed
            matrix[row, :, rows] += square
    flat = matrix.reshape(n * k, n * k) + np.diag(layout.pull.ravel())
    return flat, gradient.ravel()
