"""The load of the coming weeks from the hours of the past ones: three plain methods, each shown beside the others.

- `same_hour_last_week`: each hour of the week as the mean of the last four weeks' same hour (of the same hour of any day
  where no such hour was seen), times the growth until then; the busiest hour of the horizon is planned for.
- `percentile`: a percentile of all hours looked at, times the growth until the end of the horizon.
- `last_peak`: the night's own busiest hour, times the growth until the end of the horizon.
- `highest`: the largest of the three.

Growth per week, where the job does not state it, is the median of the ratios of days seven days apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sweep.nightly.days import EPOCH
from sweep.nightly.job import Job

Floats = NDArray[np.float64]
WEEKS = 4
FEWEST_PAIRS = 3
STEEPEST_PER_WEEK = 0.2
"""Fitted growth is held to this: what a few days suggest beyond it is seldom a trend."""


@dataclass(frozen=True)
class Forecast:
    """Loads of one model in requests/s (means of an hour), each method's busiest hour."""

    growth_per_week: float
    growth_from: str
    rate_per_s: Mapping[str, float]
    chosen: str
    curve: Floats  # requests/s of each hour of the horizon, from midnight after the night
    days_seen: int

    @property
    def planned_per_s(self) -> float:
        """Busiest hour by the chosen method."""
        return self.rate_per_s[self.chosen]

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "method": self.chosen,
            "requests_per_s": dict(self.rate_per_s),
            "growth_per_week": self.growth_per_week,
            "growth_from": self.growth_from,
            "days_seen": self.days_seen,
        }


def days_by_hour(rates: pl.DataFrame, night: date, lookback_days: int) -> Floats:
    """Hourly rates, shape (lookback_days + 1, 24), the night last; NaN in days that nothing is known of.

    `rates` has columns hour and rate_per_s; an hour missing from a day with others counts as 0.
    """
    first = (night - EPOCH).days - lookback_days
    out = np.full((lookback_days + 1, 24), np.nan)
    hours = rates["hour"].dt.epoch("s").to_numpy() // 3600
    day, hour = hours // 24 - first, hours % 24
    inside = (day >= 0) & (day <= lookback_days)
    out[np.unique(day[inside])] = 0.0
    out[day[inside], hour[inside]] = rates["rate_per_s"].to_numpy()[inside]
    return out


def fitted_growth(days: Floats) -> tuple[float, int]:
    """Median growth over the pairs of days a week apart (0 with fewer than three), and how many pairs there were."""
    daily = days.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = daily[7:] / daily[:-7]
    ratio = ratio[np.isfinite(ratio) & (ratio > 0.0)]
    if len(ratio) < FEWEST_PAIRS:
        return 0.0, len(ratio)
    return float(np.clip(np.median(ratio) - 1.0, -STEEPEST_PER_WEEK, STEEPEST_PER_WEEK)), len(ratio)


def hour_of_week(days: Floats, last_weekday: int) -> Floats:
    """Mean rate of each hour of the week, shape (7, 24), Monday first, over the last four weeks."""
    recent = days[-7 * WEEKS :]
    weekday = (last_weekday - np.arange(len(recent))[::-1]) % 7
    of_day = _mean(recent)
    out = np.empty((7, 24))
    for day in range(7):
        own = _mean(recent[weekday == day])
        out[day] = np.where(np.isnan(own), of_day, own)
    return np.nan_to_num(out)


def _mean(rows: Floats) -> Floats:
    known = ~np.isnan(rows)
    total, n = np.where(known, rows, 0.0).sum(axis=0), known.sum(axis=0)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def forecast(days: Floats, night: date, job: Job) -> Forecast:
    """Forecast from `days_by_hour`."""
    stated = job.growth_per_week
    growth, pairs = fitted_growth(days)
    source = "stated by the job"
    if stated is None:
        source = (
            f"median of {pairs} pairs of days a week apart"
            if pairs >= FEWEST_PAIRS
            else "too few days to tell"
        )
    growth = growth if stated is None else stated
    horizon = job.horizon_days
    ahead = np.arange(1, horizon + 1)
    weekday = (night.weekday() + ahead) % 7
    # The mean of four weeks stands for a moment two weeks back; growth counts from there.
    seen = np.flatnonzero(~np.isnan(days[-7 * WEEKS :, 0]))
    age = float(np.mean(min(len(days), 7 * WEEKS) - 1 - seen)) if len(seen) else 0.0
    curve = hour_of_week(days, night.weekday())[weekday] * ((1.0 + growth) ** ((ahead + age) / 7.0))[:, None]
    until_end = (1.0 + growth) ** (horizon / 7.0)
    known = days[~np.isnan(days[:, 0])]
    rate = {
        "same_hour_last_week": float(curve.max()),
        "percentile": float(np.percentile(known, job.load_percentile)) * until_end if len(known) else 0.0,
        "last_peak": float(np.nan_to_num(days[-1]).max()) * until_end,
    }
    rate["highest"] = max(rate.values())
    assert all(math.isfinite(value) for value in rate.values())
    return Forecast(growth, source, rate, job.forecast, curve.ravel(), len(known))
