"""Speed as a ratio against a reference kernel on the same machine; `pytest tests/benchmarks` alone also prints times."""

from collections.abc import Iterator
from typing import Any

import pytest

from kernels.reference import dependent_divisions
from sweep.bench import default_job, replayed
from sweep.evaluate import BlockJob, Evaluator
from sweep.speed import DIVISIONS, ROWS, relative_speed

KERNEL_RATIO = 100.0
"""References per row of the default grid when this was written (0.57 us against 5.7 ns: docs/measurements.md)."""
REGRESSION = 1.3
"""A busy neighbour on the same core slows the kernel more than the reference, by up to two fifths, but not all the time."""
TRIES = 8


@pytest.fixture(scope="module")
def job() -> BlockJob:
    found, _ = default_job()
    found.evaluator.block(0, 1)
    return found


class HalfAsFastAgain:
    """An evaluator whose kernel takes half as long again: half of the rows are evaluated twice."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.grid = evaluator.grid

    def block(self, start: int, stop: int) -> Any:
        self.evaluator.block(start, start + (stop - start) // 2)
        return self.evaluator.block(start, stop)


def ratios(evaluator: Any) -> Iterator[float]:
    """References per row, tried several times: what disturbs the kernel only adds to them."""
    return (relative_speed(evaluator, places=8).ratio for _ in range(TRIES))


def test_a_row_takes_no_more_references_than_it_did(job: BlockJob) -> None:
    assert any(ratio < REGRESSION * KERNEL_RATIO for ratio in ratios(job.evaluator))


def test_a_kernel_that_takes_half_as_long_again_would_be_noticed(job: BlockJob) -> None:
    slower: Any = HalfAsFastAgain(job.evaluator)
    assert min(ratios(slower)) > REGRESSION * min(ratios(job.evaluator))


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
