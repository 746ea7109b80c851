"""A grid on a Dask cluster: a real scheduler and two workers on loopback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.hydra_sweeper import compose_grid
from sweep.run import Run, evaluate, finish, start
from tests.waiting import HANGS_S, wait_for

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[2]
GRID = (
    "model=llama_3_1_8b,qwen3_32b",
    "hardware=h100_sxm,l40s",
    "parallelism=tp1,tp2",
    "workload.concurrency=1,8,64",
    "executor.block_rows=2",
    "output.report=false",
)


def a_run(folder: Path, *overrides: str) -> Run:
    run = start(compose_grid([*GRID, f"output.dir={folder}", *overrides]))
    finish(run, *evaluate(run))
    return run


def content_of(run: Run) -> dict[str, bytes]:
    files = [*sorted((run.folder / "parts").iterdir()), run.folder / "frontier.parquet"]
    return {file.name: file.read_bytes() for file in files}


@contextlib.contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-m", *command], env=environment, **quiet) as running:  # type: ignore[call-overload]
        try:
            yield running
        finally:
            running.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address of a scheduler with two workers, and the first worker."""
    file = tmp_path / "scheduler.json"
    scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    worker = ("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    with process(*scheduler, "--scheduler-file", str(file)) as started:
        wait_for(file.exists, started)
        with (
            process(*worker, "--scheduler-file", str(file)) as first,
            process(*worker, "--scheduler-file", str(file)),
            distributed.Client(scheduler_file=str(file)) as client,
        ):
            client.wait_for_workers(2, timeout=HANGS_S)
            yield client.scheduler.address, first


@pytest.mark.parametrize("kill", [False, True], ids=["undisturbed", "a worker killed mid-run"])
def test_a_cluster_leaves_the_same_bytes_as_threads(
    tmp_path: Path, cluster: tuple[str, subprocess.Popen[bytes]], kill: bool
) -> None:
    address, worker = cluster
    local = a_run(tmp_path / "local")

    def kill_after_the_first_part() -> None:
        wait_for(lambda: list((tmp_path / "cluster" / "parts").glob("part-*")))
        worker.kill()

    if kill:
        threading.Thread(target=kill_after_the_first_part, daemon=True).start()
    remote = a_run(tmp_path / "cluster", "executor=dask", f"executor.address={address}")
    assert content_of(remote) == content_of(local)
