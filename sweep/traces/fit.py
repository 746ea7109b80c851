"""A synthetic workload fitted to a trace: lognormal lengths, gamma arrivals, hourly rates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweep.traces import summary
from sweep.traces.requests import Int64s, Requests
from sweep.traces.summary import HOUR_NS, Floats
from sweep.traces.synthetic import Traffic, synthesize

EVEN_GAPS_CV = 0.02
"""Gaps that vary less than this are taken as evenly spaced."""
SHAPES = (0.02, 50.0)
COMPARED = 200_000
"""Requests of the trace and of the fit that are compared, evenly taken: enough to tell 0.01 apart."""


@dataclass(frozen=True)
class Fit:
    """The fitted traffic and how close it comes: largest difference of the distributions (Kolmogorov-Smirnov)."""

    traffic: Traffic
    prefix_hit_rate: float
    isl_ks: float
    osl_ks: float
    gap_ks: float

    def as_dict(self) -> dict[str, Any]:
        return {
            **{
                k: v
                for k, v in vars(self.traffic).items()
                if k not in ("n_requests", "seed", "pulse_requests")
            },
            "prefix_hit_rate": self.prefix_hit_rate,
            "ks": {"isl": self.isl_ks, "osl": self.osl_ks, "gap": self.gap_ks},
        }


def fit(requests: Requests, *, prefix_hit_rate: float = 0.0, seed: int = 0) -> Fit:
    """Fit `requests` (at least one) and compare a synthetic trace of the same duration with them.

    Means of lengths and rates are the trace's own; spreads are the standard deviations of ln(length); the gamma shape
    is 1 / cv^2 of the gaps after the hourly rates have been divided out. Times of a coarse clock are spread over its
    step first.
    """
    stamped_ns = requests.arrival_ns[: requests.n_open]
    arrival_ns = summary.spread_ties(stamped_ns, summary.clock_step(stamped_ns))
    rates = _hourly_rates(arrival_ns, requests.epoch_ns)
    span_s = max(float(arrival_ns[-1] - arrival_ns[0]) / 1e9, 0.0)
    rate = (len(arrival_ns) - 1) / span_s if span_s > 0.0 else 0.0
    cv = summary.variation(np.diff(_stretched(arrival_ns, requests.epoch_ns)))
    traffic = Traffic(
        n_requests=len(arrival_ns),
        rate_per_s=rate,
        process="deterministic" if rate > 0.0 and cv < EVEN_GAPS_CV and len(arrival_ns) > 2 else "gamma",
        burstiness=float(np.clip(1.0 / cv**2 if cv > 0.0 else SHAPES[1], *SHAPES)),
        hourly_rates=rates,
        distribution="lognormal",
        isl=float(requests.isl.mean()),
        osl=float(requests.osl.mean()),
        isl_sigma=float(np.log(requests.isl).std()),
        osl_sigma=float(np.log(requests.osl).std()),
        length_correlation=round(summary.correlation(requests), 6),
        max_tokens=int(max(requests.isl.max(), requests.osl.max())),
        seed=seed,
    )
    compared = replace(traffic, n_requests=min(len(arrival_ns), COMPARED), hourly_rates=())
    made = synthesize(compared) if rate > 0.0 else None
    return Fit(
        traffic,
        prefix_hit_rate,
        isl_ks=0.0 if made is None else distance(requests.isl, made.isl),
        osl_ks=0.0 if made is None else distance(requests.osl, made.osl),
        gap_ks=0.0 if made is None else distance(np.diff(arrival_ns), np.diff(made.arrival_ns)),
    )


def _hourly_rates(arrival_ns: Int64s, epoch_ns: int | None) -> tuple[float, ...]:
    """Rates by hour: of the day (UTC, from midnight) where dates cover a day, else since the start; () under two hours."""
    names, rates = summary.hourly(arrival_ns, epoch_ns)
    if arrival_ns[-1] - arrival_ns[0] < 2 * HOUR_NS:
        return ()
    if epoch_ns is None or len(rates) < 24:
        return tuple(rates.tolist())
    hour = (np.arange(len(names)) + epoch_ns // HOUR_NS) % 24
    return tuple((np.bincount(hour, rates, 24) / np.bincount(hour, minlength=24)).tolist())


def _stretched(arrival_ns: Int64s, epoch_ns: int | None) -> Floats:
    """Arrivals in the time in which their rate is 1: expected arrivals until each, by the rates of the hours."""
    _, rates = summary.hourly(arrival_ns, epoch_ns)
    base = 0 if epoch_ns is None else epoch_ns
    start = (int(arrival_ns[0]) + base) // HOUR_NS * HOUR_NS - base
    edges = start + np.arange(len(rates) + 1) * HOUR_NS
    expected = np.concatenate([[0.0], np.cumsum(rates * 3600.0)])
    stretched: Floats = np.interp(arrival_ns.astype(np.float64), edges.astype(np.float64), expected)
    return stretched


def distance(first: Any, second: Any) -> float:
    """Kolmogorov-Smirnov distance of two samples: largest difference of their distribution functions."""
    if len(first) == 0 or len(second) == 0:
        return 0.0
    one, two = np.sort(first[:: -(-len(first) // COMPARED)]), np.sort(second)
    every = np.concatenate([one, two])
    below = (
        np.searchsorted(one, every, side="right") / len(one),
        np.searchsorted(two, every, side="right") / len(two),
    )
    largest = float(np.abs(below[0] - below[1]).max())
    return largest if math.isfinite(largest) else 0.0
