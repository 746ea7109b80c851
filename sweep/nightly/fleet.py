"""The fleet of an earlier night under tonight's demand: does it carry it, and is it still a good one?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sweep.planner.answer import Answer
from sweep.planner.names import deployment_name
from sweep.planner.plans import Part, Plan

Fleet = Mapping[str, Any]
"""A fleet as plan.json holds it: `kind` and `parts`, each with deployment, role and count."""


def stays(before: Plan, best: Plan, threshold: float, holds: Callable[[Plan], bool]) -> bool:
    """Whether the announced fleet stays: nothing saves more than the threshold, and it carries the new load within the SLO.

    Two designs of nearly one cost would otherwise take turns night by night.
    """
    if math.isfinite(before.usd_per_hour) and math.isfinite(best.usd_per_hour):
        saves = before.usd_per_hour - best.usd_per_hour > threshold * before.usd_per_hour
    else:
        saves = before.gpus - best.gpus > threshold * before.gpus
    return not saves and load_on(before) <= 1.0 and holds(before)


def fleet_of(plan: Plan, answer: Answer) -> dict[str, Any]:
    """The fleet part by part, so that a later night can ask the same of it."""
    candidates = answer.question.candidates
    parts = [
        {"deployment": deployment_name(candidates, part.row), "role": part.role, "count": part.count}
        for part in plan.parts
    ]
    return {"kind": plan.kind, "parts": parts}


def plan_of(fleet: Fleet, answer: Answer) -> Plan | None:
    """A fleet of an earlier night under tonight's demand; None where tonight's search does not have its deployments."""
    candidates, demand = answer.question.candidates, answer.question.demand
    rows = {deployment_name(candidates, row): row for row in range(len(candidates))}
    parts: list[Part] = []
    for part in fleet["parts"]:
        row = rows.get(part["deployment"])
        rates = None if row is None else _rates_of(part["role"], row, answer)
        if row is None or rates is None:
            return None
        parts.append(Part(row, part["role"], int(part["count"]), *rates))
    gpus = [part.count * float(candidates.workers[part.row]) for part in parts]
    usd = sum(n * float(candidates.usd_per_gpu_hour[part.row]) for n, part in zip(gpus, parts, strict=True))
    return Plan(fleet["kind"], tuple(parts), int(sum(gpus)), usd, demand.planned, demand.spare)


def _rates_of(role: str, row: int, answer: Answer) -> tuple[float, float] | None:
    """Requests/s within the SLO and saturated of one worker of deployment `row`; None where it cannot serve at all."""
    capacity, pools = answer.capacity, answer.pools
    if role == "replica":
        found = capacity.rate_per_s[row], capacity.saturated_per_s[row]
    elif pools is None:
        return None
    elif role == "prefill":
        found = pools.prefill_per_s[row], pools.prefill_saturated_per_s[row]
    else:
        found = pools.decode_per_s[row], pools.decode_saturated_per_s[row]
    return (float(found[0]), float(found[1])) if found[0] > 0.0 else None


def load_on(plan: Plan) -> float:
    """Planned load over what the plan's working replicas carry within the SLO."""
    return plan.rate_per_s / replace(plan, parts=plan.working).capacity_per_s
