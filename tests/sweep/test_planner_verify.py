"""Verification by a simulator: plans grow until they hold, the order follows, and limits are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweep.errors import NoAnswer
from sweep.planner.answer import answered
from sweep.planner.plans import Plan
from sweep.planner.question import question
from sweep.planner.verify import verified
from sweep.simulate.curves import LoadPoint

SMALL = (
    "model=llama_3_1_8b",
    "hardware=h100_sxm,l40s,b200_sxm",
    "precision=checkpoint",
    "parallelism=tp1",
    "engine.max_num_batched_tokens=2048",
    "demand.mixed=false",
    "demand.pools=colocated",
)


def point(good: bool, share: float = 1.0) -> LoadPoint:
    late = {"ttft": 10.0, "tpot": 10.0, "e2e": 10.0} if good else {"ttft": 1e6, "tpot": 1e6, "e2e": 1e6}
    return LoadPoint(
        offered_per_s=10.0,
        achieved_per_s=10.0,
        goodput_per_s=10.0 * share,
        output_tok_s=1.0,
        latency_ms={},
        at_percentile_ms=late,
        n_finished=100,
        n_unfinished=0,
        n_scored=100,
        deepest_queue=1,
        saturated=False,
        busy_share=0.5,
        within_slo=good,
    )


@pytest.fixture(scope="module")
def answer():
    return answered(question(SMALL))


def test_plans_that_hold_stay_as_they_are(answer):
    checked = verified(answer.plans, answer, lambda plan: point(True))
    assert [v.plan for v in checked] == list(answer.plans)


def test_a_plan_grows_until_it_holds_and_moves_down_the_list(answer):
    first = answer.plans[0].parts[0]

    def load_of(plan: Plan) -> LoadPoint:
        part = plan.parts[0]
        return point(part.row != first.row or part.count >= 3 * first.count)

    checked = verified(answer.plans, answer, load_of)
    moved = next(v for v in checked if v.plan.parts[0].row == first.row)
    assert moved.plan.parts[0].count == 3 * first.count
    assert moved.plan.usd_per_hour == pytest.approx(3 * answer.plans[0].usd_per_hour)
    assert "the simulator asks for" in moved.note
    costs = [v.plan.usd_per_hour for v in checked]
    assert costs == sorted(costs)


def test_too_small_a_goodput_share_is_a_miss_though_every_percentile_holds(answer):
    with pytest.raises(NoAnswer, match="no plan holds in the simulator"):
        verified(answer.plans, answer, lambda plan: point(True, share=0.5))


def test_no_plan_grows_past_the_limit_on_gpus(answer):
    most = max(plan.gpus for plan in answer.plans)
    demand = replace(answer.question.demand, max_gpus=most)
    limited = replace(answer, question=replace(answer.question, demand=demand))
    with pytest.raises(NoAnswer, match=r"demand\.max_gpus"):
        verified(limited.plans, limited, lambda plan: point(False))
