"""The question turned round: what load does a fleet that exists sustain within the SLO?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from sweep.errors import NoAnswer
from sweep.planner.answer import tokens_per_request
from sweep.planner.capacity import Capacity, colocated_capacity
from sweep.planner.diagnosis import why
from sweep.planner.names import deployment_name
from sweep.planner.plans import Part, Plan
from sweep.planner.question import Question
from sweep.simulate.curves import Capacity as Simulated
from sweep.simulate.curves import capacity as bisected

TOLERANCE = 0.01


def sustained_frame(question: Question) -> pl.DataFrame:
    """Rate within the SLO of `demand.replicas` replicas of each deployment, most per dollar first.

    The closed form weighs all deployments, the simulator bisects for the short list. Spare replicas do not carry
    load. Raises NoAnswer where no deployment meets the SLO.
    """
    candidates = question.candidates
    capacity = colocated_capacity(candidates, question.limits)
    told = why(candidates, capacity, question.limits, bool(capacity.meets.any()))
    if told is not None:
        raise NoAnswer(told)
    usd = candidates.workers * candidates.usd_per_gpu_hour
    merit = np.where(capacity.meets, capacity.rate_per_s / np.where(np.isfinite(usd), usd, 1e9), -1.0)
    rows = np.argsort(-merit, kind="stable")[: int(question.setting("short_list"))]
    fleets = [_fleet(int(row), question, capacity) for row in rows if capacity.meets[row]]
    return pl.DataFrame([_row(fleet, question, capacity) for fleet in fleets])


def _fleet(row: int, question: Question, capacity: Capacity) -> Plan:
    """All replicas; the rate is what the closed form says of the working ones."""
    n, candidates = int(question.setting("replicas")), question.candidates
    spare = min(question.demand.spare, n - 1)
    part = Part(row, "replica", n, float(capacity.rate_per_s[row]), float(capacity.saturated_per_s[row]))
    gpus = int(n * candidates.workers[row])
    usd = float(gpus * candidates.usd_per_gpu_hour[row])
    return Plan("replicas", (part,), gpus, usd, (n - spare) * part.rate_per_s, spare)


def _row(fleet: Plan, question: Question, capacity: Capacity) -> dict[str, Any]:
    row = fleet.parts[0].row
    found = simulated_capacity(fleet, question, capacity) if question.setting("simulate") else None
    rate = fleet.rate_per_s if found is None else found.rate_per_s
    tokens = sum(tokens_per_request(question))
    return {
        "deployment": deployment_name(question.candidates, row),
        "replicas": fleet.parts[0].count,
        "gpus": fleet.gpus,
        "usd_per_hour": fleet.usd_per_hour if math.isfinite(fleet.usd_per_hour) else None,
        "requests_per_s": fleet.rate_per_s,
        "simulated_requests_per_s": None if found is None else found.rate_per_s,
        "simulated_miss_requests_per_s": None if found is None else found.missed_per_s,
        "usd_per_m_total": fleet.usd_per_hour * 1e6 / (3600.0 * rate * tokens)
        if math.isfinite(fleet.usd_per_hour) and rate > 0.0
        else None,
    }


def simulated_capacity(fleet: Plan, question: Question, capacity: Capacity) -> Simulated:
    """Bisection in the simulator, from the closed form's answer, to 1 %."""
    from sweep.planner.simulated import Fleet

    e2e_ms = float(capacity.e2e_ms[fleet.parts[0].row])
    return bisected(Fleet(fleet, question, e2e_ms).load_at, fleet.rate_per_s, tolerance=TOLERANCE)
