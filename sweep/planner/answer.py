"""The answer to a planning question: capacities, the cheapest and the smallest fleet, the short list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from kernels.reasons import TEXT
from sweep.errors import NoAnswer
from sweep.planner.candidates import Candidates
from sweep.planner.capacity import Capacity, at_rate, colocated_capacity, latencies
from sweep.planner.demand import Demand, Limits
from sweep.planner.diagnosis import limits_miss, why
from sweep.planner.names import deployment_name, plan_name
from sweep.planner.plans import Plan, colocated_plans, mixed_plan, sized, split_plans
from sweep.planner.pools import PoolCapacity, planned_split_ms, pool_capacity
from sweep.planner.question import Question

CURVE_SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Loads of the full curve as shares of the saturated rate."""
HOURS_PER_MONTH = 730.0


@dataclass(frozen=True)
class Answer:
    """Plans in order of the objective, the best of each accelerator and kind; the first is the answer."""

    question: Question
    capacity: Capacity
    pools: PoolCapacity | None
    plans: tuple[Plan, ...]
    smallest: Plan
    cheapest: Plan | None

    @property
    def winner(self) -> Plan:
        return self.plans[0]


def answered(question: Question) -> Answer:
    """Search all deployments in closed form. Raises NoAnswer with the constraint that binds and the nearest miss."""
    candidates, demand, limits = question.candidates, question.demand, question.limits
    pools = None if question.setting("pools") == "colocated" else pool_capacity(candidates, limits)
    capacity = colocated_capacity(candidates, limits)
    search = Search(question, capacity, pools)
    cheap, small = search.plans(demand, smallest=False), search.plans(demand, smallest=True)
    if not small:
        _refuse(search, candidates, demand, limits)
    wants_small = question.setting("objective") == "smallest"
    plans = small if wants_small else cheap
    if not plans:
        _refuse(search, candidates, demand, limits)
    return Answer(question, capacity, pools, tuple(plans), small[0], cheap[0] if cheap else None)


@dataclass(frozen=True)
class Search:
    """Sizes every kind of fleet that the question allows."""

    question: Question
    capacity: Capacity
    pools: PoolCapacity | None

    def plans(self, demand: Demand, *, smallest: bool) -> list[Plan]:
        """The best plan of each accelerator and kind, best first. A mix is listed only where it beats one type."""
        candidates, kinds = self.question.candidates, self.question.setting("pools")
        found: list[Plan] = []
        if kinds != "split":
            found += colocated_plans(candidates, self.capacity, demand, smallest=smallest)
        if self.pools is not None:
            found += split_plans(candidates, self.pools, demand, self.question.limits, smallest=smallest)
        found.sort(key=lambda plan: order(plan, smallest))
        if kinds != "split" and self.question.setting("mixed"):
            mix = mixed_plan(candidates, self.capacity, demand, smallest=smallest)
            if mix is not None and (not found or order(mix, smallest) < order(found[0], smallest)):
                found.insert(0, mix)
        return found


def order(plan: Plan, smallest: bool) -> tuple[float, float]:
    """What decides between plans, then what breaks ties; a plan without a price costs infinitely much."""
    usd = plan.usd_per_hour if math.isfinite(plan.usd_per_hour) else math.inf
    return (float(plan.gpus), usd) if smallest else (usd, float(plan.gpus))


def _refuse(search: Search, candidates: Candidates, demand: Demand, limits: Limits) -> None:
    free = replace(demand, max_gpus=math.inf, budget_usd_per_hour=math.inf)
    small, cheap = search.plans(free, smallest=True), search.plans(free, smallest=False)
    if search.question.setting("objective") == "cheapest" and cheap:
        small = [plan for plan in small if math.isfinite(plan.usd_per_hour)]
    told = why(candidates, search.capacity, limits, bool(small))
    if told is None:
        told = limits_miss(demand, cheap[0] if cheap else None, small[0] if small else None, candidates)
    raise NoAnswer(told)


def tokens_per_request(question: Question) -> tuple[float, float]:
    """Mean prompt and output tokens of a request."""
    record = question.candidates.records[0]
    mean = 0.5 * (1.0 + float(record["length_range"]))
    return float(record["isl"]) * mean, float(record["osl"]) * mean


def usd_per_m_tokens(plan: Plan, question: Question, rate_per_s: float) -> float:
    """$ per million tokens, prompt and output, of the whole fleet at `rate_per_s`: idle replicas are paid for."""
    return plan.usd_per_hour * 1e6 / (3600.0 * rate_per_s * sum(tokens_per_request(question)))


def planned_latency(plan: Plan, answer: Answer) -> tuple[float, float]:
    """(TTFT, TPOT) in ms at the SLO's percentile, in closed form, at the planned rate with the spare replicas gone."""
    question = answer.question
    candidates, limits = question.candidates, question.limits
    if plan.kind == "split":
        assert answer.pools is not None
        prefill, decode = plan.working
        each = plan.rate_per_s / prefill.count, plan.rate_per_s / decode.count
        return planned_split_ms(candidates, answer.pools, (prefill.row, decode.row), each, limits)
    total = sum(part.count * part.rate_per_s for part in plan.working)
    rows = np.array([part.row for part in plan.working], dtype=np.int64)
    rates = np.array([part.rate_per_s for part in plan.working]) * plan.rate_per_s / total
    few = candidates.take(rows)
    ttft, tpot, _ = latencies(at_rate(few, rates), few.records, limits)
    return float(ttft.max()), float(tpot.max())


def plan_row(plan: Plan, answer: Answer) -> dict[str, object]:
    """One row of the table of plans."""
    question = answer.question
    candidates = question.candidates
    ttft, tpot = planned_latency(plan, answer)
    first = plan.parts[0]
    return {
        "plan": plan_name(plan, candidates),
        "kind": plan.kind,
        "hardware": " + ".join(dict.fromkeys(str(candidates.labels["hardware"][p.row]) for p in plan.parts)),
        "precision": str(candidates.labels["precision"][first.row]),
        "replicas": sum(p.count for p in plan.parts),
        "prefill_workers": sum(p.count for p in plan.parts if p.role == "prefill"),
        "decode_workers": sum(p.count for p in plan.parts if p.role == "decode"),
        "gpus": plan.gpus,
        "usd_per_hour": plan.usd_per_hour,
        "usd_per_month": plan.usd_per_hour * HOURS_PER_MONTH,
        "usd_per_m_total": usd_per_m_tokens(plan, question, plan.rate_per_s),
        "usd_per_m_total_at_capacity": usd_per_m_tokens(plan, question, plan.capacity_per_s),
        "planned_requests_per_s": plan.rate_per_s,
        "capacity_requests_per_s": plan.capacity_per_s,
        "headroom": plan.headroom,
        "utilization": plan.utilization,
        "ttft_ms": ttft,
        "tpot_ms": tpot,
    }


def plans_frame(answer: Answer) -> pl.DataFrame:
    """The strict answer: only fleets that carry the demand within the SLO, best first."""
    return pl.DataFrame([plan_row(plan, answer) for plan in answer.plans])


def deployments_frame(answer: Answer) -> pl.DataFrame:
    """Every deployment that was weighed: its capacity and fleet, or why it has none."""
    question, capacity = answer.question, answer.capacity
    candidates = question.candidates
    fleets = sized(candidates, capacity, question.demand)
    verdict = [
        TEXT[code] if code else ("" if meets else "no load meets the SLO")
        for code, meets in zip(capacity.reason.tolist(), capacity.meets.tolist(), strict=True)
    ]
    columns: dict[str, Any] = {
        "meets_slo": capacity.meets,
        "why_not": verdict,
        "gpus_per_replica": candidates.workers.astype(np.int64),
        "usd_per_gpu_hour": candidates.usd_per_gpu_hour,
        "requests_per_s_within_slo": capacity.rate_per_s,
        "requests_per_s_saturated": capacity.saturated_per_s,
        "in_flight_within_slo": capacity.in_flight,
        "ttft_ms": capacity.ttft_ms,
        "tpot_ms": capacity.tpot_ms,
        "e2e_ms": capacity.e2e_ms,
        "replicas": np.where(np.isfinite(fleets.replicas), fleets.replicas, np.nan),
        "gpus": np.where(np.isfinite(fleets.gpus), fleets.gpus, np.nan),
        "usd_per_hour": np.where(np.isfinite(fleets.usd_per_hour), fleets.usd_per_hour, np.nan),
    }
    if answer.pools is not None:
        columns["prefill_requests_per_s_within_slo"] = answer.pools.prefill_per_s
        columns["decode_requests_per_s_within_slo"] = answer.pools.decode_per_s
    frame = candidates.labels.with_columns(pl.Series(name, values) for name, values in columns.items())
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def curve_frame(answer: Answer) -> pl.DataFrame:
    """The full curve: each accelerator's best deployment from idle to nearly saturated, the SLO only a mark."""
    question = answer.question
    rows = list(
        dict.fromkeys(part.row for plan in answer.plans for part in plan.parts if part.role == "replica")
    )
    few = question.candidates.take(np.array(rows, dtype=np.int64))
    pieces = []
    for share in CURVE_SHARES if rows else ():
        rate = answer.capacity.saturated_per_s[rows] * share
        results = at_rate(few, rate)
        ttft, tpot, e2e = latencies(results, few.records, question.limits)
        pieces.append(
            pl.DataFrame(
                {
                    "deployment": [deployment_name(question.candidates, row) for row in rows],
                    "share_of_saturation": share,
                    "requests_per_s": rate,
                    "ttft_ms_mean": results["ttft_ms"],
                    "tpot_ms_mean": results["tpot_ms"],
                    "ttft_ms": ttft,
                    "tpot_ms": tpot,
                    "e2e_ms": e2e,
                    "usd_per_m_total": results["usd_per_m_total"],
                    "within_slo": rate <= answer.capacity.rate_per_s[rows],
                }
            )
        )
    return pl.concat(pieces) if pieces else pl.DataFrame()
