"""The files of one night as bytes: the same night gives the same bytes; no times of day, no paths in them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from sweep.nightly.days import start_ns
from sweep.nightly.figures import MOST_MODELS, replay_png, traffic_png, trend_png
from sweep.nightly.forecast import Forecast
from sweep.nightly.nights import HOURS, PLAN
from sweep.nightly.page import report_html
from sweep.nightly.traffic import Traffic
from sweep.nightly.words import summary_md
from sweep.parts import parquet_bytes
from sweep.traces.summary import HOUR_NS


@dataclass(frozen=True)
class Night:
    """A finished night. `seen`: hourly rates looked at; `curves`: forecasts by name in the log; `history`: up to tonight."""

    plan: dict[str, Any]
    traffic: Traffic
    seen: pl.DataFrame
    curves: Mapping[str, Forecast]
    history: pl.DataFrame


def files_of_night(night: Night, report: bool) -> dict[str, bytes]:
    """Content of the night's folder by file name, the manifest aside; pictures and report.html only with `report`."""
    expected = forecast_frame(night)
    plan = _without_minutes(night.plan)
    tables = {
        "hours": night.traffic.hours,
        "forecast": expected,
        "models": night.history.filter(pl.col("night") == night.traffic.night),
        "plans": _plans(plan),
        "replay": _minutes(night.plan),
    }
    files = {PLAN: (json.dumps(plan, indent=1, allow_nan=False) + "\n").encode()}
    files |= {f"{name}.parquet": parquet_bytes(table) for name, table in tables.items()}
    files |= {f"{name}.csv": _csv(tables[name]) for name in ("hours", "models", "plans")}
    files["summary.md"] = summary_md(plan).encode()
    assert HOURS in files
    if report:
        pictures = _pictures(night, expected)
        files |= pictures | {"report.html": report_html(plan, pictures)}
    return files


def forecast_frame(night: Night) -> pl.DataFrame:
    """The horizon hour by hour: log_name, hour (UTC), rate_per_s."""
    start_ms = start_ns(night.traffic.night + timedelta(days=1)) // 10**6
    frames = [
        pl.DataFrame(
            {
                "log_name": pl.Series([name] * len(found.curve), dtype=pl.String),
                "hour": pl.Series(range(len(found.curve)), dtype=pl.Int64) * (HOUR_NS // 10**6) + start_ms,
                "rate_per_s": found.curve,
            }
        )
        for name, found in night.curves.items()
    ]
    return pl.concat(frames).with_columns(pl.col("hour").cast(pl.Datetime("ms")))


def _pictures(night: Night, expected: pl.DataFrame) -> dict[str, bytes]:
    models = night.plan["models"][:MOST_MODELS]
    found = {
        "traffic.png": traffic_png(models, night.seen, expected),
        "replay.png": replay_png(models),
        "trend.png": trend_png(night.history, models),
    }
    return {name: content for name, content in found.items() if content is not None}


def _without_minutes(plan: Mapping[str, Any]) -> dict[str, Any]:
    """plan.json without the series that replay.parquet holds."""
    models = []
    for one in plan["models"]:
        replay = one.get("replay")
        short = None if replay is None else {k: v for k, v in replay.items() if k != "minutes"}
        models.append(one | {"replay": short} if replay is not None else one)
    return {**plan, "models": models}


def _plans(plan: Mapping[str, Any]) -> pl.DataFrame:
    rows = [{"log_name": one["log_name"], **row} for one in plan["models"] for row in one.get("plans", ())]
    return (
        pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema={"log_name": pl.String})
    )


def _minutes(plan: Mapping[str, Any]) -> pl.DataFrame:
    schema = {
        "log_name": pl.String,
        "minute": pl.Int64,
        "requests": pl.Int64,
        "ttft_ms": pl.Float64,
        "tpot_ms": pl.Float64,
    }
    rows = [
        {"log_name": one["log_name"], **row}
        for one in plan["models"]
        for row in (one.get("replay") or {}).get("minutes", ())
    ]
    return pl.DataFrame(rows, schema=schema)


def _csv(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_csv(out)
    return out.getvalue()
