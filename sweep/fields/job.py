"""An unattended planning job (group `job`): read by `servesweep nightly`."""

from __future__ import annotations

from typing import Any

from sweep.fields.spec import Field, Kind

_Q = "What does the nightly job do?"
FORECASTS = ("same_hour_last_week", "percentile", "last_peak", "highest")
PEAKS = ("minute", "hour")


def _set(key: str, kind: Kind, doc: str, **more: Any) -> Field:
    doc += " Moves nothing: it says what the nightly job reads, forecasts and keeps."
    return Field(key=f"job.{key}", doc=doc, kind=kind, scope="run", column=False, question=_Q, **more)


FIELDS = (
    _set("name", "text", "Name of the job as its reports show it.", default=""),
    _set(
        "log",
        "text",
        "Traffic log: files, folders or globs, separated by commas; {date} stands for the night's date.",
        auto="the small built-in log",
    ),
    _set("columns", "text", "Columns of the log: arrival=NAME[:unit],isl=NAME,osl=NAME,model=NAME.", auto="their usual names"),
    _set("on_bad_line", "choice", "What to do about lines that are no requests.", choices=("stop", "skip"), default="skip"),
    _set("night", "text", "Day (UTC) whose traffic is planned for: yesterday, last (the log's last day) or a date.", default="yesterday"),
    _set("folder", "path", "Where the job keeps its nights.", auto="results/nightly-<name>"),
    _set("lookback_days", "int", "Days before the night that the forecast may look at.", default=28, low=1, high=366, unit="days"),
    _set("horizon_days", "int", "Days ahead that the plan is for.", default=28, low=1, high=366, unit="days"),
    _set("forecast", "choice", "Method whose busiest hour is planned for.", choices=FORECASTS, default="highest"),
    _set("load_percentile", "float", "Percentile of the hours looked at, for forecast=percentile.", default=99.0, low=50, high=100),
    _set("growth_per_week", "float", "Growth of the traffic per week: 0.02 = 2 %.", low=-0.5, high=1.0, auto="fitted to days a week apart"),
    _set("peak", "choice", "Whether the planned load is that of the busiest minute of the hour or of the hour.", choices=PEAKS, default="minute"),
    _set("change_threshold", "float", "Change of GPUs or cost against the last announced plan that is worth an alert.", default=0.1, low=0, high=10),
    _set("replay_requests", "int", "Most requests of the busiest hour that are replayed, per model.", default=100_000, low=100, high=2_000_000, unit="requests"),
    _set("time_limit_min", "float", "Time after which the job gives up.", default=60.0, low=0, low_open=True, unit="min"),
)  # fmt: skip
