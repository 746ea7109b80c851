"""A small traffic log to try the nightly job with: two models, days with an evening peak, quieter weekends, growth."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from sweep.errors import UserError
from sweep.table_io import write_table
from sweep.traces.synthetic import Traffic, for_duration

LAST_DAY = date(2026, 3, 29)
DAY_S = 86_400.0
GROWTH_PER_DAY = 1.004
WEEKEND = 0.6
SHAPE_OF_DAY = (
    0.45, 0.35, 0.30, 0.28, 0.30, 0.40, 0.55, 0.80, 1.10, 1.35, 1.45, 1.45,
    1.35, 1.40, 1.50, 1.50, 1.45, 1.40, 1.45, 1.60, 1.65, 1.40, 1.00, 0.65,
)  # fmt: skip
"""Rate of each hour (UTC) over the day's mean: office hours with a higher evening, as public chat traces show."""
MODELS = {
    "llama_3_1_8b": Traffic(
        rate_per_s=0.8, process="gamma", burstiness=0.8, distribution="lognormal", isl=1100, osl=220, isl_sigma=0.95,
        osl_sigma=0.85, length_correlation=0.1, max_tokens=16_384,
    ),
    "llama_3_3_70b": Traffic(
        rate_per_s=0.25, process="gamma", burstiness=0.6, distribution="lognormal", isl=3200, osl=420, isl_sigma=1.0,
        osl_sigma=0.8, length_correlation=0.2, max_tokens=16_384,
    ),
}  # fmt: skip
"""Catalogue name -> its traffic on the first weekday."""


def builtin_log(path: Path, days: int, seed: int, *, last_day: date = LAST_DAY) -> None:
    """Write `days` days of requests up to the end of `last_day` to `path` (.csv, .jsonl or .parquet), atomically.

    Columns: timestamp (UTC), model, prompt_tokens, completion_tokens. The same arguments give the same bytes, and a
    day is the same in a shorter and a longer log of one seed and last day. Raises UserError.
    """
    if not 1 <= days <= 366:
        raise UserError("out of range", field="days", value=days, allowed="1 to 366")
    frames = [
        _day(name, traffic, last_day - timedelta(days=back), back, seed)
        for back in range(days - 1, -1, -1)
        for name, traffic in MODELS.items()
    ]
    log = pl.concat(frames).sort("timestamp", maintain_order=True)
    write_table(log.with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")), path)


def _day(name: str, traffic: Traffic, day: date, days_before_last: int, seed: int) -> pl.DataFrame:
    level = traffic.rate_per_s * GROWTH_PER_DAY**-days_before_last * (WEEKEND if day.weekday() >= 5 else 1.0)
    shape = np.array(SHAPE_OF_DAY) / np.mean(SHAPE_OF_DAY)
    stream = np.random.SeedSequence([seed, day.toordinal(), list(MODELS).index(name)]).generate_state(1)
    settings = {**vars(traffic), "hourly_rates": tuple(level * shape), "seed": int(stream[0])}
    made = for_duration(Traffic(**settings), DAY_S)
    midnight_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
    return pl.DataFrame(
        {
            "timestamp": pl.Series(midnight_ms + made.arrival_ns // 1_000_000).cast(pl.Datetime("ms")),
            "model": name,
            "prompt_tokens": made.isl,
            "completion_tokens": made.osl,
        }
    )
