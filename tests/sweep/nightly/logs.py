"""Small logs, and what a job keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import polars as pl

NIGHT = date(2026, 3, 4)
SMALL_PLAN = {
    "hardware": "h100_sxm",
    "precision": "checkpoint",
    "parallelism": "tp1",
    "engine.max_num_batched_tokens": 8192,
    "demand.mixed": False,
    "demand.pools": "colocated",
    "demand.short_list": 1,
}


def requests_of(
    day: date, per_hour: Sequence[int], model: str = "llama_3_1_8b", seed: int = 0
) -> pl.DataFrame:
    """A day's requests at random moments of each hour, in order."""
    rng = np.random.default_rng([seed, day.toordinal()])
    midnight_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    ms = [
        np.sort(rng.integers(0, 3_600_000, n)) + midnight_ms + h * 3_600_000 for h, n in enumerate(per_hour)
    ]
    n = sum(per_hour)
    return pl.DataFrame(
        {
            "timestamp": pl.Series(np.concatenate(ms))
            .cast(pl.Datetime("ms"))
            .dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
            "model": [model] * n,
            "prompt_tokens": rng.integers(100, 2000, n),
            "completion_tokens": rng.integers(10, 300, n),
        }
    )


def a_day(busiest: int = 600) -> list[int]:
    """Requests of each hour: quiet nights, a busy evening."""
    return [busiest * (10 + h) // 33 for h in range(24)]


def contents(folder: Path) -> dict[str, bytes]:
    """Everything that a job keeps, but for its log of events and the lock's guard."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("nightly.jsonl", ".lock-guard")
    }
