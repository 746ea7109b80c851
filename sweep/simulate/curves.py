"""Load curves and capacity: what a simulated deployment does as the offered load grows.

Everything here takes a function that simulates one offered rate, so that any deployment, fleet or policy can be
asked. Rates share their random numbers: the same requests arrive, faster or slower, so that a curve is smooth and
a bisection does not chase noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import UserError

Int64s = NDArray[np.int64]
FRACTIONS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Offered loads of a curve, as shares of the sustainable rate."""
PERCENTILES = (50, 90, 95, 99)
FEWEST_SCORED = 8
FEWEST_FOR_SLOPE = 30
NS_PER_MS = 1e6
LATENCIES = ("ttft", "tpot", "e2e")


@dataclass(frozen=True)
class Served:
    """Requests after a simulation: times in ns, -1 where it did not happen. All arrays have one entry per request."""

    arrival_ns: Int64s
    started_ns: Int64s  # first scheduled
    first_token_ns: Int64s
    finish_ns: Int64s
    output_tokens: Int64s
    max_running: float  # requests that can run at once, whole fleet
    busy_share: float = math.nan  # of the instances' time


def in_flight(was: Served) -> float:
    """Mean number of requests in flight over the run (Little's law on the finished ones)."""
    done = was.finish_ns >= 0
    if not done.any():
        return 0.0
    held = (was.finish_ns[done] - was.arrival_ns[done]).sum()
    return float(held / max(1, was.finish_ns[done].max() - was.arrival_ns[done].min()))


@dataclass(frozen=True)
class Slo:
    """Limits in ms at a percentile of the requests; None = no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    percentile: float = 99.0

    @property
    def limits(self) -> dict[str, float]:
        given = {name: getattr(self, f"{name}_ms") for name in LATENCIES}
        return {name: limit for name, limit in given.items() if limit is not None}


@dataclass(frozen=True)
class LoadPoint:
    """One offered load. Latencies in ms over scored requests, warm-up left out; rates over all of them."""

    offered_per_s: float
    achieved_per_s: float
    goodput_per_s: float
    output_tok_s: float
    latency_ms: dict[str, float]  # ttft_mean, ttft_p50, ..., e2e_p99
    at_percentile_ms: dict[str, float]  # ttft, tpot, e2e at the SLO's percentile
    n_finished: int
    n_unfinished: int
    n_scored: int
    deepest_queue: int
    saturated: bool
    busy_share: float
    within_slo: bool

    def as_dict(self) -> dict[str, Any]:
        """One flat row of a table."""
        out = {k: v for k, v in vars(self).items() if k not in ("latency_ms", "at_percentile_ms")}
        return out | {f"{name}_ms": value for name, value in self.latency_ms.items()}


def scored(finish_ns: Int64s, warmup_share: float) -> Int64s:
    """Requests that count, in order of completion: the first `warmup_share` is left out unless fewer than 8 would remain."""
    order = np.argsort(finish_ns, kind="stable")
    left_out = int(len(order) * min(max(warmup_share, 0.0), 0.9))
    return order if len(order) - left_out < FEWEST_SCORED else order[left_out:]


def queue_depth(served: Served) -> Int64s:
    """Requests waiting for their first step just after each arrival, in order of arrival."""
    arrival = np.sort(served.arrival_ns)
    started = np.sort(served.started_ns[served.started_ns >= 0])
    # A request that starts at the very instant at which it arrives has not waited.
    return np.arange(1, len(arrival) + 1) - np.searchsorted(started, arrival, side="right")


def is_saturated(served: Served, offered_per_s: float) -> bool:
    """Whether queues grow without end at this load.

    The fitted line through the queue's depth (first fifth of the arrivals dropped) rises by more than what can run at
    once and the queue gets deeper than that; or requests start at under half the rate at which they are offered. Starts,
    not ends: the long tail of a few long outputs after the last arrival is no overload.
    """
    if 0.0 < offered_per_s < math.inf and started_per_s(served) < 0.5 * offered_per_s:
        return True
    depth = queue_depth(served)
    later = slice(len(depth) // 5, None)
    time = np.sort(served.arrival_ns)[later].astype(np.float64)
    if len(time) < FEWEST_FOR_SLOPE or time[-1] <= time[0]:
        return False
    centred = time - time.mean()
    slope = float((centred * depth[later]).sum() / (centred * centred).sum())
    grows = slope * float(time[-1] - time[0])
    return grows > served.max_running and float(depth.max()) > served.max_running


def started_per_s(served: Served) -> float:
    """Rate at which requests are first scheduled, over the time from the first arrival to the last start."""
    started = served.started_ns[served.started_ns >= 0]
    if not len(started):
        return 0.0
    return len(started) / max(float(started.max() - served.arrival_ns.min()) / 1e9, 1e-9)


def measure(
    served: Served, offered_per_s: float, *, slo: Slo | None = None, warmup_share: float = 0.1
) -> LoadPoint:
    """Figures of one simulated load; percentiles interpolate linearly.

    TPOT = (finish - first token) / (output - 1), over requests of more than one token.
    """
    slo = slo or Slo()
    done = np.flatnonzero(served.finish_ns >= 0)
    finish, arrival = served.finish_ns[done], served.arrival_ns[done]
    start = int(served.arrival_ns.min()) if len(served.arrival_ns) else 0
    span_s = max(float(finish.max() - start) / 1e9, 1e-9) if len(done) else math.inf
    latency = {
        "ttft": (served.first_token_ns[done] - arrival) / NS_PER_MS,
        "tpot": (finish - served.first_token_ns[done])
        / NS_PER_MS
        / np.maximum(served.output_tokens[done] - 1, 1),
        "e2e": (finish - arrival) / NS_PER_MS,
    }
    kept = scored(finish, warmup_share)
    several = kept[served.output_tokens[done][kept] > 1]
    rows = {"ttft": kept, "tpot": several, "e2e": kept}
    figures, at_percentile = {}, {}
    for name, values in latency.items():
        sample = values[rows[name]]
        if len(sample) == 0:
            continue
        figures[f"{name}_mean"] = float(sample.mean())
        figures |= {
            f"{name}_p{q}": float(v)
            for q, v in zip(PERCENTILES, np.percentile(sample, PERCENTILES), strict=True)
        }
        at_percentile[name] = float(np.percentile(sample, slo.percentile))
    met = np.ones(len(done), bool)
    for name, limit in slo.limits.items():
        met &= latency[name] <= limit
    achieved = len(done) / span_s
    saturated = is_saturated(served, offered_per_s)
    unfinished = len(served.arrival_ns) - len(done)
    within = all(at_percentile.get(name, 0.0) <= limit for name, limit in slo.limits.items())
    return LoadPoint(
        offered_per_s=offered_per_s,
        achieved_per_s=achieved,
        goodput_per_s=int(met.sum()) / span_s,
        output_tok_s=float(served.output_tokens[done].sum()) / span_s,
        latency_ms=figures,
        at_percentile_ms=at_percentile,
        n_finished=len(done),
        n_unfinished=unfinished,
        n_scored=len(kept),
        deepest_queue=int(queue_depth(served).max()) if len(served.arrival_ns) else 0,
        saturated=saturated,
        busy_share=served.busy_share,
        within_slo=within and not saturated and unfinished == 0 and len(done) > 0,
    )


LoadAt = Callable[[float], LoadPoint]
"""Simulates an offered rate (requests/s)."""


def load_curve(load_at: LoadAt, sustainable_per_s: float, configured_per_s: float = 0.0,
               fractions: Sequence[float] = FRACTIONS) -> list[LoadPoint]:  # fmt: skip
    """Points at shares of the sustainable rate, and at the configured one if there is one, by rising load."""
    rates = {share * sustainable_per_s for share in fractions}
    if configured_per_s > 0.0:
        rates.add(configured_per_s)
    return [load_at(rate) for rate in sorted(rates)]


@dataclass(frozen=True)
class Capacity:
    """The highest rate found within the SLO, the lowest found outside it, and every load that was tried.

    `rate_per_s` is 0 where even `floor` misses the SLO; `missed_per_s` is infinite where no load missed it.
    """

    rate_per_s: float
    missed_per_s: float
    at: LoadPoint | None
    tried: list[LoadPoint] = field(default_factory=list)


def capacity(load_at: LoadAt, guess_per_s: float, *, tolerance: float = 0.01, floor_share: float = 1e-3,
             ceiling_share: float = 1e3) -> Capacity:  # fmt: skip
    """The largest rate within the SLO, by bracketing from `guess_per_s` and bisecting to `tolerance` (relative).

    Looks between `floor_share` and `ceiling_share` of the guess. A latency that is better at a higher rate (it
    happens with few requests) can hide a second crossing; the one next to the bracket is found.
    """
    if not 0.0 < guess_per_s < math.inf:
        raise UserError("must be above 0", field="guess_per_s", value=guess_per_s)
    tried: list[LoadPoint] = []

    def within(rate: float) -> bool:
        tried.append(load_at(rate))
        return tried[-1].within_slo

    low, high = 0.0, math.inf
    rate = guess_per_s
    if within(rate):
        while math.isinf(high) and rate < ceiling_share * guess_per_s:
            low, rate = rate, 1.6 * rate
            if not within(rate):
                high = rate
        low = rate if math.isinf(high) else low
    else:
        high = rate
        while low == 0.0 and rate > floor_share * guess_per_s:
            rate /= 1.6
            if within(rate):
                low = rate
            else:
                high = rate
    while low > 0.0 and math.isfinite(high) and high > low * (1.0 + tolerance):
        rate = math.sqrt(low * high)
        if within(rate):
            low = rate
        else:
            high = rate
    at = next((point for point in reversed(tried) if point.offered_per_s == low), None)
    return Capacity(low, high, at, tried)
