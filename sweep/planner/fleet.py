"""How many of which: the cheapest and the smallest fleet from capacities, prices and constraints. Pure arithmetic.

A fleet of n replicas of capacity c carries load L with `spare` of them gone when (n - spare) c >= L. A fleet of two
types must carry it with its `spare` largest replicas gone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
ROUNDING = 1e-9
"""Relative slack, so that a load of exactly n capacities needs n replicas."""
MAX_COUNT = 4096
"""Replicas of the first type that a mixed fleet is searched up to."""


@dataclass(frozen=True)
class Units:
    """Things a fleet is made of: load that each carries, its GPUs, $/h, and the number of its kind (accelerator)."""

    load: Floats
    gpus: Floats
    usd_per_hour: Floats
    kind: npt.NDArray[np.int64]

    def take(self, rows: npt.NDArray[np.int64]) -> Units:
        return Units(self.load[rows], self.gpus[rows], self.usd_per_hour[rows], self.kind[rows])


@dataclass(frozen=True)
class Mix:
    """`counts[k]` replicas of unit `units[k]`."""

    units: tuple[int, ...]
    counts: tuple[int, ...]
    gpus: float
    usd_per_hour: float


def replicas_needed(load: float, per_replica: Floats | float, spare: int) -> Floats:
    """Replicas that carry `load` with `spare` of them gone; infinite where one carries nothing."""
    with np.errstate(divide="ignore"):
        needed = np.ceil(load / np.asarray(per_replica, dtype=np.float64) * (1.0 - ROUNDING))
    return np.asarray(np.maximum(needed, 1.0) + spare)


def best(keys: Sequence[Floats], allowed: npt.NDArray[np.bool_]) -> int | None:
    """Index of the lexicographically smallest row of `keys` among the `allowed`; ties go to the first."""
    rows = np.flatnonzero(allowed)
    if rows.size == 0:
        return None
    order = np.lexsort((rows, *[np.asarray(key)[rows] for key in reversed(list(keys))]))
    return int(rows[order[0]])


def undominated(units: Units) -> npt.NDArray[np.int64]:
    """Units that no other of their kind beats in load, GPUs and price at once; the first of equal ones."""
    keep: list[int] = []
    order = np.lexsort((units.gpus, units.usd_per_hour, -units.load))
    for i in order:
        beaten = any(
            units.kind[k] == units.kind[i]
            and units.usd_per_hour[k] <= units.usd_per_hour[i]
            and units.gpus[k] <= units.gpus[i]
            for k in keep
        )
        if units.load[i] > 0.0 and not beaten:
            keep.append(int(i))
    return np.array(sorted(keep), dtype=np.int64)


def best_mix(
    units: Units,
    load: float,
    spare: int,
    *,
    max_gpus: float = math.inf,
    budget: float = math.inf,
    smallest: bool = False,
) -> Mix | None:
    """The cheapest (or smallest) fleet of exactly two kinds within the limits; None where there is none."""
    priced = np.flatnonzero(np.isfinite(units.usd_per_hour) & (units.load > 0.0))
    rows = priced[undominated(units.take(priced))] if priced.size else priced
    found: Mix | None = None
    for i in rows:
        for j in rows:
            if units.kind[i] < units.kind[j]:
                mix = _best_counts(units, int(i), int(j), load, spare, max_gpus, budget, smallest)
                if mix is not None and (found is None or _key(mix, smallest) < _key(found, smallest)):
                    found = mix
    return found


def _key(mix: Mix, smallest: bool) -> tuple[float, float]:
    return (mix.gpus, mix.usd_per_hour) if smallest else (mix.usd_per_hour, mix.gpus)


def _best_counts(
    units: Units, i: int, j: int, load: float, spare: int, max_gpus: float, budget: float, smallest: bool
) -> Mix | None:
    """Best counts of units i and j. For each count of i, the fewest of j that carry the rest."""
    a, b = units.load[i], units.load[j]
    most = min(MAX_COUNT, int(replicas_needed(load, a, spare)))
    n_a = np.arange(1, most + 1, dtype=np.float64)
    n_b = np.maximum(1.0, np.ceil((_required(n_a, a, b, load, spare) - n_a * a) / b))
    gpus = n_a * units.gpus[i] + n_b * units.gpus[j]
    usd = n_a * units.usd_per_hour[i] + n_b * units.usd_per_hour[j]
    row = best((gpus, usd) if smallest else (usd, gpus), (gpus <= max_gpus) & (usd <= budget))
    if row is None:
        return None
    return Mix((i, j), (int(n_a[row]), int(n_b[row])), float(gpus[row]), float(usd[row]))


def _required(n_a: Floats, a: float, b: float, load: float, spare: int) -> Floats:
    """Load that the whole fleet must carry so that it carries `load` without its `spare` largest replicas."""
    if a > b:
        gone_a = np.minimum(n_a, spare)
        lost = gone_a * a + (spare - gone_a) * b
    else:
        # Enough of the larger type b for it to be what fails; a fleet with fewer loses less.
        lost = np.full_like(n_a, spare * b)
    return np.asarray((load + lost) * (1.0 - ROUNDING))
