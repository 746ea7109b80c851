"""The planner on small grids: equal to brute force, monotone, right to the cent, and clear where there is no answer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.catalog.prices import price_of
from sweep.errors import NoAnswer, UserError
from sweep.planner.answer import answered, deployments_frame, plan_row, plans_frame
from sweep.planner.capacity import at_rate, colocated_capacity, latencies, within
from sweep.planner.designs import costs_of, few
from sweep.planner.question import question
from sweep.planner.sustained import sustained_frame
from sweep.planner.tails import population_percentile

SMALL = (
    "model=llama_3_1_8b",
    "hardware=h100_sxm,l40s,b200_sxm",
    "precision=checkpoint,fp8_kv8",
    "parallelism=tp1,tp2",
    "engine.max_num_batched_tokens=2048",
)


@pytest.fixture(scope="module")
def asked():
    return question([*SMALL, "demand=chat"])


@pytest.fixture(scope="module")
def capacity(asked):
    return colocated_capacity(asked.candidates, asked.limits)


def changed(asked, **demand):
    return replace(asked, demand=replace(asked.demand, **demand))


def test_capacity_agrees_with_a_fine_sweep_of_the_load_within_two_percent(asked, capacity):
    candidates, limits = asked.candidates, asked.limits
    held = at_rate(candidates, np.full(len(candidates), 1e9))["resident"]
    best = np.zeros(len(candidates))
    for share in np.linspace(0.005, 1.0, 200):
        rate = capacity.saturated_per_s * share
        results = at_rate(candidates, np.maximum(rate, 1e-9))
        fits = (population_percentile(results["resident"], limits) <= held) | (results["resident"] <= 1.0)
        good = (
            within(*latencies(results, candidates.records, limits), limits)
            & fits
            & (results["saturated"] == 0.0)
        )
        best = np.where(good, np.maximum(best, rate), best)
    assert capacity.meets.sum() >= 8
    step = capacity.saturated_per_s * 0.005
    difference = np.abs(capacity.rate_per_s - best)[capacity.meets]
    assert (difference <= np.maximum(0.02 * best, 1.01 * step)[capacity.meets]).all()


def test_the_winner_equals_brute_force_over_deployments_and_replicas(asked, capacity):
    only = replace(
        asked, grid=replace(asked.grid, settings=asked.grid.settings | {"demand.pools": "colocated"})
    )
    winner = answered(only).winner
    candidates, demand = asked.candidates, asked.demand
    costs = []
    for row in range(len(candidates)):
        usd = candidates.usd_per_gpu_hour[row] * candidates.workers[row]
        fits = (n for n in range(1, 400) if (n - demand.spare) * capacity.rate_per_s[row] >= demand.planned)
        n = next(fits, None)
        if n is not None:
            costs.append((n * usd, n * candidates.workers[row]))
    mixes = [winner.usd_per_hour] if winner.kind == "mixed" else []
    assert winner.usd_per_hour == pytest.approx(min([*(usd for usd, _ in costs), *mixes]))
    smallest = answered(only).smallest
    assert smallest.gpus == min(gpus for _, gpus in costs)


def test_costs_agree_with_the_price_book_to_the_cent(asked):
    answer = answered(asked)
    labels = asked.candidates.labels
    for plan in answer.plans:
        usd = 0.0
        for part in plan.parts:
            price = price_of("on_demand", labels["hardware"][part.row]).usd_per_gpu_hour
            gpus = labels["tp"][part.row] * part.count
            usd += price * gpus
        row = plan_row(plan, answer)
        assert round(plan.usd_per_hour, 2) == round(usd, 2)
        tokens = asked.demand.planned * (1024 + 512) * 3600
        assert row["usd_per_m_total"] == pytest.approx(usd / tokens * 1e6)


def test_every_plan_carries_the_demand_with_its_spare_replicas_gone(asked):
    for plan in answered(asked).plans:
        carried = [part.count * part.rate_per_s for part in plan.working]
        assert (min(carried) if plan.kind == "split" else sum(carried)) >= asked.demand.planned * (1 - 1e-6)


def cheapest(asked) -> float:
    try:
        return answered(asked).winner.usd_per_hour
    except NoAnswer:
        return math.inf


@settings(max_examples=8)
@given(st.floats(0.5, 200.0), st.floats(1.0, 4.0))
def test_more_demand_never_costs_less(asked, rate, factor):
    assert (
        cheapest(changed(asked, rate_per_s=rate * factor)) >= cheapest(changed(asked, rate_per_s=rate)) - 1e-9
    )


@settings(max_examples=6)
@given(st.floats(20.0, 4000.0), st.floats(5.0, 200.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_looser_slo_never_costs_more(asked, ttft, tpot, looser_ttft, looser_tpot):
    tight = replace(asked, limits=replace(asked.limits, ttft_ms=ttft, tpot_ms=tpot))
    loose = replace(
        asked, limits=replace(asked.limits, ttft_ms=ttft * looser_ttft, tpot_ms=tpot * looser_tpot)
    )
    assert cheapest(loose) <= cheapest(tight) + 1e-9


@settings(max_examples=6)
@given(st.integers(0, 2), st.floats(0.1, 1.0))
def test_a_cheaper_gpu_never_makes_the_plan_dearer(asked, kind, factor):
    records = asked.candidates.records.copy()
    records["usd_per_gpu_hour"] *= np.where(records["hardware_index"] == kind, factor, 1.0)
    cheaper = replace(asked, candidates=replace(asked.candidates, records=records))
    assert cheapest(cheaper) <= cheapest(asked) + 1e-9


def test_a_design_sized_again_costs_what_its_plan_costs(asked):
    answer = answered(asked)
    candidates, designs = few(asked.candidates, list(answer.plans))
    costs = costs_of(candidates, designs, asked.limits)
    for plan, design in zip(answer.plans, designs, strict=True):
        assert costs.usd_per_hour(design, asked.demand) == pytest.approx(plan.usd_per_hour)


def test_requests_in_flight_size_a_fleet_that_holds_them(asked):
    answer = answered(changed(asked, rate_per_s=math.nan, in_flight=500.0))
    plan = next(p for p in answer.plans if p.kind == "replicas")
    part = plan.working[0]
    assert part.count * answer.capacity.in_flight[part.row] >= answer.question.demand.planned


def refusal(*overrides: str, of=None) -> str:
    with pytest.raises(NoAnswer) as refused:
        answered(of or question(overrides))
    return str(refused.value)


def test_weights_that_do_not_fit_are_told_with_the_width_that_would_hold_them():
    told = refusal("model=deepseek_v3", "hardware=l40s", "parallelism=tp1,tp2", "precision=checkpoint")
    assert (
        told.startswith("the weights do not fit: nearest is l40s checkpoint tp2") and "tp of about 32" in told
    )


def test_a_cache_below_one_request_is_told_apart_from_weights():
    told = refusal(
        "model=llama_3_1_70b",
        "hardware=h100_sxm",
        "parallelism=tp2",
        "precision=checkpoint",
        "workload.isl=120000",
    )
    assert told.startswith("the weights fit but the KV cache is smaller than one request")


def test_an_slo_that_nothing_meets_names_the_nearest_miss_and_the_limit(asked):
    told = refusal(of=replace(asked, limits=replace(asked.limits, tpot_ms=0.5)))
    assert (
        told.startswith("no deployment meets the SLO: nearest is b200_sxm")
        and "where 0.5 ms is allowed" in told
    )


def test_too_few_gpus_and_too_little_money_are_different_sentences(asked):
    assert "too few GPUs: the smallest fleet takes" in refusal(of=changed(asked, max_gpus=1))
    assert "over budget: the cheapest fleet costs $" in refusal(of=changed(asked, budget_usd_per_hour=1.0))


def test_without_a_price_the_smallest_fleet_is_still_an_answer():
    free = (*SMALL[:1], "hardware=h20", "parallelism=tp1", "precision=checkpoint", "price=neocloud")
    assert "has a price in this book" in refusal(*free)
    assert answered(question([*free, "demand.objective=smallest"])).winner.gpus > 0


def test_a_plan_answers_one_question_at_a_time():
    with pytest.raises(UserError, match=r"workload\.isl.*one question at a time"):
        question([*SMALL, "workload.isl=100,200"])
    with pytest.raises(UserError, match=r"demand\.pools=split"):
        question([*SMALL, "disagg.disaggregate=true"])
    with pytest.raises(UserError, match="two demands"):
        question([*SMALL, "demand.request_rate=3", "demand.concurrency=3"])


def test_strict_plans_and_all_deployments_are_two_tables(asked):
    answer = answered(replace(asked, limits=replace(asked.limits, tpot_ms=8.0)))
    assert len(plans_frame(answer)) == len(answer.plans)
    everything = deployments_frame(answer)
    assert len(everything) == len(asked.candidates)
    assert 0 < everything["meets_slo"].sum() < len(everything)
    assert (everything.filter(~everything["meets_slo"])["why_not"] != "").all()
    assert (everything.filter("meets_slo")["why_not"] == "").all()


def test_a_fleet_that_exists_sustains_what_its_working_replicas_carry(asked, capacity):
    settings = asked.grid.settings | {"demand.replicas": 5, "demand.simulate": False}
    frame = sustained_frame(replace(asked, grid=replace(asked.grid, settings=settings)))
    best = np.argmax(capacity.rate_per_s / (asked.candidates.workers * asked.candidates.usd_per_gpu_hour))
    assert frame["requests_per_s"][0] == pytest.approx(4 * capacity.rate_per_s[best])


def test_too_few_gpus_is_told_of_fleets_with_a_price() -> None:
    lines = ["model=llama_3_1_8b", "hardware=h100_sxm,gb300", "precision=checkpoint", "parallelism=tp1"]
    with pytest.raises(
        NoAnswer, match=r"too few GPUs: the smallest fleet takes \d+ GPUs \(\d+ x h100_sxm"
    ) as told:
        answered(question([*lines, "demand.request_rate=100", "demand.max_gpus=6", "demand.mixed=false"]))
    assert "inf" not in str(told.value)
