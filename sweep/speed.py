"""Time per row of the kernel against a reference on the same machine, measured in turns so that noise cancels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.reference import dependent_divisions
from sweep.evaluate import Evaluator

DIVISIONS = 50_000
ROWS = 2048
"""Of one timing: half a thread's time slice, so that some timings are undisturbed."""


@dataclass(frozen=True)
class Relative:
    """Least CPU time of one thread over repeated timings."""

    row_us: float
    reference_ns: float
    """One addition and one division, each waiting for the one before."""

    @property
    def ratio(self) -> float:
        """Time of a row in reference operations: what changes only when the kernel does."""
        return self.row_us * 1e3 / self.reference_ns


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def relative_speed(evaluator: Evaluator, places: int = 16, repeats: int = 12) -> Relative:
    """Kernel time of rows spread over the grid, each place's least of `repeats` timings."""
    n_rows = min(ROWS, evaluator.grid.n_rows)
    evaluator.block(0, 1)
    dependent_divisions(1)
    total, reference = 0.0, float("inf")
    starts = np.linspace(0, evaluator.grid.n_rows - n_rows, places).astype(int)
    for start in starts:
        least = float("inf")
        for _ in range(repeats):
            least = min(least, _seconds(lambda first=int(start): evaluator.block(first, first + n_rows)))  # type: ignore[misc]
            reference = min(reference, _seconds(lambda: dependent_divisions(DIVISIONS)))
        total += least
    return Relative(total / (places * n_rows) * 1e6, reference / DIVISIONS * 1e9)
