"""Three nights made of the public Azure conversation trace: run one after the other, again, and after kills."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nightly.logs import SMALL_PLAN, contents
from sweep.api import lines
from sweep.nightly.run import run
from tests.waiting import wait_for

FIRST = date(2026, 3, 3)
NIGHTS = [FIRST + timedelta(days=k) for k in range(3)]
MEANING = {"*": ("model=llama_3_1_8b", "hardware=l40s")}
SHARE_OF_HOUR = [0.1] * 6 + [
    0.2,
    0.4,
    0.6,
    0.8,
    0.9,
    0.9,
    0.8,
    0.9,
    0.9,
    0.9,
    0.8,
    0.8,
    0.9,
    1.0,
    1.0,
    0.8,
    0.5,
    0.3,
]
KILLS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.long) for seed in range(10)]


@pytest.fixture(scope="module")
def azure_log(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace's hour at every hour of three days, thinned by the time of day, the third day louder."""
    trace = pl.read_csv(shared / "traces" / "azure_llm_2023_conv.csv")
    at = trace["TIMESTAMP"].str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ms")
    since_ms = (at - at.min()).dt.total_milliseconds().to_numpy() % 3_600_000
    rng = np.random.default_rng(0)
    frames = []
    for day, louder in zip(NIGHTS, (0.5, 0.5, 1.0), strict=True):
        midnight = int(pl.Series([day]).cast(pl.Datetime("ms")).to_physical()[0])
        for hour, share in enumerate(SHARE_OF_HOUR):
            kept = np.flatnonzero(rng.random(trace.height) < louder * share)
            times = pl.Series("timestamp", midnight + hour * 3_600_000 + since_ms[kept])
            frames.append(
                trace[kept]
                .select("ContextTokens", "GeneratedTokens")
                .with_columns(times.cast(pl.Datetime("ms")))
            )
    path = tmp_path_factory.mktemp("azure") / "log.parquet"
    pl.concat(frames).sort("timestamp").write_parquet(path)
    return path


def test_each_night_again_changes_nothing(job, azure_log: Path) -> None:
    plans = [run(job(str(azure_log), night=n.isoformat(), models=MEANING)) for n in NIGHTS]
    folder = plans[0][1].parent
    assert [plan["exit_status"] for plan, _ in plans] == [0, 0, 10]
    assert "GPUs" in plans[2][0]["models"][0]["change"]
    before = contents(folder)
    for night, plan in zip(NIGHTS, plans, strict=True):
        assert run(job(str(azure_log), night=night.isoformat(), models=MEANING)) == plan
    assert contents(folder) == before
    assert pl.read_parquet(folder / "history.parquet")["night"].to_list() == NIGHTS


def command(log: Path, folder: Path) -> list[str]:
    """The last night from the command line, every request of one model."""
    return [
        sys.executable, "-m", "sweep", "nightly", "job=demo", f"job.night={NIGHTS[2]}", f"job.log={log}", f"job.folder={folder}",
        "model=llama_3_1_8b", *lines([SMALL_PLAN]),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(azure_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    subprocess.run(command(azure_log, folder), check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("seed", KILLS)
def test_a_killed_night_run_again_has_the_same_files(
    seed: int, azure_log: Path, undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    killed = subprocess.Popen(
        command(azure_log, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # The instant counts from the first sign of work, so that kills fall into the work and not into the start of Python.
    wait_for((folder / "nightly.jsonl").exists, killed)
    _wait(killed, float(np.random.default_rng(seed).uniform(0.0, seconds_of_work(undisturbed))))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = subprocess.run(command(azure_log, folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert contents(folder) == contents(undisturbed)
    assert not [path for path in os.listdir(folder) if path.startswith((".work", ".new", ".old", ".tmp"))]
    shutil.rmtree(folder)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def seconds_of_work(folder: Path) -> float:
    """How long the steps of an undisturbed run took."""
    return float(pl.read_ndjson(folder / "nightly.jsonl")["seconds"].sum())
