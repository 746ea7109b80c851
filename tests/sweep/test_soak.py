"""Sweeps and simulations in one process, one after another: neither memory nor open files grow."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from sweep.api import simulate
from sweep.hydra_sweeper import compose_grid
from sweep.run import carry_out, resume, start

SECONDS = float(os.environ.get("SERVESWEEP_SOAK_S", "600"))
"""How long to go on; the first fifth is warm-up."""
MOST_GROWTH_MIB = 64
KEEP = ("all", "feasible", "frontier", "top")
EXECUTORS = ("threads", "loky")


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def one_round(folder: Path, i: int) -> None:
    """A sweep, resumed, and a simulation; settings change from round to round."""
    settings = [
        f"output.dir={folder}",
        f"output.keep={KEEP[i % len(KEEP)]}",
        f"executor={EXECUTORS[i // len(KEEP) % 2]}",
        "executor.block_rows=4096",
        f"output.report={str(i % 4 == 0).lower()}",
    ]
    axes = [
        "model=llama_3_1_8b,qwen3_30b_a3b",
        "hardware=h100_sxm,l40s",
        "workload.concurrency=range(1,1025)",
    ]
    carry_out(start(compose_grid([*axes, *settings])))
    assert resume(folder) == 0
    load = ["workload.load=rate", f"workload.request_rate={2 + i % 5}", "workload.num_prompts=2000"]
    assert simulate("model=llama_3_1_8b", "hardware=h100_sxm", *load).height == 2000
    shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="reads /proc")
def test_neither_memory_nor_open_files_grow(tmp_path: Path) -> None:
    began = time.monotonic()
    memory_mib: list[float] = []
    files: list[int] = []
    warm = 0
    while (spent := time.monotonic() - began) < SECONDS or len(memory_mib) < 20:
        one_round(tmp_path / "run", len(memory_mib))
        memory_mib.append(resident_mib())
        files.append(len(os.listdir("/proc/self/fd")))
        if spent < SECONDS / 5:
            warm = len(memory_mib)
    warm = min(max(warm, 8), len(memory_mib) // 2)
    early, late = (float(np.median(part)) for part in np.array_split(memory_mib[warm:], 2))
    print(
        f"\n{len(memory_mib)} rounds in {time.monotonic() - began:.0f} s: {memory_mib[0]:.0f} MiB after the first,"
        f" {early:.0f} and {late:.0f} in the halves after warm-up, {max(memory_mib):.0f} at the most;"
        f" {min(files[warm:])} to {max(files[warm:])} open files"
    )
    assert late - early < MOST_GROWTH_MIB
    assert max(files[len(files) * 3 // 4 :]) <= max(files[warm : len(files) // 2 + 1])
