"""A night of ten million requests of five models: bounded in memory."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nightly.logs import NIGHT

MODELS = {
    "llama_3_1_8b": 0.5,
    "llama_3_3_70b": 0.2,
    "qwen3_32b": 0.15,
    "mixtral_8x7b": 0.1,
    "gpt_oss_120b": 0.05,
}
REQUESTS = 10_000_000
HOURS = np.array([9, 7, 6, 6, 6, 8, 11, 16, 22, 27, 29, 29, 27, 28, 30, 30, 29, 28, 29, 32, 33, 28, 20, 13])


def write_log(path: Path) -> None:
    """Hour by hour, so that writing it takes no memory either."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for hour, share in enumerate(HOURS / HOURS.sum()):
            n = round(REQUESTS * share)
            start = pl.Series([NIGHT]).cast(pl.Datetime("ms")).to_physical()[0] + hour * 3_600_000
            times = pl.Series(np.sort(rng.integers(0, 3_600_000, n)) + start).cast(pl.Datetime("ms"))
            frame = pl.DataFrame(
                {
                    "timestamp": times.dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
                    "model": rng.choice(list(MODELS), n, p=list(MODELS.values())),
                    "prompt_tokens": np.clip(rng.lognormal(6.6, 0.95, n), 1, 16_000).astype(int),
                    "completion_tokens": np.clip(rng.lognormal(5.1, 0.85, n), 1, 8_000).astype(int),
                }
            )
            frame.write_csv(file, include_header=hour == 0)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_million_requests_take_under_three_gib(tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv")
    command = [sys.executable, "-m", "sweep", "nightly", "job=demo", f"job.night={NIGHT}"]
    files = [f"job.log={tmp_path / 'log.csv'}", f"job.folder={tmp_path / 'out'}"]
    start = time.monotonic()
    done = subprocess.run([*command, *files], capture_output=True, text=True)
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    events = pl.read_ndjson(tmp_path / "out" / "nightly.jsonl")
    peak_mib = events["peak_rss_mib"].max()
    print(f"{seconds:.0f} s, {peak_mib:.0f} MiB at the most")
    assert peak_mib < 3 * 1024
    models = pl.read_parquet(tmp_path / "out" / str(NIGHT) / "models.parquet")
    assert abs(int(models["requests"].sum()) - REQUESTS) < 24
    (tmp_path / "log.csv").unlink()
