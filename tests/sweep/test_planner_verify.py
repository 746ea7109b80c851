"""Verification by a simulator: plans grow until they hold, the order follows, and limits are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweep.errors import NoAnswer
from sweep.planner.answer import answered
from sweep.planner.plans import Plan
from sweep.planner.question import question
from sweep.planner.simulated import Fleet, scaled
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


def test_the_simulator_confirms_a_plan_at_its_load_and_refuses_it_at_three_times_that(answer):
    plan = answer.plans[0]
    fleet = Fleet(plan, answer.question, 10_000.0)
    assert fleet.load_at(plan.rate_per_s).within_slo
    assert not fleet.load_at(3.0 * plan.capacity_per_s).within_slo


def test_a_large_fleet_is_simulated_in_part_at_its_share_of_the_load(answer):
    part = answer.plans[0].parts[0]
    large = replace(answer.plans[0], parts=(replace(part, count=25),), rate_per_s=240.0, spare=1)
    parts, share = scaled(large)
    assert parts[0].count == 12 and share == pytest.approx(0.5)


def test_requests_in_flight_are_simulated_as_a_closed_loop(answer):
    demand = replace(answer.question.demand, rate_per_s=float("nan"), in_flight=40.0, peak_factor=1.0)
    question = replace(answer.question, demand=demand)
    point = Fleet(answer.plans[0], question, 5_000.0).load_at(answer.plans[0].rate_per_s)
    assert point.deepest_queue <= 40 and point.n_unfinished == 0
    assert point.achieved_per_s * point.latency_ms["e2e_mean"] / 1e3 == pytest.approx(40.0, rel=0.1)


def test_a_mix_that_the_simulator_made_dearer_than_one_type_is_not_listed() -> None:
    found = answered(question([line for line in SMALL if line != "demand.mixed=false"]))
    first = next(plan for plan in found.plans if plan.kind == "replicas")
    mix = replace(first, kind="mixed", usd_per_hour=first.usd_per_hour * 0.99)
    dearer = replace(mix, usd_per_hour=first.usd_per_hour * 1.01)
    always = lambda plan: point(True)  # noqa: E731
    assert [v.plan.kind for v in verified([mix, first], found, always)] == ["mixed", "replicas"]
    assert [v.plan.kind for v in verified([dearer, first], found, always)] == ["replicas"]
