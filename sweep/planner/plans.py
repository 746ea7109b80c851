"""From capacities to plans: replicas, split pools or a mix of two accelerators, the best of each kind per accelerator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from sweep.planner.candidates import Candidates
from sweep.planner.capacity import Capacity
from sweep.planner.demand import Demand, Limits
from sweep.planner.fleet import Mix, Units, best, best_mix, replicas_needed
from sweep.planner.pools import PoolCapacity

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Kind = Literal["replicas", "split", "mixed"]
Role = Literal["replica", "prefill", "decode"]
SHAPE_COLUMNS = frozenset(
    "parallelism tp pp cp attention_dp moe_tp moe_ep max_num_batched_tokens max_num_seqs".split()
)
"""Labels in which the two pools of a split deployment may differ."""


@dataclass(frozen=True)
class Part:
    """`count` workers of deployment `row`, each carrying at most `rate_per_s` within the SLO."""

    row: int
    role: Role
    count: int
    rate_per_s: float
    saturated_per_s: float


@dataclass(frozen=True)
class Plan:
    """A fleet that carries the demand; `rate_per_s` is the planned rate of requests."""

    kind: Kind
    parts: tuple[Part, ...]
    gpus: int
    usd_per_hour: float
    rate_per_s: float
    spare: int

    @cached_property
    def capacity_per_s(self) -> float:
        """Rate within the SLO with every replica working."""
        return _weakest(self, lambda part: part.count * part.rate_per_s)

    @property
    def headroom(self) -> float:
        """Capacity with every replica working over the planned rate, minus 1."""
        return self.capacity_per_s / self.rate_per_s - 1.0

    @property
    def utilization(self) -> float:
        """Planned rate over the rate at which the whole fleet would saturate."""
        return self.rate_per_s / _weakest(self, lambda part: part.count * part.saturated_per_s)

    @property
    def working(self) -> tuple[Part, ...]:
        """The parts with the spare replicas gone: what must still meet the SLO."""
        if self.kind == "mixed":
            largest = max(self.parts, key=lambda part: part.rate_per_s)
            return tuple(
                _fewer(part, min(self.spare, part.count - 1)) if part is largest else part
                for part in self.parts
            )
        return tuple(_fewer(part, min(self.spare, part.count - 1)) for part in self.parts)


def _fewer(part: Part, gone: int) -> Part:
    return Part(part.row, part.role, part.count - gone, part.rate_per_s, part.saturated_per_s)


def _weakest(plan: Plan, figure: Callable[[Part], float]) -> float:
    """Sum over replicas; the smaller pool's sum where pools split the work."""
    if plan.kind == "split":
        return float(min(figure(part) for part in plan.parts))
    return float(sum(figure(part) for part in plan.parts))


@dataclass(frozen=True)
class Sized:
    """All colocated fleets: per deployment the replicas, GPUs and $/h that the demand takes (infinite: cannot)."""

    replicas: Floats
    gpus: Floats
    usd_per_hour: Floats
    rate_per_s: Floats


def loads(capacity: Capacity, demand: Demand) -> Floats:
    """Capacity per replica in the demand's own unit."""
    return capacity.rate_per_s if demand.by_rate else capacity.in_flight


def sized(candidates: Candidates, capacity: Capacity, demand: Demand) -> Sized:
    """The fleet of each deployment by itself."""
    each = loads(capacity, demand)
    n = replicas_needed(demand.planned, each, demand.spare)
    gpus = n * candidates.workers
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = capacity.rate_per_s if demand.by_rate else demand.planned * capacity.rate_per_s / each
    planned = np.full(len(n), demand.planned) if demand.by_rate else rate
    return Sized(n, gpus, gpus * candidates.usd_per_gpu_hour, planned)


def colocated_plan(row: int, candidates: Candidates, capacity: Capacity, fleets: Sized, spare: int) -> Plan:
    """The fleet of deployment `row`."""
    return Plan(
        "replicas",
        (_part(row, "replica", int(fleets.replicas[row]), capacity),),
        int(fleets.gpus[row]),
        float(fleets.usd_per_hour[row]),
        float(fleets.rate_per_s[row]),
        spare,
    )


def _part(row: int, role: Role, count: int, capacity: Capacity) -> Part:
    return Part(row, role, count, float(capacity.rate_per_s[row]), float(capacity.saturated_per_s[row]))


def allowed(gpus: Floats, usd: Floats, demand: Demand, *, priced: bool) -> Flags:
    """Fleets that exist and keep to the limits on GPUs and money; `priced` ones only where cost decides."""
    good = np.isfinite(gpus) & (gpus <= demand.max_gpus)
    if math.isfinite(demand.budget_usd_per_hour):
        good &= usd <= demand.budget_usd_per_hour
    return np.asarray(good & np.isfinite(usd)) if priced else np.asarray(good)


def keys(gpus: Floats, usd: Floats, *, smallest: bool) -> tuple[Floats, Floats]:
    """What decides, then what breaks ties."""
    return (gpus, usd) if smallest else (usd, gpus)


def colocated_plans(
    candidates: Candidates, capacity: Capacity, demand: Demand, *, smallest: bool = False
) -> list[Plan]:
    """The best colocated fleet of each accelerator within the demand's limits."""
    fleets = sized(candidates, capacity, demand)
    good = allowed(fleets.gpus, fleets.usd_per_hour, demand, priced=not smallest)
    order = keys(fleets.gpus, fleets.usd_per_hour, smallest=smallest)
    kinds = candidates.records["hardware_index"]
    found = [best(order, good & (kinds == kind)) for kind in np.unique(kinds)]
    return [colocated_plan(r, candidates, capacity, fleets, demand.spare) for r in found if r is not None]


def mixed_plan(
    candidates: Candidates, capacity: Capacity, demand: Demand, *, smallest: bool = False
) -> Plan | None:
    """The best fleet of two accelerator types; None where no two carry the demand within its limits."""
    units = Units(
        loads(capacity, demand),
        candidates.workers,
        candidates.workers * candidates.usd_per_gpu_hour,
        candidates.records["hardware_index"].astype(np.int64),
    )
    mix = best_mix(
        units,
        demand.planned,
        demand.spare,
        max_gpus=demand.max_gpus,
        budget=demand.budget_usd_per_hour,
        smallest=smallest,
    )
    return None if mix is None else _mixed(mix, units, capacity, demand)


def _mixed(mix: Mix, units: Units, capacity: Capacity, demand: Demand) -> Plan:
    parts = tuple(_part(u, "replica", n, capacity) for u, n in zip(mix.units, mix.counts, strict=True))
    total = sum(n * float(units.load[u]) for u, n in zip(mix.units, mix.counts, strict=True))
    share = demand.planned / total
    rate = demand.planned if demand.by_rate else share * sum(part.count * part.rate_per_s for part in parts)
    return Plan("mixed", parts, int(mix.gpus), mix.usd_per_hour, rate, demand.spare)


def pool_groups(candidates: Candidates) -> Iterator[npt.NDArray[np.int64]]:
    """Deployments that differ in shape and batch limits only: any two can be the pools of one split."""
    columns = [c for c in candidates.labels.columns if c not in SHAPE_COLUMNS]
    numbered = candidates.labels.select(columns).with_row_index("_row")
    for _, rows in numbered.group_by(columns, maintain_order=True):
        yield rows["_row"].to_numpy().astype(np.int64)


def split_plans(
    candidates: Candidates, pools: PoolCapacity, demand: Demand, limits: Limits, *, smallest: bool = False
) -> list[Plan]:
    """The best split fleet of each accelerator within the demand's limits."""
    by_kind: dict[float, Plan] = {}
    for rows in pool_groups(candidates):
        plan = _best_pair(rows, candidates, pools, demand, limits, smallest)
        if plan is None:
            continue
        kind = float(candidates.records["hardware_index"][rows[0]])
        if kind not in by_kind or _order(plan, smallest) < _order(by_kind[kind], smallest):
            by_kind[kind] = plan
    return list(by_kind.values())


def _order(plan: Plan, smallest: bool) -> tuple[float, float]:
    usd = plan.usd_per_hour if math.isfinite(plan.usd_per_hour) else math.inf
    return (plan.gpus, usd) if smallest else (usd, plan.gpus)


def _best_pair(
    rows: npt.NDArray[np.int64],
    candidates: Candidates,
    pools: PoolCapacity,
    demand: Demand,
    limits: Limits,
    smallest: bool,
) -> Plan | None:
    """The best prefill and decode deployments among `rows` and how many of each."""
    i, j = (a.ravel() for a in np.meshgrid(rows, rows, indexing="ij"))
    rate = _pair_rate(i, j, candidates, pools, demand)
    n_prefill = _workers(rate, pools.prefill_per_s[i], demand.spare)
    n_decode = _workers(rate, pools.decode_per_s[j], demand.spare)
    gpus = n_prefill * candidates.workers[i] + n_decode * candidates.workers[j]
    usd = gpus * candidates.usd_per_gpu_hour[rows[0]]
    good = allowed(gpus, usd, demand, priced=not smallest)
    k = best(keys(gpus, usd, smallest=smallest), good)
    if k is None:
        return None
    a, b = int(i[k]), int(j[k])
    parts = (
        Part(
            a,
            "prefill",
            int(n_prefill[k]),
            float(pools.prefill_per_s[a]),
            float(pools.prefill_saturated_per_s[a]),
        ),
        Part(
            b,
            "decode",
            int(n_decode[k]),
            float(pools.decode_per_s[b]),
            float(pools.decode_saturated_per_s[b]),
        ),
    )
    return Plan("split", parts, int(gpus[k]), float(usd[k]), float(rate[k]), demand.spare)


def _workers(rate: Floats, each: Floats, spare: int) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.ceil(rate / each * (1.0 - 1e-9))
    return np.asarray(np.maximum(np.where(each > 0.0, needed, np.inf), 1.0) + spare)


def _pair_rate(
    i: npt.NDArray[np.int64],
    j: npt.NDArray[np.int64],
    candidates: Candidates,
    pools: PoolCapacity,
    demand: Demand,
) -> Floats:
    """Planned rate; what is in flight is a rate by Little's law, at the latency of an idle prefill pool."""
    if demand.by_rate:
        return np.full(len(i), demand.planned)
    records = candidates.records
    intervals = np.maximum(1.0, records["osl"][j] * 0.5 * (1.0 + records["length_range"][j]) - 1.0)
    seconds = (pools.idle_ttft_ms[i] + intervals * pools.tpot_ms[j]) / 1e3
    return np.asarray(demand.planned / seconds)
