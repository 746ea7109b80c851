"""The highest load per replica that meets an SLO, for every deployment at once.

All deployments bisect together: one array of rates through the kernel per step. Bisection starts from the same bounds
whatever the SLO, so a looser SLO can never find less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.reasons import OK
from sweep.fields.workload import LOADS
from sweep.planner.candidates import Candidates
from sweep.planner.demand import Limits
from sweep.planner.tails import population_percentile, tpot_percentile, ttft_percentile

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LOWEST_SHARE = 1.0 / 1024.0
"""Of the saturated rate: where even this misses the SLO, the deployment is too slow at any load."""
STEPS = 12
"""Halvings of the ratio 1024: the answer is within 0.2 %."""
BEYOND_ANY_RATE = 1e9
OPEN_RATE = float(LOADS.index("rate"))


@dataclass(frozen=True)
class Capacity:
    """Per deployment: the highest rate of one replica within the SLO (0 where none) and figures at it.

    Latencies are at the SLO's percentile; where no rate meets it they are those of a nearly idle replica.
    """

    reason: npt.NDArray[np.int64]
    rate_per_s: Floats
    in_flight: Floats
    saturated_per_s: Floats
    ttft_ms: Floats
    tpot_ms: Floats
    e2e_ms: Floats
    results: npt.NDArray[Any]

    @property
    def meets(self) -> Flags:
        return np.asarray(self.rate_per_s > 0.0)


def highest(meets: Callable[[Floats], Flags], low: Floats, high: Floats, steps: int = STEPS) -> Floats:
    """Largest x in [low, high] with `meets(x)` by geometric bisection, elementwise; 0 where not even `low` does."""
    possible = meets(low)
    below, above = low.copy(), high.copy()
    for _ in range(steps):
        middle = np.sqrt(below * above)
        good = meets(middle)
        below = np.where(good, middle, below)
        above = np.where(good, above, middle)
    return np.where(possible, below, 0.0)


def latencies(
    results: npt.NDArray[Any], records: npt.NDArray[Any], limits: Limits
) -> tuple[Floats, Floats, Floats]:
    """TTFT, TPOT and E2E latency at the SLO's percentile, ms."""
    ranks = np.asarray(records["attention_dp"])
    ttft = ttft_percentile(results, np.asarray(records["pp"]), limits)
    tpot = tpot_percentile(results, ranks, limits)
    intervals = np.maximum(0.0, records["osl"] * 0.5 * (1.0 + records["length_range"]) - 1.0)
    return ttft, tpot, ttft + intervals * tpot


def within(ttft: Floats, tpot: Floats, e2e: Floats, limits: Limits) -> Flags:
    """Whether all limits hold; no where a latency is unknown."""
    return np.asarray((ttft <= limits.ttft_ms) & (tpot <= limits.tpot_ms) & (e2e <= limits.e2e_ms))


def at_rate(candidates: Candidates, rate: Floats) -> npt.NDArray[Any]:
    """Results of one replica at an open rate (requests/s)."""
    return candidates.results(load=OPEN_RATE, request_rate=rate)


def colocated_capacity(candidates: Candidates, limits: Limits) -> Capacity:
    """Capacity of replicas that prefill and decode."""
    n = len(candidates)
    top = at_rate(candidates, np.full(n, BEYOND_ANY_RATE))
    reason = np.nan_to_num(top["reason"]).astype(np.int64)
    open_rows = np.flatnonzero((reason == OK) & (np.nan_to_num(top["requests_per_s"]) > 0.0))
    alive = candidates.take(open_rows)
    saturated = np.asarray(top["requests_per_s"][open_rows])
    held = np.maximum(1.0, top["resident"][open_rows])

    def meets(rate: Floats) -> Flags:
        found = at_rate(alive, rate)
        fits = (population_percentile(found["resident"], limits) <= held) | (found["resident"] <= 1.0)
        in_time = within(*latencies(found, alive.records, limits), limits)
        return np.asarray((found["saturated"] == 0.0) & fits & in_time)

    lowest = saturated * LOWEST_SHARE
    rate = highest(meets, lowest, saturated)
    found = at_rate(alive, np.maximum(rate, lowest))
    return _spread(n, open_rows, reason, saturated, rate, found, latencies(found, alive.records, limits), top)


def _spread(
    n: int,
    rows: npt.NDArray[np.int64],
    reason: npt.NDArray[np.int64],
    saturated: Floats,
    rate: Floats,
    found: npt.NDArray[Any],
    late: tuple[Floats, Floats, Floats],
    top: npt.NDArray[Any],
) -> Capacity:
    """Figures of the feasible `rows` among all `n`; those of the others are NaN, their rates 0."""

    def over(values: Floats, missing: float) -> Floats:
        out = np.full(n, missing)
        out[rows] = values
        return out

    results = top.copy()
    results[rows] = found
    in_flight = rate * found["e2e_ms"] / 1e3
    return Capacity(
        reason=reason,
        rate_per_s=over(rate, 0.0),
        in_flight=over(in_flight, 0.0),
        saturated_per_s=over(saturated, 0.0),
        ttft_ms=over(late[0], np.nan),
        tpot_ms=over(late[1], np.nan),
        e2e_ms=over(late[2], np.nan),
        results=results,
    )
