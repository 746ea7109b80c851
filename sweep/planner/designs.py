"""Designs: plans without their counts, so that they can be sized again for another load, input or price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.planner.candidates import Candidates
from sweep.planner.capacity import Capacity, colocated_capacity
from sweep.planner.demand import Demand, Limits
from sweep.planner.fleet import Units, best_mix
from sweep.planner.plans import Kind, Plan, loads
from sweep.planner.pools import PoolCapacity, pool_capacity

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """Kind of fleet and its deployments as rows of some candidates: one, (prefill, decode), or two types.

    `grown`: cost of the verified fleet over that of the closed form; it scales every other answer about the design.
    """

    kind: Kind
    rows: tuple[int, ...]
    grown: float = 1.0


def few(candidates: Candidates, plans: list[Plan]) -> tuple[Candidates, list[Design]]:
    """The deployments of `plans` alone, the first plan's first, and the plans' designs over them."""
    rows = list(dict.fromkeys(part.row for plan in plans for part in plan.parts))
    at = {row: i for i, row in enumerate(rows)}
    designs = [Design(plan.kind, tuple(at[part.row] for part in plan.parts)) for plan in plans]
    return candidates.take(np.array(rows, dtype=np.int64)), designs


def changed(candidates: Candidates, columns: dict[str, Any]) -> Candidates:
    """The same deployments with some input columns set."""
    records = candidates.records.copy()
    for name, values in columns.items():
        records[name] = values
    return Candidates(records, candidates.fitted, candidates.labels, candidates.hardware)


@dataclass(frozen=True)
class Costs:
    """Prices designs over `candidates` for any demand, from capacities computed once."""

    candidates: Candidates
    capacity: Capacity
    pools: PoolCapacity | None
    limits: Limits

    def usd_per_hour(self, design: Design, demand: Demand, *, whole: bool = True) -> float:
        """$/h of the smallest fleet of this design; infinite where it cannot carry the demand.

        `whole=False` lets replicas be fractions, so that small changes show.
        """
        return design.grown * self._closed_form_usd(design, demand, whole)

    def _closed_form_usd(self, design: Design, demand: Demand, whole: bool) -> float:
        if design.kind == "replicas":
            each = float(loads(self.capacity, demand)[design.rows[0]])
            return self._worker_usd(design.rows[0]) * _count(demand.planned, each, demand.spare, whole)
        if design.kind == "split":
            return self._split_usd(design, demand, whole)
        return self._mixed_usd(design, demand)

    def _worker_usd(self, row: int) -> float:
        return float(self.candidates.workers[row] * self.candidates.usd_per_gpu_hour[row])

    def _split_usd(self, design: Design, demand: Demand, whole: bool) -> float:
        assert self.pools is not None
        a, b = design.rows
        rate = demand.planned
        if not demand.by_rate:
            record = self.candidates.records[b]
            intervals = max(1.0, record["osl"] * 0.5 * (1.0 + record["length_range"]) - 1.0)
            rate /= float(self.pools.idle_ttft_ms[a] + intervals * self.pools.tpot_ms[b]) / 1e3
        prefill = _count(rate, float(self.pools.prefill_per_s[a]), demand.spare, whole)
        decode = _count(rate, float(self.pools.decode_per_s[b]), demand.spare, whole)
        return prefill * self._worker_usd(a) + decode * self._worker_usd(b)

    def _mixed_usd(self, design: Design, demand: Demand) -> float:
        rows = np.array(design.rows, dtype=np.int64)
        few_of = self.candidates.take(rows)
        units = Units(
            loads(self.capacity, demand)[rows],
            few_of.workers,
            few_of.workers * few_of.usd_per_gpu_hour,
            np.arange(len(rows)),
        )
        mix = best_mix(units, demand.planned, demand.spare)
        return math.inf if mix is None else mix.usd_per_hour


def costs_of(candidates: Candidates, designs: list[Design], limits: Limits) -> Costs:
    """Capacities of these deployments, of their pools only where a design splits them."""
    pools = pool_capacity(candidates, limits) if any(d.kind == "split" for d in designs) else None
    return Costs(candidates, colocated_capacity(candidates, limits), pools, limits)


def _count(load: float, each: float, spare: int, whole: bool) -> float:
    if not each > 0.0:
        return math.inf
    needed = load / each
    return (max(1.0, math.ceil(needed * (1.0 - 1e-9))) if whole else needed) + spare
