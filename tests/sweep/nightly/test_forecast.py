"""The forecast's plain methods on traffic whose future is known."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from sweep.nightly.forecast import days_by_hour, fitted_growth, forecast, hour_of_week
from sweep.nightly.job import job_of

SUNDAY = date(2026, 3, 1)
JOB = job_of(["job=demo"])


def weeks(n_days: int, growth_per_week: float = 0.0) -> np.ndarray:
    """Rates up to a Sunday: 2/s at noon, 1/s else, half of it at weekends."""
    day = np.ones(24)
    day[12] = 2.0
    back = np.arange(n_days)[::-1]
    weekend = np.array([((SUNDAY - timedelta(days=int(b))).weekday() >= 5) for b in back])
    level = (1.0 + growth_per_week) ** (-back / 7.0) * np.where(weekend, 0.5, 1.0)
    return level[:, None] * day


def test_growth_is_found_behind_the_weekend() -> None:
    growth, pairs = fitted_growth(weeks(29, 0.03))
    assert growth == pytest.approx(0.03)
    assert pairs == 22


def test_growth_of_too_few_days_is_none() -> None:
    assert fitted_growth(weeks(9, 0.5)) == (0.0, 2)


def test_growth_is_held_to_what_a_trend_can_be() -> None:
    assert fitted_growth(weeks(29, 0.9))[0] == 0.2


def test_steady_traffic_is_forecast_as_it_is() -> None:
    found = forecast(weeks(29), SUNDAY, JOB)
    assert found.rate_per_s["same_hour_last_week"] == pytest.approx(2.0)
    assert found.rate_per_s["last_peak"] == pytest.approx(1.0)
    assert found.rate_per_s["highest"] == pytest.approx(2.0)
    assert found.curve[12] == pytest.approx(2.0)
    assert found.curve[5 * 24 + 12] == pytest.approx(1.0)


def test_growing_traffic_is_forecast_at_the_end_of_the_horizon() -> None:
    found = forecast(weeks(29, 0.03), SUNDAY, JOB)
    noon_of_the_last_friday = 2.0 * 1.03 ** (26 / 7)
    assert found.rate_per_s["same_hour_last_week"] == pytest.approx(noon_of_the_last_friday, rel=0.01)


def test_stated_growth_replaces_the_fitted_one() -> None:
    job = job_of(["job=demo", "job.growth_per_week=0.1", "job.forecast=last_peak"])
    found = forecast(weeks(29, 0.03), SUNDAY, job)
    assert found.planned_per_s == pytest.approx(1.0 * 1.1**4)
    assert found.growth_from == "stated by the job"


def test_an_hour_of_the_week_that_was_never_seen_is_taken_from_other_days() -> None:
    days = np.full((29, 24), np.nan)
    days[-1] = weeks(29)[-1]
    assert hour_of_week(days, SUNDAY.weekday())[2, 12] == pytest.approx(1.0)


def test_days_that_nothing_is_known_of_differ_from_days_without_traffic() -> None:
    rates = pl.DataFrame({"hour": pl.Series([SUNDAY]).cast(pl.Datetime("ms")), "rate_per_s": [0.25]})
    days = days_by_hour(rates, SUNDAY, 2)
    assert np.isnan(days[:2]).all()
    assert days[2].tolist() == [0.25] + [0.0] * 23


def test_nothing_seen_is_no_load() -> None:
    assert forecast(np.full((29, 24), np.nan), SUNDAY, JOB).planned_per_s == 0.0
