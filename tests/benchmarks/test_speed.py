"""Speed as a ratio against a reference kernel on the same machine; `pytest tests/benchmarks` alone also prints times."""

from typing import Any

import pytest

from kernels.reference import mixed_rounds, reference_table
from sweep.bench import default_job, replayed
from sweep.evaluate import BlockJob, Evaluator
from sweep.speed import ROUNDS, ROWS, relative_speed

KERNEL_RATIO = 42.0
"""Rounds of the reference per row of the default grid (docs/measurements.md)."""
REGRESSION = 1.3
"""A busy neighbour slows kernel and reference nearly alike: 35 to 48 over eight kinds of company (docs/speed.md)."""
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


def ratio(evaluator: Any) -> float:
    return relative_speed(evaluator, places=8).ratio


def test_a_row_takes_no_more_of_the_reference_than_it_did(job: BlockJob) -> None:
    assert any(ratio(job.evaluator) < REGRESSION * KERNEL_RATIO for _ in range(TRIES))


def test_a_kernel_that_takes_half_as_long_again_would_be_noticed(job: BlockJob) -> None:
    """In turns, because company that comes or goes between two series moves the ratio by up to a fifth."""
    slower: Any = HalfAsFastAgain(job.evaluator)
    pairs = [(ratio(job.evaluator), ratio(slower)) for _ in range(TRIES)]
    assert min(slow for _, slow in pairs) > REGRESSION * min(own for own, _ in pairs)


def test_reference(benchmark: Any) -> None:
    assert benchmark(mixed_rounds, ROUNDS, reference_table()) > 0.0


def test_kernel_block(benchmark: Any, job: BlockJob) -> None:
    middle = job.evaluator.grid.n_rows // 2
    assert benchmark(job.evaluator.block, middle, middle + ROWS).shape[0] == ROWS


def test_block_to_frame(benchmark: Any, job: BlockJob) -> None:
    middle = job.evaluator.grid.n_rows // 2
    assert benchmark(job.evaluator.frame, middle, middle + ROWS).height == ROWS


def test_replay_of_300_requests(benchmark: Any) -> None:
    assert benchmark(replayed, 300) > 0.0
