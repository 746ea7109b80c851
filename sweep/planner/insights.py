"""What a planner asks next: the second best and what would make it win, other loads, sensitivity, certainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sweep.planner.answer import Answer
from sweep.planner.demand import Demand
from sweep.planner.designs import Costs, Design, costs_of, few
from sweep.planner.names import design_name
from sweep.planner.plans import Plan
from sweep.planner.questions import (
    TOLD_APART,
    BreakEven,
    Stretch,
    Swing,
    break_even,
    by_load,
    chance_of_first,
    tornado,
)

COMPARED = 8
"""Plans that compete in sensitivity and at other loads."""


@dataclass(frozen=True)
class Insights:
    """Answers to the inverse questions about the winner; those that need a second plan are None without one."""

    names: tuple[str, ...]
    base_usd_per_hour: float
    second: Plan | None
    chance_of_winner: float | None
    break_even: BreakEven | None
    stretches: tuple[Stretch, ...]
    swings: tuple[Swing, ...]

    @property
    def told_apart(self) -> bool | None:
        """Whether the winner is distinguishable from the second given the errors of both."""
        return None if self.chance_of_winner is None else self.chance_of_winner >= TOLD_APART

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        even = self.break_even
        return {
            "second": self.names[1] if self.second is not None else None,
            "chance_that_the_winner_is_cheaper": self.chance_of_winner,
            "distinguishable": self.told_apart,
            "second_wins_at": None
            if even is None
            else {
                "usd_per_gpu_hour": even.price_usd_per_gpu_hour,
                "memory_bandwidth_factor": even.bandwidth_factor,
                "acceptance_rate": even.acceptance,
                "draft_tokens": even.draft_tokens,
            },
            "by_load": [
                {"design": self.names[s.design], "from": s.low, "to": s.high} for s in self.stretches
            ],
            "sensitivity": [
                {
                    "input": s.name,
                    "usd_per_hour_low": _finite(s.low_usd_per_hour),
                    "usd_per_hour_high": _finite(s.high_usd_per_hour),
                    "winner_low": self.names[s.low_winner],
                    "winner_high": self.names[s.high_winner],
                }
                for s in self.swings
            ],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _verified(plan: Plan, design: Design, costs: Costs, demand: Demand) -> Design:
    """The design with how much the simulator made its plan grow."""
    usd = costs.usd_per_hour(design, demand)
    return replace(design, grown=plan.usd_per_hour / usd) if 0.0 < usd < math.inf else design


def insights(answer: Answer, plans: list[Plan]) -> Insights:
    """Insights on the first of `plans` against the others. Plans without a price are left out."""
    priced = [plan for plan in plans if math.isfinite(plan.usd_per_hour)][:COMPARED]
    question = answer.question
    names = tuple(design_name(plan, question.candidates) for plan in priced)
    if not priced:
        return Insights(names, math.inf, None, None, None, (), ())
    candidates, designs = few(question.candidates, priced)
    demand, limits = question.demand, question.limits
    costs = costs_of(candidates, designs, limits)
    designs = [_verified(plan, design, costs, demand) for plan, design in zip(priced, designs, strict=True)]
    chance = even = None
    if len(priced) > 1:
        # What is bought is whole replicas: fractional costs would call another plan the cheaper one.
        usd = [plan.usd_per_hour for plan in priced[:2]]
        chance = chance_of_first(candidates, designs[0], designs[1], *usd)
        even = break_even(candidates, designs[0], designs[1], priced[1].gpus, demand, limits)
    return Insights(
        names,
        costs.usd_per_hour(designs[0], demand, whole=False),
        priced[1] if len(priced) > 1 else None,
        chance,
        even,
        tuple(by_load(costs, designs, demand)),
        tuple(tornado(candidates, designs, demand, limits)),
    )
