"""Speed as a ratio against a reference kernel on the same machine; `pytest tests/benchmarks` alone also prints times."""

from typing import Any

import pytest

from kernels.reference import dependent_divisions
from sweep.bench import default_job, replayed
from sweep.evaluate import BlockJob
from sweep.speed import DIVISIONS, ROWS, relative_speed

KERNEL_RATIO = 250.0
"""References per row of the default grid when this was written (1.4 to 1.6 us against 5.8 ns: docs/measurements.md)."""
REGRESSION = 1.6
"""A busy neighbour on the same core slows the kernel more than the reference, by up to a half."""


@pytest.fixture(scope="module")
def job() -> BlockJob:
    found, _ = default_job()
    found.evaluator.block(0, 1)
    return found


def test_a_row_takes_no_more_references_than_it_did(job: BlockJob) -> None:
    least = min(relative_speed(job.evaluator, places=8).ratio for _ in range(3))
    assert least < REGRESSION * KERNEL_RATIO


def test_reference(benchmark: Any) -> None:
    assert benchmark(dependent_divisions, DIVISIONS) > 0.0


def test_kernel_block(benchmark: Any, job: BlockJob) -> None:
    middle = job.evaluator.grid.n_rows // 2
    assert benchmark(job.evaluator.block, middle, middle + ROWS).shape[0] == ROWS


def test_block_to_frame(benchmark: Any, job: BlockJob) -> None:
    middle = job.evaluator.grid.n_rows // 2
    assert benchmark(job.evaluator.frame, middle, middle + ROWS).height == ROWS


def test_replay_of_300_requests(benchmark: Any) -> None:
    assert benchmark(replayed, 300) > 0.0
