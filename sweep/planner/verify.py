"""The short list in the simulator: a plan that misses the SLO at its planned load grows until it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sweep.errors import NoAnswer
from sweep.planner.answer import Answer, order, planned_latency, tokens_per_request
from sweep.planner.candidates import Candidates
from sweep.planner.demand import Demand
from sweep.planner.names import plan_name
from sweep.planner.plans import Part, Plan
from sweep.simulate.curves import LoadPoint

if TYPE_CHECKING:
    from sweep.planner.simulated import Fleet

GROWTH = 0.05
"""Share of its replicas by which a plan that misses grows, one at least."""
MOST_TRIES = 10

LoadOf = Callable[[Plan], LoadPoint]
"""Simulates a plan's working replicas at its planned rate."""


@dataclass(frozen=True)
class Verified:
    """A plan and what the simulator says of it at the planned load, spare replicas gone; None: not simulated."""

    plan: Plan
    point: LoadPoint | None = None
    met: bool | None = None
    note: str = ""

    def columns(self) -> dict[str, object]:
        """Columns of the table of plans."""
        point = self.point
        late = {} if point is None else point.at_percentile_ms
        return {
            "simulated": self.met,
            "simulated_ttft_ms": late.get("ttft"),
            "simulated_tpot_ms": late.get("tpot"),
            "simulated_e2e_ms": late.get("e2e"),
            "simulated_goodput": None if point is None else goodput_share(point),
            "simulated_busy_share": None if point is None else point.busy_share,
        }


def goodput_share(point: LoadPoint) -> float:
    """Share of the finished requests that met every limit."""
    return point.goodput_per_s / point.achieved_per_s if point.achieved_per_s > 0.0 else 0.0


def holds(point: LoadPoint, demand: Demand) -> bool:
    """Whether a simulated load meets the SLO at its percentile, and enough requests meet all of it."""
    return point.within_slo and goodput_share(point) >= demand.goodput_share


def verified(plans: Sequence[Plan], answer: Answer, load_of: LoadOf | None = None) -> list[Verified]:
    """The plans that hold in the simulator, grown where they had to, in the order of the objective.

    Raises NoAnswer where none holds within the demand's limits.
    """
    simulate = load_of or _simulator(answer)
    candidates, demand = answer.question.candidates, answer.question.demand
    checked = [_grown_until_it_holds(plan, answer, simulate) for plan in plans]
    good = [v for v in checked if v.met]
    if not good:
        raise NoAnswer(_refusal(checked[0], candidates, demand))
    smallest = answer.question.setting("objective") == "smallest"
    good.sort(key=lambda v: order(v.plan, smallest))
    # A mix is worth its two types only where it beats every fleet of one.
    return [v for k, v in enumerate(good) if k == 0 or v.plan.kind != "mixed"]


def _grown_until_it_holds(plan: Plan, answer: Answer, load_of: LoadOf) -> Verified:
    demand, start = answer.question.demand, plan
    for _ in range(MOST_TRIES):
        point = load_of(plan)
        if holds(point, demand):
            grew = plan is not start
            note = (
                f"the simulator asks for {plan.gpus:,} GPUs, the closed form for {start.gpus:,}: "
                if grew
                else ""
            )
            return Verified(
                plan, point, True, note + plan_name(plan, answer.question.candidates) if grew else ""
            )
        larger = grown(plan, point, answer)
        if larger.gpus > demand.max_gpus or larger.usd_per_hour > demand.budget_usd_per_hour:
            break
        plan = larger
    return Verified(plan, point, False)


def grown(plan: Plan, point: LoadPoint, answer: Answer) -> Plan:
    """The plan with a few more replicas: of prefill where TTFT is late, of decode where TPOT is, of the cheaper type."""
    limits, candidates = answer.question.limits, answer.question.candidates
    k = 0
    if plan.kind == "split":
        late = point.at_percentile_ms.get("ttft", math.inf) > min(limits.ttft_ms, limits.e2e_ms)
        k = 0 if late else 1
    elif plan.kind == "mixed":
        usd = [_usd(part, candidates) / part.rate_per_s for part in plan.parts]
        k = usd.index(min(usd))
    part = plan.parts[k]
    more = replace(part, count=part.count + max(1, round(GROWTH * part.count)))
    parts = (*plan.parts[:k], more, *plan.parts[k + 1 :])
    gpus = sum(int(p.count * candidates.workers[p.row]) for p in parts)
    return replace(
        plan, parts=parts, gpus=gpus, usd_per_hour=sum(p.count * _usd(p, candidates) for p in parts)
    )


def _usd(part: Part, candidates: Candidates) -> float:
    return float(candidates.workers[part.row] * candidates.usd_per_gpu_hour[part.row])


def _simulator(answer: Answer) -> LoadOf:
    return lambda plan: fleet_of(plan, answer).load_at(plan.rate_per_s)


def fleet_of(plan: Plan, answer: Answer) -> Fleet:
    """The working replicas of a plan, ready to be simulated."""
    from sweep.planner.simulated import Fleet

    _, osl = tokens_per_request(answer.question)
    ttft, tpot = planned_latency(plan, answer)
    return Fleet(plan, answer.question, ttft + osl * tpot)


def _refusal(first: Verified, candidates: Candidates, demand: Demand) -> str:
    assert first.point is not None
    late = first.point.at_percentile_ms
    figures = (
        ", ".join(f"{name.upper()} {value:,.4g} ms" for name, value in late.items()) or "no request finished"
    )
    bound = "" if math.isinf(demand.max_gpus) else f"; demand.max_gpus is {demand.max_gpus:,.0f}"
    return (
        f"no plan holds in the simulator: nearest is {plan_name(first.plan, candidates)} with {figures} at the SLO's"
        f" percentile{bound}"
    )
