"""Capacity of prefill workers and of decode workers, each by itself: their ratio follows from the two.

A pool is priced with its partner made so large that it never binds. The SLO falls apart: TTFT binds prefill, TPOT
binds decode; what E2E leaves to decode is what prefill at its own limit has not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.reasons import OK
from sweep.fields.workload import ENDLESS_PROMPTS, LOADS
from sweep.planner.candidates import Candidates
from sweep.planner.capacity import LOWEST_SHARE, Flags, Floats, highest
from sweep.planner.demand import Limits
from sweep.planner.tails import population_percentile, wait_percentile

ENDLESS = 1e6
"""Workers of a pool that must not bind."""
CROWD = 1e5
"""Requests in flight that saturate any one worker."""
CLOSED = float(LOADS.index("closed_loop"))


@dataclass(frozen=True)
class PoolCapacity:
    """Per deployment: the highest rate of one prefill worker and of one decode worker within the SLO (0: none).

    Latencies at the SLO's percentile at those rates, in ms; `in_flight` are requests that decode at once in a worker.
    """

    prefill_per_s: Floats
    decode_per_s: Floats
    prefill_saturated_per_s: Floats
    decode_saturated_per_s: Floats
    idle_ttft_ms: Floats
    ttft_ms: Floats
    tpot_ms: Floats
    in_flight: Floats


def pool_capacity(candidates: Candidates, limits: Limits) -> PoolCapacity:
    """Capacity of one worker of each pool, for every deployment of `candidates`."""
    fast = candidates.results(**_prefill(1.0))
    full = candidates.results(**_prefill(CROWD))
    usable = (np.nan_to_num(full["reason"]) == OK) & (np.nan_to_num(full["requests_per_s"]) > 0.0)
    usable &= np.isfinite(fast["ttft_ms"])
    saturated = np.where(usable, full["requests_per_s"], 0.0)
    ranks = np.asarray(candidates.records["attention_dp"])

    def ttft_at(rate: Floats) -> Floats:
        return np.asarray(fast["ttft_ms"] + prefill_wait_ms(rate, saturated, ranks, limits))

    def in_time(rate: Floats) -> Flags:
        return np.asarray(ttft_at(rate) <= min(limits.ttft_ms, limits.e2e_ms))

    with np.errstate(invalid="ignore", divide="ignore"):
        prefill = np.where(usable, highest(in_time, saturated * LOWEST_SHARE, saturated * 0.999), 0.0)
        ttft = ttft_at(prefill)
    decode, top, tpot, resident = _decode_capacity(candidates, limits, ttft, usable)
    return PoolCapacity(prefill, decode, saturated, top, np.asarray(fast["ttft_ms"]), ttft, tpot, resident)


def prefill_wait_ms(rate: Floats, saturated: Floats, ranks: Floats, limits: Limits) -> Floats:
    """Wait in front of a prefill worker at the SLO's percentile: M/D/1, w = rho / (1 - rho) x service / 2."""
    service_ms = 1e3 * ranks / saturated
    rho = np.minimum(rate / saturated, 0.9999)
    return wait_percentile(0.5 * rho / (1.0 - rho) * service_ms, rho, limits)


def planned_split_ms(
    candidates: Candidates,
    pools: PoolCapacity,
    rows: tuple[int, int],
    rates_per_s: tuple[float, float],
    limits: Limits,
) -> tuple[float, float]:
    """(TTFT, TPOT) in ms at the SLO's percentile of a prefill worker and a decode worker at these rates."""
    prefill, decode = (np.array([row]) for row in rows)
    ranks = np.asarray(candidates.records["attention_dp"][prefill])
    wait = prefill_wait_ms(np.array([rates_per_s[0]]), pools.prefill_saturated_per_s[prefill], ranks, limits)
    one = candidates.take(decode)

    def not_above(in_flight: Floats) -> Flags:
        return np.asarray(_decode_at(one, in_flight)["requests_per_s"] <= rates_per_s[1])

    in_flight = highest(not_above, np.ones(1), np.full(1, CROWD))
    tpot = _decode_at(one, np.maximum(1.0, in_flight))["tpot_ms"]
    return float(pools.idle_ttft_ms[prefill][0] + wait[0]), float(tpot[0])


def _decode_at(candidates: Candidates, in_flight: Floats) -> npt.NDArray[Any]:
    """Results of decode workers with so many requests in flight and prefill that never binds."""
    return candidates.results(**_split(in_flight), prefill_replicas=ENDLESS, decode_replicas=1.0)


def _prefill(in_flight: float) -> dict[str, Any]:
    return _split(in_flight) | {"prefill_replicas": 1.0, "decode_replicas": ENDLESS}


def _split(in_flight: Floats | float) -> dict[str, Any]:
    return {"disaggregate": 1.0, "load": CLOSED, "concurrency": in_flight, "num_prompts": ENDLESS_PROMPTS}


def _decode_capacity(
    candidates: Candidates, limits: Limits, ttft: Floats, usable: Flags
) -> tuple[Floats, Floats, Floats, Floats]:
    """(rate, saturated rate, TPOT, requests decoding) of one decode worker."""
    n = len(candidates)
    top = _decode_at(candidates, np.full(n, CROWD))
    held = np.where(usable, np.nan_to_num(top["resident"]), 1.0)
    records = candidates.records
    intervals = np.maximum(1.0, records["osl"] * 0.5 * (1.0 + records["length_range"]) - 1.0)
    limit = np.minimum(limits.tpot_ms, (limits.e2e_ms - ttft) / intervals)

    def in_time(in_flight: Floats) -> Flags:
        found = _decode_at(candidates, in_flight)
        fits = population_percentile(found["resident"], limits) <= np.maximum(held, 1.0)
        return np.asarray((found["tpot_ms"] <= limit) & (fits | (in_flight <= 1.0)))

    in_flight = highest(in_time, np.ones(n), np.maximum(2.0, 4.0 * held))
    found = _decode_at(candidates, np.maximum(in_flight, 1.0))
    good = usable & (in_flight > 0.0)
    rate = np.where(good, np.nan_to_num(found["requests_per_s"]), 0.0)
    saturated = np.where(usable, np.nan_to_num(top["requests_per_s"]), 0.0)
    return rate, saturated, np.asarray(found["tpot_ms"]), np.asarray(found["resident"])
