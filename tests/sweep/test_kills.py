"""Sweeps killed at random instants, and on disks that fail, end as undisturbed ones do."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sweep import files as files_module
from sweep.errors import UserError
from sweep.hydra_sweeper import compose_grid
from sweep.run import carry_out, resume, start
from tests.waiting import HANGS_S, wait_for

ROOT = Path(__file__).resolve().parents[2]
GRID = (
    "model=llama_3_1_8b,qwen3_32b",
    "hardware=h100_sxm,h200_sxm",
    "parallelism=tp1,tp2",
    "workload.concurrency=range(1,65)",
    "executor.block_rows=4",
    "output.report=false",
)
KILLS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.long) for seed in range(20)]


def content_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in [*(folder / "parts").iterdir(), folder / "frontier.parquet"]}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    carry_out(start(compose_grid([*GRID, f"output.dir={folder}"])))
    return content_of(folder)


def killed_after(arguments: list[str], folder: Path, wanted_parts: int, delay_s: float) -> bool:
    """Run the program, kill it `delay_s` after it has so many parts; whether it was killed rather than done."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    config, parts = folder / "config.yaml", folder / "parts"
    wait_for(lambda: config.is_file() and len(list(parts.glob("part-*"))) >= wanted_parts, process)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("seed", KILLS)
def test_a_sweep_killed_at_random_instants_ends_as_an_undisturbed_one(
    tmp_path: Path, undisturbed: dict[str, bytes], seed: int
) -> None:
    at = random.Random(seed)
    folder = tmp_path / "run"
    n_parts = len(undisturbed) - 1
    wanted = sorted(at.randrange(n_parts) for _ in range(2))
    workers = f"executor.workers={at.choice((1, 2))}"
    kills = killed_after([*GRID, workers, f"output.dir={folder}"], folder, wanted[0], at.uniform(0, 0.02))
    kills += killed_after(["resume", str(folder)], folder, wanted[1], at.uniform(0, 0.02))
    assert kills, "no process lived long enough to be killed"
    assert resume(folder) == 0
    assert content_of(folder) == undisturbed


@pytest.mark.parametrize(
    ("error", "failing_call", "nth"),
    [
        (errno.ENOSPC, "fsync", 3),
        (errno.ENOSPC, "open", 40),
        (errno.ENOSPC, "replace", 129),
        (errno.EROFS, "open", 1),
        (errno.EIO, "fsync", 101),
        (errno.EDQUOT, "replace", 40),
    ],
)
def test_a_disk_that_fails_is_one_line_and_resume_repairs(
    tmp_path: Path,
    undisturbed: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    error: int,
    failing_call: str,
    nth: int,
) -> None:
    folder = tmp_path / "run"
    run = start(compose_grid([*GRID, f"output.dir={folder}", "executor.workers=2"]))
    plain = open if failing_call == "open" else getattr(os, failing_call)
    threads_before = set(threading.enumerate())
    calls = 0

    def failing(*given, **named):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls >= nth:
            raise OSError(error, os.strerror(error))
        return plain(*given, **named)

    with monkeypatch.context() as patch:
        if failing_call == "open":
            patch.setattr(files_module, "open", failing, raising=False)
        else:
            patch.setattr(files_module.os, failing_call, failing)
        with pytest.raises(UserError, match=r"cannot be written: .*servesweep resume") as caught:
            carry_out(run)
    assert "\n" not in caught.value.message
    # the block under way in the other thread ends by itself
    for thread in set(threading.enumerate()) - threads_before:
        thread.join(timeout=HANGS_S)
        assert not thread.is_alive()
    assert not list(folder.rglob(".tmp-*"))
    assert resume(folder) == 0
    assert content_of(folder) == undisturbed


@pytest.mark.parametrize("cut", [0, 1, 200, -1])
def test_every_part_cut_short_is_made_again(tmp_path: Path, undisturbed: dict[str, bytes], cut: int) -> None:
    folder = tmp_path / "run"
    carry_out(start(compose_grid([*GRID, f"output.dir={folder}"])))
    for part in (folder / "parts").iterdir():
        part.write_bytes(part.read_bytes()[:cut])
    assert resume(folder) == 0
    assert content_of(folder) == undisturbed
