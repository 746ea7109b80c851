"""What is asked about an answer: how sure it is, and what would change it."""

from __future__ import annotations

import math

import pytest

from sweep.catalog.engine_layer import interval
from sweep.planner.answer import answered
from sweep.planner.designs import Design, few
from sweep.planner.question import question
from sweep.planner.questions import ESTIMATE, chance_of_first, design_error, speed_error, steadied, tornado

ASKED = (
    "model=llama_3_1_8b",
    "hardware=h100_sxm,l40s",
    "precision=checkpoint",
    "parallelism=tp1",
    "engine.max_num_batched_tokens=2048",
    "demand.mixed=false",
    "demand.pools=colocated",
)


@pytest.fixture(scope="module")
def answer():
    return answered(question(ASKED))


@pytest.fixture(scope="module")
def compared(answer):
    return few(answer.question.candidates, list(answer.plans[:2]))


def test_the_error_of_a_deployment_is_that_of_its_estimate(answer) -> None:
    candidates = answer.question.candidates
    row = int((candidates.labels["hardware"] == "h100_sxm").arg_max())
    found = interval("llama_3_1_8b", "h100_sxm", "vllm")
    assert speed_error(candidates, row) == pytest.approx(
        math.log(found.tpot_p90 / found.tpot_p10) / 2.5631, rel=1e-4
    )
    assert speed_error(candidates, row, "prefill") == pytest.approx(
        math.log(found.ttft_p90 / found.ttft_p10) / 2.5631, rel=1e-4
    )


def test_a_split_is_as_unsure_as_its_pools(answer) -> None:
    candidates = answer.question.candidates
    split = design_error(candidates, Design("split", (0, 0)))
    parts = speed_error(candidates, 0, "prefill"), speed_error(candidates, 0, "decode")
    assert min(parts) <= split <= max(parts)


def test_equal_costs_cannot_be_told_apart_and_twice_the_cost_nearly_always(compared) -> None:
    candidates, (first, second) = compared
    assert chance_of_first(candidates, first, second, 10.0, 10.0) == pytest.approx(0.5)
    assert chance_of_first(candidates, first, second, 10.0, 20.0) > 0.9


def test_the_tornado_shows_what_the_estimate_itself_may_be_wrong_by(answer, compared) -> None:
    candidates, designs = compared
    demand, limits = answer.question.demand, answer.question.limits
    swings = {swing.name: swing for swing in tornado(candidates, designs, demand, limits)}
    load, own = swings["load"], swings[ESTIMATE]
    middle = math.sqrt(load.low_usd_per_hour * load.high_usd_per_hour)
    assert own.low_usd_per_hour < middle < own.high_usd_per_hour
    assert len(swings) == 11


def test_a_design_that_wins_at_one_load_only_is_not_told() -> None:
    assert steadied([0, 0, 0, 1, 0, 0, 2, 2, 2]) == [0, 0, 0, 0, 0, 0, 2, 2, 2]
    assert steadied([1, 0, 0, 0]) == [1, 0, 0, 0]
