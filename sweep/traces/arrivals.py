"""Arrival times of synthetic requests."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweep.traces.requests import Int64s

Process = Literal["poisson", "gamma", "deterministic", "pulse"]
PROCESSES: tuple[Process, ...] = ("poisson", "deterministic", "gamma", "pulse")
NS_PER_S = 1_000_000_000
SECONDS_PER_DAY = 86_400.0


def gaps(rng: np.random.Generator, n: int, process: Process, burstiness: float) -> NDArray[np.float64]:
    """`n` gaps with mean 1: gamma of shape `burstiness` (1 = exponential), all 1 where deterministic."""
    if process == "deterministic":
        return np.ones(n)
    shape = burstiness
    return rng.standard_gamma(shape, n) / shape


def constant_rate(gap: NDArray[np.float64], rate_per_s: float) -> Int64s:
    """Arrivals (ns) at a constant rate, the first after its own gap; rate 0 or infinite puts all at time 0."""
    if not 0.0 < rate_per_s < np.inf:
        return np.zeros(len(gap), np.int64)
    return whole_ns(np.cumsum(gap) / rate_per_s)


def varying_rate(gap: NDArray[np.float64], rate_per_s: NDArray[np.float64], interval_s: float) -> Int64s:
    """Arrivals (ns) at a rate that is constant within each interval and repeats after the last one.

    Time is stretched so that the expected number of arrivals by t is the integral of the rate; a process of unit rate
    in that stretched time keeps its burstiness at every hour. Rates must not all be 0.
    """
    expected = np.concatenate([[0.0], np.cumsum(rate_per_s * interval_s)])
    edge_s = np.arange(len(rate_per_s) + 1) * interval_s
    cycles, within = np.divmod(np.cumsum(gap), expected[-1])
    return whole_ns(cycles * edge_s[-1] + np.interp(within, expected, edge_s))


def expected_count(rate_per_s: NDArray[np.float64], interval_s: float, duration_s: float) -> float:
    """Integral of a repeating, interval-wise constant rate from 0 to `duration_s`."""
    cycle_s = len(rate_per_s) * interval_s
    cycles, rest = divmod(duration_s, cycle_s)
    covered = np.clip(rest - np.arange(len(rate_per_s)) * interval_s, 0.0, interval_s)
    return float(cycles * rate_per_s.sum() * interval_s + (covered * rate_per_s).sum())


def pulses(gap: NDArray[np.float64], rate_per_s: float, per_pulse: int, delay_s: float) -> Int64s:
    """Arrivals (ns) in pulses of `per_pulse` requests, `delay_s` apart; within one, spaced at the rate if there is one."""
    index = np.arange(len(gap))
    offset = np.zeros(len(gap))
    if 0.0 < rate_per_s < np.inf:
        spaced = np.where(index % per_pulse == 0, 0.0, gap / rate_per_s)
        total = np.cumsum(spaced)
        offset = total - total[index - index % per_pulse]
    starts = index // per_pulse * delay_s
    return np.maximum.accumulate(whole_ns(starts + offset))


def whole_ns(seconds: NDArray[np.float64]) -> Int64s:
    return (seconds * NS_PER_S).astype(np.int64)
