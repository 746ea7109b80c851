"""Pipeline rounds against a simulation of the stages, micro-batch by micro-batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.pipeline import (
    chunked_trips,
    chunks_per_rank,
    hops,
    micro_batch,
    trips_per_token,
    unshared_share,
)
from sweep.fields.parallelism import SCHEDULES
from tests.deployments import record_of


def record(**values: object):
    return record_of(**values)[0]


def simulated_trips(micro_batches: int, stages: int, tokens: int = 64) -> float:
    """Stage by stage: a micro-batch enters a stage when both are free; its next token starts where the last ended."""
    free = [0.0] * stages
    ready = [0.0] * micro_batches
    for _, batch in itertools.product(range(tokens), range(micro_batches)):
        time = ready[batch]
        for stage in range(stages):
            time = max(time, free[stage]) + 1.0 / stages
            free[stage] = time
        ready[batch] = time
    return max(ready) / tokens


@pytest.mark.parametrize(("micro_batches", "stages"), [(1, 4), (2, 4), (4, 4), (8, 4), (6, 2), (3, 1)])
def test_time_per_token_is_that_of_stages_working_through_micro_batches(
    micro_batches: int, stages: int
) -> None:
    p = record(pp=stages, micro_batch_size=8)
    if stages == 1:
        assert trips_per_token(8.0 * micro_batches, p) == 1.0
        return
    expected = simulated_trips(micro_batches, stages)
    assert trips_per_token(8.0 * micro_batches, p) == pytest.approx(expected, rel=0.02)


def simulated_prompt(n_chunks: int, stages: int) -> float:
    """Time of a prompt whose chunks follow each other through the stages, in trips."""
    free = [0.0] * stages
    for _ in range(n_chunks):
        time = 0.0
        for stage in range(stages):
            time = max(time, free[stage]) + 1.0 / stages
            free[stage] = time
    return max(free)


@pytest.mark.parametrize(("n_chunks", "stages"), [(1, 4), (3, 4), (16, 4), (5, 1), (7, 2)])
def test_chunks_of_a_prompt_overlap_over_the_stages(n_chunks: int, stages: int) -> None:
    assert chunked_trips(float(n_chunks), record(pp=stages)) == pytest.approx(
        simulated_prompt(n_chunks, stages)
    )


def test_without_micro_or_global_batch_every_stage_is_busy() -> None:
    p = record(pp=4)
    assert micro_batch(64.0, p) == 16.0
    assert trips_per_token(64.0, p) == 1.0


def test_a_micro_batch_holds_at_least_one_sequence() -> None:
    assert micro_batch(1.0, record(pp=4)) == 1.0
    assert micro_batch(3.0, record(pp=4)) == 1.0


def simulated_wait(prompts: np.ndarray, stages: int) -> float:
    """Time of batches that follow each other through the stages, in time of their prompts on one stage.

    As many batches as stages are in flight, decoding alone takes no time, a prompt one unit on each stage.
    """
    free = [0.0] * stages
    ended = [0.0] * stages
    for j, n in enumerate(prompts):
        time = ended[j % stages]
        for stage in range(stages):
            time = max(time, free[stage]) + n
            free[stage] = time
        ended[j % stages] = time
    return max(free) / prompts.sum()


@pytest.mark.parametrize(
    ("mean", "most", "stages", "within"),
    [(0.02, 8, 2, 0.01), (0.5, 8, 2, 0.01), (40.0, 4, 2, 0.01), (3.0, 8, 4, 0.08), (0.3, 1, 4, 0.08)],
)
def test_stages_wait_for_the_longest_batch_in_the_pipeline(
    mean: float, most: int, stages: int, within: float
) -> None:
    prompts = np.minimum(np.random.default_rng(1).poisson(mean, 200_000), most).astype(float)
    expected = 1.0 + (stages - 1.0) * unshared_share(mean, float(most), float(stages))
    assert simulated_wait(prompts, stages) == pytest.approx(expected, rel=within)


def test_without_a_pipeline_no_stage_waits() -> None:
    assert unshared_share(0.3, 8.0, 1.0) == 0.0


def test_a_barrier_pays_the_drain_once_per_round_and_zero_bubble_does_not() -> None:
    barrier, none = (
        record(pp=4, global_batch_size=32),
        record(pp=4, global_batch_size=32, enable_zero_bubble=True),
    )
    assert trips_per_token(32.0, barrier) == pytest.approx((4 + 3) / 4)
    assert trips_per_token(32.0, none) == 1.0
    assert trips_per_token(64.0, barrier) == pytest.approx(2 * (4 + 3) / 4)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_is_its_forward_part(schedule: str) -> None:
    p = record(pp=4, global_batch_size=32, pipeline_schedule=schedule)
    v_shaped = schedule.startswith("zbv")
    assert chunks_per_rank(p) == (2.0 if v_shaped else 1.0)
    assert hops(p) == (7.0 if v_shaped else 3.0)
    drain = {"auto": 1.0, "zbv-greedy-half": 0.5, "zbv-greedy-min": 1.0}.get(schedule, 0.0)
    assert trips_per_token(32.0, p) == pytest.approx(max(1.0, (4 + drain * 3 / chunks_per_rank(p)) / 4))


@given(
    running=st.floats(1, 512),
    stages=st.sampled_from([1, 2, 4, 8]),
    size=st.integers(1, 64),
    chunks=st.integers(1, 4),
)
def test_a_token_never_takes_less_than_a_trip(running: float, stages: int, size: int, chunks: int) -> None:
    p = record(pp=stages, micro_batch_size=size, virtual_stages=chunks)
    assert trips_per_token(running, p) >= 1.0
    assert 0.0 < micro_batch(running, p) <= running
