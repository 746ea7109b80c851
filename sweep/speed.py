"""Time per row of the kernel against a reference on the same machine, measured in turns so that noise cancels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.reference import mixed_rounds, reference_table
from sweep.evaluate import Evaluator

ROUNDS = 40_000
ROWS = 2048
"""Of one timing: half a thread's time slice, so that some timings are undisturbed."""


@dataclass(frozen=True)
class Relative:
    """Least CPU time of one thread over repeated timings."""

    row_us: float
    reference_ns: float
    """One round of `kernels.reference.mixed_rounds`."""

    @property
    def ratio(self) -> float:
        """Time of a row in rounds of the reference: what changes only when the kernel does."""
        return self.row_us * 1e3 / self.reference_ns


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def relative_speed(evaluator: Evaluator, places: int = 16, repeats: int = 12) -> Relative:
    """Kernel time of rows spread over the grid: sum over the places of the least of `repeats` timings, for both alike.

    A least over all places for one of the two alone would catch a quiet moment that the other has to find at every place.
    """
    n_rows = min(ROWS, evaluator.grid.n_rows)
    table = reference_table()
    evaluator.block(0, 1)
    mixed_rounds(1, table)
    rows_s = reference_s = 0.0
    for start in np.linspace(0, evaluator.grid.n_rows - n_rows, places).astype(int).tolist():
        timings = [
            (
                _seconds(lambda first=start: evaluator.block(first, first + n_rows)),  # type: ignore[misc]
                _seconds(lambda: mixed_rounds(ROUNDS, table)),
            )
            for _ in range(repeats)
        ]
        rows_s += min(rows for rows, _ in timings)
        reference_s += min(reference for _, reference in timings)
    return Relative(rows_s / (places * n_rows) * 1e6, reference_s / (places * ROUNDS) * 1e9)
