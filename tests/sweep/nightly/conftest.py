"""A small job; with a stand-in for the planner where a test is about logs, folders and failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nightly.logs import NIGHT, SMALL_PLAN
from sweep.api import lines
from sweep.nightly import run as module
from sweep.nightly.forecast import Forecast
from sweep.nightly.job import Job


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    """Makes a job; `log` may be a frame, written as CSV."""

    def make(log: pl.DataFrame | str, **keys: Any) -> Job:
        if isinstance(log, pl.DataFrame):
            log.write_csv(tmp_path / "log.csv")
            log = str(tmp_path / "log.csv")
        settings: dict[str, Any] = {
            "name": "small",
            "log": log,
            "columns": "",
            "on_bad_line": "skip",
            "night": NIGHT.isoformat(),
            "folder": tmp_path / "out",
            "lookback_days": 28,
            "horizon_days": 28,
            "forecast": "highest",
            "load_percentile": 99.0,
            "growth_per_week": None,
            "peak": "minute",
            "change_threshold": 0.1,
            "replay_requests": 1000,
            "time_limit_min": 5.0,
            "plan": tuple(lines([SMALL_PLAN])),
            "models": {},
            "report": False,
        }
        return Job(**settings | keys)

    return make


def a_thousand_gpus_per_request_and_second(
    job: Job, name: str, expected: Forecast, shape: object, requests: object, fleet: object
) -> dict[str, Any]:
    """A planner of one line, fine enough to show small changes."""
    if expected.planned_per_s == 0.0:
        return {
            "log_name": name,
            "status": "not planned",
            "reason": "no traffic",
            "forecast": expected.as_dict(),
        }
    gpus = math.ceil(1000.0 * expected.planned_per_s)
    answer = {"plan": f"{gpus} x h100_sxm", "hardware": "h100_sxm", "gpus": gpus, "usd_per_hour": 2.0 * gpus}
    return {
        "log_name": name,
        "model": name,
        "status": "planned",
        "reason": None,
        "forecast": expected.as_dict(),
        "traffic": shape,
        "planned_requests_per_s": expected.planned_per_s,
        "limits_ms": {},
        "kind": "replicas",
        "parts": [],
        "answer": answer,
        "plans": [],
        "replay": None,
        "announced_fleet_load": None,
    }


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nights without the planner."""
    monkeypatch.setattr(module, "model_plan", a_thousand_gpus_per_request_and_second)
