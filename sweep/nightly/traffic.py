"""What a night's log says: figures per model and hour, the busiest hours' requests, and what was noticed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sweep.errors import UserError
from sweep.nightly.days import DAY_NS, clock, day_of, start_ns
from sweep.nightly.intake import Intake
from sweep.nightly.job import Job
from sweep.nightly.sketch import MICRO, quantile
from sweep.traces.builtin import builtin_log
from sweep.traces.problems import OnBadLine
from sweep.traces.reader import Source, stream
from sweep.traces.requests import Requests
from sweep.traces.source import expand
from sweep.traces.summary import HOUR_NS

BUILTIN_DAYS, BUILTIN_SEED = 28, 0
LOG_OF_THE_DEMO = "builtin_log.parquet"
FULL_DAY_MARGIN_NS = HOUR_NS
"""A log's first day counts as a whole day where its first request comes within an hour of midnight."""
SHORTEST_COVER_S = 600.0
MOST_MODELS = 1000
ROLES = ("isl", "osl")
SHARES = (("p50", 0.50), ("p95", 0.95))


@dataclass(frozen=True)
class Traffic:
    """One night. `hours`: 24 rows per model; `earlier`: hourly rates of whole days before it in the same log;
    `peak`: requests of each model's busiest hour, times in ns since its start; `notes`: remarks for people."""

    night: date
    hours: pl.DataFrame
    earlier: pl.DataFrame
    peak: pl.DataFrame
    notes: tuple[str, ...]

    @property
    def models(self) -> list[str]:
        """Models of the log in alphabetical order."""
        return sorted(set(self.hours["model"]) | set(self.earlier["model"]))

    def busiest_hour(self, model: str) -> dict[str, Any] | None:
        """The row of the model's hour with most requests; None where it had none."""
        rows = self.hours.filter((pl.col("model") == model) & (pl.col("requests") > 0))
        if rows.is_empty():
            return None
        return rows.sort("requests", "hour", descending=(True, False)).row(0, named=True)

    def replayable(self, model: str) -> Requests | None:
        """The requests of the busiest hour; None where there are none."""
        rows = self.peak.filter(pl.col("model") == model)
        if rows.is_empty():
            return None
        return Requests(rows["arrival"].to_numpy(), rows["isl"].to_numpy(), rows["osl"].to_numpy())


def log_state(job: Job, night: date | None) -> list[object]:
    """Names, sizes and times of the log's files: what tells that a step which read them need not read them again."""
    if job.log is None:
        return [BUILTIN_DAYS, BUILTIN_SEED]
    stats = [(str(path), path.stat()) for path in expand(_names(job, night))]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _names(job: Job, night: date | None) -> list[str]:
    """Names and patterns of the log's files. Raises UserError where {date} has no date to stand for."""
    assert job.log is not None
    if night is None and "{date}" in job.log:
        raise UserError(
            "needs a date for {date}", field="job.night", value=job.night, allowed="yesterday, YYYY-MM-DD"
        )
    text = job.log if night is None else job.log.replace("{date}", night.isoformat())
    return [part.strip() for part in text.split(",") if part.strip()]


def traffic_of(job: Job, night: date | None, scratch: Path) -> Traffic:
    """Read the log of `night` (None: its last day). The built-in log is made in `scratch` first. Raises UserError."""
    intake = Intake(night, job.lookback_days)
    if job.log is None:
        path = scratch / LOG_OF_THE_DEMO
        builtin_log(path, BUILTIN_DAYS, BUILTIN_SEED)
        source = stream([path], intake)
    else:
        policy: OnBadLine = "stop" if job.on_bad_line == "stop" else "skip"
        source = stream(_names(job, night), intake, columns=job.columns, on_bad_line=policy)
    if not source.clock.absolute:
        raise UserError("times are no dates; a nightly log needs them", file=source.files[0])
    if len(intake.models.names) > MOST_MODELS:
        raise UserError(
            f"more than {MOST_MODELS:,} models; is this the right column?", field="job.columns", value="model"
        )
    return _traffic(intake, source)


def _traffic(intake: Intake, source: Source) -> Traffic:
    names = intake.models.names
    sums = intake.hours.frame()
    start = start_ns(intake.night) // HOUR_NS
    of_night = sums.filter(pl.col("hour") >= start)
    hours = _hours(intake, of_night, start)
    busiest = of_night.sort("requests", "hour", descending=(True, False)).unique(
        "model", keep="first", maintain_order=True
    )
    peaks = [
        intake.requests_of(row["model"], row["hour"]).select(
            pl.lit(names[row["model"]]).alias("model"),
            pl.col("arrival") - row["hour"] * HOUR_NS,
            pl.col("isl").cast(pl.Int32),
            pl.col("osl").cast(pl.Int32),
        )
        for row in busiest.sort("model").iter_rows(named=True)
    ]
    empty = {"model": pl.String, "arrival": pl.Int64, "isl": pl.Int32, "osl": pl.Int32}
    return Traffic(
        intake.night,
        hours,
        _earlier(intake, sums.filter(pl.col("hour") < start), start),
        pl.concat(peaks) if peaks else pl.DataFrame(schema=empty),
        tuple(_notes(intake, source, int(of_night["requests"].sum()))),
    )


def _hours(intake: Intake, sums: pl.DataFrame, start: int) -> pl.DataFrame:
    """24 rows per model of the night: counts, rates and fitted shapes; null where an hour has no requests."""
    codes = sums["model"].unique().sort()
    every = pl.DataFrame({"model": codes}).join(
        pl.DataFrame({"hour": pl.Series(range(start, start + 24), dtype=pl.Int64)}), how="cross"
    )
    frame = every.join(sums.with_columns(pl.col("model").cast(codes.dtype)), on=("model", "hour"), how="left")
    frame = frame.join(
        intake.minutes().with_columns(pl.col("model").cast(codes.dtype)),
        on=("model", "hour"),
        how="left",
    )
    begin, n = pl.col("hour") * HOUR_NS, pl.col("requests")
    covered = (
        pl.min_horizontal(begin + HOUR_NS, pl.lit(intake.last_ns))
        - pl.max_horizontal(begin, pl.lit(intake.first_ns))
    ) / 1e9
    frame = frame.with_columns(pl.col("requests").fill_null(0), covered_s=covered.clip(0.0, 3600.0))
    with_shape = frame.with_columns(
        rate_per_s=n / pl.col("covered_s").clip(SHORTEST_COVER_S),
        **{f"{role}_mean": pl.col(role) / n for role in ROLES},
        **{f"{role}_sigma": _sigma(role) for role in ROLES},
        length_correlation=_correlation(),
        burstiness=(1.0 / pl.col("dispersion")).clip(0.02, 50.0),
    )
    lengths = _percentiles(intake)
    names = pl.Series(list(intake.models.names), dtype=pl.String)
    named = with_shape.join(lengths, on=("model", "hour"), how="left").with_columns(
        model=names.gather(with_shape["model"].cast(pl.UInt32)),
        hour=(pl.col("hour") * 3600 * 1000).cast(pl.Datetime("ms")),
    )
    return named.sort("model", "hour").select(
        "model", "hour", "requests", "covered_s", "rate_per_s", pl.col("minute").alias("busiest_minute_per_s"),
        "burstiness", *(f"{r}_{f}" for r in ROLES for f in ("mean", "p50", "p95", "sigma")), "length_correlation",
    ).with_columns(pl.col(pl.Float64).fill_nan(None))  # fmt: skip


def _moment(name: str, scale: int) -> pl.Expr:
    return pl.col(name) / pl.col("requests") / scale


def _sigma(role: str) -> pl.Expr:
    """Standard deviation of ln(length): sqrt(E[ln^2] - E[ln]^2)."""
    mean = _moment(f"ln_{role}", MICRO)
    return (_moment(f"ln_{role}2", MICRO) - mean**2).clip(0.0).sqrt()


def _correlation() -> pl.Expr:
    """Correlation of ln(prompt) and ln(output), 0 where one of them never changes."""
    covariance = _moment("ln_both", MICRO) - _moment("ln_isl", MICRO) * _moment("ln_osl", MICRO)
    spread = _sigma("isl") * _sigma("osl")
    return pl.when(spread > 1e-3).then((covariance / spread).clip(-1.0, 1.0)).otherwise(0.0)


def _percentiles(intake: Intake) -> pl.DataFrame:
    rows = []
    for (model, hour), part in intake.lengths.frame().group_by("model", "hour", maintain_order=True):
        row: dict[str, object] = {"model": model, "hour": hour}
        for role, name in enumerate(ROLES):
            counted = part.filter(pl.col("role") == role)
            for word, share in SHARES:
                row[f"{name}_{word}"] = quantile(
                    counted["bin"].to_numpy(), counted["requests"].to_numpy(), share
                )
        rows.append(row)
    schema = {"model": pl.Int16, "hour": pl.Int64} | {
        f"{r}_{w}": pl.Float64 for r in ROLES for w, _ in SHARES
    }
    return pl.DataFrame(rows, schema=schema)


def _earlier(intake: Intake, sums: pl.DataFrame, night_hour: int) -> pl.DataFrame:
    """Hourly rates of the whole days before the night that the log covers, hours without requests included."""
    first = -(-(intake.first_ns - FULL_DAY_MARGIN_NS) // DAY_NS)
    first = max(first, night_hour // 24 - intake.lookback_ns // DAY_NS)
    hours = np.arange(first * 24, night_hour)
    codes = sums["model"].unique().sort()
    names = pl.Series(list(intake.models.names), dtype=pl.String)
    every = pl.DataFrame({"model": codes}).join(
        pl.DataFrame({"hour": pl.Series(hours, dtype=pl.Int64)}), how="cross"
    )
    full = every.join(sums.select("model", "hour", "requests"), on=("model", "hour"), how="left")
    return full.sort("model", "hour").select(
        model=names.gather(full.sort("model", "hour")["model"].cast(pl.UInt32)),
        hour=(pl.col("hour") * 3600 * 1000).cast(pl.Datetime("ms")),
        rate_per_s=pl.col("requests").fill_null(0) / 3600.0,
    )


def _notes(intake: Intake, source: Source, n_night: int) -> list[str]:
    """Remarks of the reader, and what is odd about the times."""
    notes = [_without_folder(note) for note in source.report.lines()]
    start = start_ns(intake.night)
    if n_night == 0:
        notes.append(
            f"no request on {intake.night}: the log runs from {clock(intake.first_ns)} to {clock(intake.last_ns)} UTC"
        )
        return notes
    if start < intake.first_ns - FULL_DAY_MARGIN_NS:
        notes.append(f"the log begins at {clock(intake.first_ns)} UTC: the hours before are taken as empty")
    if intake.last_ns < start + DAY_NS - FULL_DAY_MARGIN_NS:
        notes.append(f"the log ends at {clock(intake.last_ns)} UTC: the hours after are taken as empty")
    if day_of(intake.last_ns) > intake.night:
        notes.append(f"requests after {intake.night} belong to later nights and were left out")
    return notes


def _without_folder(note: str) -> str:
    """A remark that names a file by its whole path, with the name alone: nights do not depend on where a log lies."""
    path, colon, rest = note.partition(": ")
    return f"{Path(path).name}: {rest}" if colon and "/" in path else note
