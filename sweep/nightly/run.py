"""`servesweep nightly`: one night from its log to its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from sweep import __version__
from sweep.errors import EXIT_FAULT, UserError
from sweep.fields.inert import notes
from sweep.fields.readers import keys_of, unread
from sweep.files import check_folder
from sweep.nightly import nights
from sweep.nightly.compare import EXIT_UNCHANGED, compared, exit_status
from sweep.nightly.days import yesterday
from sweep.nightly.events import FILE as LOG
from sweep.nightly.events import Events
from sweep.nightly.forecast import Forecast, days_by_hour, forecast
from sweep.nightly.job import Job, job_of
from sweep.nightly.limits import TimeUp, limited
from sweep.nightly.lock import FILE as LOCK
from sweep.nightly.lock import GUARD, locked
from sweep.nightly.outputs import Night, files_of_night
from sweep.nightly.plan import NOT_PLANNED, model_plan
from sweep.nightly.shape import shape_of
from sweep.nightly.steps import Steps, digest_of
from sweep.nightly.traffic import Traffic, log_state, traffic_of
from sweep.nightly.words import headline, summary_md
from sweep.parquet_file import ParquetDecoder
from sweep.parts import digest, parquet_bytes
from sweep.planner.run import arguments

Plans = Mapping[date, Mapping[str, Any]]


def main(argv: Sequence[str]) -> int:
    """Run the verb on its arguments; returns the exit status."""
    overrides, config_dirs, as_json = arguments(argv)
    job = job_of(overrides, config_dirs)
    for line in notes(unread(keys_of((*overrides, *job.plan)), "nightly")):
        print(f"note: {line}", file=sys.stderr)
    try:
        with limited(job.time_limit_min):
            plan, folder = run(job)
    except TimeUp:
        print(
            f"servesweep nightly: not done after job.time_limit_min={job.time_limit_min:g}; run it again to continue",
            file=sys.stderr,
        )
        return EXIT_FAULT
    except KeyboardInterrupt:
        raise KeyboardInterrupt("run it again to continue") from None
    print(json.dumps(plan, indent=1) if as_json else summary_md(plan))
    if not as_json:
        print(folder)
    if plan["exit_status"]:
        print(f"servesweep nightly: {headline(plan)}", file=sys.stderr)
    return int(plan["exit_status"])


def run(job: Job) -> tuple[dict[str, Any], Path]:
    """Do the job's night, or find it done. Returns its plan.json and its folder. Raises UserError."""
    with _writing_to(job.folder):
        if not (job.folder / LOG).is_file():  # every run of a job leaves it
            check_folder(job.folder, "job.folder", (LOCK, GUARD))
        job.folder.mkdir(parents=True, exist_ok=True)
        with locked(job.folder) as taken_over:
            events = Events(job.folder)
            events.tell("begin", job=job.name, night=job.night, version=__version__)
            if taken_over:
                events.tell("stale lock taken over", why=taken_over)
            try:
                return _night(job, events)
            except BaseException as error:
                events.tell("failed", kind=type(error).__name__, message=str(error))
                raise


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """A folder that cannot be written, or a full disk, is told in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", field="job.folder", value=folder) from None


def _night(job: Job, events: Events) -> tuple[dict[str, Any], Path]:
    nights.mend(job.folder)
    wanted = _wanted(job)
    steps = Steps(job.folder, str(wanted or job.night), events)
    try:
        done = _worked_out(job, wanted, steps, events)
    except UserError:
        # What is refused once is refused again: there is nothing to go on with.
        steps.clear()
        raise
    steps.clear()
    events.tell("done", night=done[0]["night"], exit_status=done[0]["exit_status"])
    return done


def _worked_out(job: Job, wanted: date | None, steps: Steps, events: Events) -> tuple[dict[str, Any], Path]:
    folder = job.folder
    key = digest_of(__version__, job.reading, str(wanted), log_state(job, wanted))
    traffic = steps.traffic(key, lambda: traffic_of(job, wanted, steps.folder))
    earlier, remarks = nights.nights(folder, traffic.night)
    seen = _seen(job, traffic, earlier)
    inputs = digest_of(
        __version__,
        job.planning,
        _digests(traffic),
        list(traffic.notes),
        digest(parquet_bytes(seen)),
        list(earlier.values()),
        remarks,
    )
    own = folder / traffic.night.isoformat()
    if nights.inputs_of(folder, traffic.night) == inputs:
        events.tell("already done", night=traffic.night)
    else:
        found = _planned(job, traffic, seen, earlier, remarks, steps)
        with events.timed("outputs"):
            nights.publish(folder, traffic.night, inputs, files_of_night(found, job.report))
    nights.write_history(folder)
    plan: dict[str, Any] = json.loads((own / nights.PLAN).read_bytes())
    return plan, own


def _wanted(job: Job) -> date | None:
    if job.night == "last":
        return None
    return yesterday() if job.night == "yesterday" else date.fromisoformat(job.night)


def _digests(traffic: Traffic) -> list[str]:
    return [digest(parquet_bytes(table)) for table in (traffic.hours, traffic.earlier, traffic.peak)]


def _seen(job: Job, traffic: Traffic, earlier: Plans) -> pl.DataFrame:
    """Hourly rates of the nights looked at: as the nights recorded them, else as whole days of tonight's log."""
    first = traffic.night - timedelta(days=job.lookback_days)
    frames = [traffic.hours.select("model", "hour", "rate_per_s")]
    recorded = []
    with ParquetDecoder() as decoder:
        for night in earlier:
            hours = nights.hours_of(job.folder, night, decoder) if night >= first else None
            if hours is not None:
                frames.append(hours)
                recorded.append(night)
    frames.append(traffic.earlier.filter(~pl.col("hour").dt.date().is_in(recorded)))
    return pl.concat(frames).rename({"model": "log_name"}).sort("log_name", "hour")


@dataclass(frozen=True)
class Expected:
    """What is expected of one model, and what its requests look like."""

    forecast: Forecast
    shape: dict[str, float] | None
    requests: int
    busiest_hour_per_s: float | None


def _expected(job: Job, traffic: Traffic, seen: pl.DataFrame, earlier: Plans, name: str) -> Expected:
    days = days_by_hour(seen.filter(pl.col("log_name") == name), traffic.night, job.lookback_days)
    busiest = traffic.busiest_hour(name)
    hours = traffic.hours.filter(pl.col("model") == name)
    shape = _earlier_shape(earlier, name) if busiest is None else shape_of(hours, busiest)
    n = int(hours["requests"].sum())
    return Expected(
        forecast(days, traffic.night, job),
        shape,
        n,
        None if busiest is None else float(busiest["rate_per_s"]),
    )


def _earlier_shape(earlier: Plans, name: str) -> dict[str, float] | None:
    """Lengths and burstiness of the latest night on which the model had requests."""
    for night in sorted(earlier, reverse=True):
        for one in earlier[night]["models"]:
            if one["log_name"] == name and one.get("traffic"):
                return dict(one["traffic"])
    return None


def _planned(
    job: Job, traffic: Traffic, seen: pl.DataFrame, earlier: Plans, remarks: list[str], steps: Steps
) -> Night:
    notes = [*traffic.notes, *remarks]
    missing = nights.missing_before(traffic.night, list(earlier))
    if missing:
        notes.append(missing)
    models, curves = [], {}
    for k, name in enumerate(seen["log_name"].unique().sort().to_list()):
        expected = _expected(job, traffic, seen, earlier, name)
        curves[name] = expected.forecast
        before = nights.announced_fleet(earlier, name)
        one = _model(job, traffic, name, k, expected, before, steps)
        one |= {"requests": expected.requests, "busiest_hour_per_s": expected.busiest_hour_per_s}
        models.append(one | compared(one, before, job.change_threshold, first_night=not earlier))
    if all(one["status"] == NOT_PLANNED for one in models):
        raise UserError(
            "nothing to plan: "
            + "; ".join(dict.fromkeys(str(x) for x in [*traffic.notes, *(m["reason"] for m in models)])),
            field="job.log",
            value=job.log or "the built-in log",
        )
    models.sort(key=lambda one: (-_usd(one), one["log_name"]))
    priced = [one["answer"] for one in models if one.get("answer")]
    usd = [answer["usd_per_hour"] for answer in priced]
    plan = {
        "servesweep": __version__,
        "job": job.name,
        "night": traffic.night.isoformat(),
        "exit_status": exit_status(models),
        "first": not earlier and exit_status(models) == EXIT_UNCHANGED,
        "total": {
            "gpus": sum(answer["gpus"] for answer in priced),
            "usd_per_hour": None if None in usd else sum(usd),
        },
        "notes": notes,
        "models": models,
    }
    return Night(plan, traffic, seen, curves, nights.history({**earlier, traffic.night: plan}))


def _model(
    job: Job,
    traffic: Traffic,
    name: str,
    k: int,
    expected: Expected,
    before: tuple[date, dict[str, Any]] | None,
    steps: Steps,
) -> dict[str, Any]:
    """One model's plan: a step of its own, so that a killed run does not do it again."""
    fleet = None if before is None else {part: before[1][part] for part in ("kind", "parts")}
    requests = traffic.replayable(name)
    key = digest_of(
        __version__, job.planning, name, expected.forecast.as_dict(), expected.shape, fleet,
        digest(parquet_bytes(traffic.peak.filter(pl.col("model") == name))),
    )  # fmt: skip
    return steps.plain(
        f"plan-{k:03d}",
        key,
        lambda: model_plan(job, name, expected.forecast, expected.shape, requests, fleet),
    )


def _usd(one: Mapping[str, Any]) -> float:
    return float((one.get("answer") or {}).get("usd_per_hour") or 0.0)
