"""One model's plan for the coming weeks: demand from the forecast, lengths from the log, the busiest hour replayed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sweep.catalog.models import resolve_model
from sweep.errors import NoAnswer, UserError
from sweep.nightly.fleet import Fleet, fleet_of, load_on, plan_of, stays
from sweep.nightly.forecast import Forecast
from sweep.nightly.job import ANY_MODEL, Job
from sweep.nightly.replay import FEWEST_REQUESTS, Replay
from sweep.nightly.shape import Shape, peak_factor
from sweep.planner.answer import Answer, plan_row
from sweep.planner.plans import Plan
from sweep.planner.question import Question, question
from sweep.planner.run import planned
from sweep.planner.verify import Verified, verified
from sweep.traces.requests import Requests

PLANNED, NO_ANSWER, NOT_PLANNED = "planned", "no answer", "not planned"
MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,100}(/[A-Za-z0-9][\w.-]{0,100})?")


def model_plan(
    job: Job,
    log_name: str,
    expected: Forecast,
    shape: Shape | None,
    requests: Requests | None,
    fleet: Fleet | None,
) -> dict[str, Any]:
    """The model's part of plan.json. `fleet` is what was last announced: does it carry the new load?

    Raises UserError where the job's settings are wrong.
    """
    rate = expected.planned_per_s
    known: dict[str, Any] = {
        "log_name": log_name,
        "forecast": expected.as_dict(),
        "traffic": None if shape is None else dict(shape),
    }
    if rate <= 0.0 or shape is None:
        return known | {"status": NOT_PLANNED, "reason": "no traffic to plan for"}
    unknown = _unknown_model(job, log_name)
    if unknown is not None:
        return known | {"status": NOT_PLANNED, "reason": unknown}
    overrides = job.overrides_of(log_name)
    factor = peak_factor(shape, rate) if job.peak == "minute" else 1.0
    lines = [
        *overrides,
        f"demand.request_rate={rate:.6g}",
        f"demand.peak_factor={factor:.4g}",
        *_workload(shape, requests),
    ]
    asked = question(lines, job.config_dirs, requests)
    if requests is not None:
        asked, left_out = _within_context(asked, lines, job, requests)
        known["too_long_for_the_context"] = left_out
    known |= {
        "model": str(asked.candidates.labels["model"][0]),
        "demand": asked.demand.text(),
        "planned_requests_per_s": asked.demand.planned,
        "slo": asked.limits.text(),
        "limits_ms": {k: v for k, v in vars(asked.limits).items() if k.endswith("_ms") and math.isfinite(v)},
    }
    try:
        done = planned(asked)
        replay = _replay(done.answer, job, rate)
        best = _replayed(done.short_list[0], replay)
    except NoAnswer as told:
        return known | {"status": NO_ANSWER, "reason": str(told)}
    before = None if fleet is None else plan_of(fleet, done.answer)
    kept = before is not None and stays(before, best.plan, job.change_threshold, _holds(done.answer, replay))
    final = _replayed(Verified(before), replay) if before is not None and kept else best
    return known | {
        "status": PLANNED,
        "reason": final.note or None,
        **fleet_of(final.plan, done.answer),
        "answer": _plain(plan_row(final.plan, done.answer)),
        "plans": [_plain(row) for row in done.frame().iter_rows(named=True)],
        "chance_that_the_winner_is_cheaper": done.insights.chance_of_winner,
        "replay": None if replay is None else replay.figures(final),
        "announced_fleet_load": None if before is None else load_on(before),
    }


def _unknown_model(job: Job, log_name: str) -> str | None:
    """Why the model that the log names cannot be planned; None where the job or the catalogue knows it.

    A name in a log is data: only catalogue names and Hugging Face ids are looked up, never a path.
    """
    if job.names(log_name):
        return None
    if not log_name:
        return f"requests without a model: say which under job.models, as '{ANY_MODEL}'"
    try:
        if not MODEL_NAME.fullmatch(log_name) or Path(log_name).exists():
            raise UserError("is not the name of a model", field="model", value=log_name[:60])
        resolve_model(log_name)
    except UserError as error:
        return f"{error.message}; say which it is under job.models"
    return None


def _workload(shape: Shape, requests: Requests | None) -> list[str]:
    lines = ["workload.arrival=gamma", f"workload.burstiness={shape['burstiness']:.4g}"]
    if requests is not None:
        return lines
    lengths = {name: max(1, round(shape[f"{name}_mean"])) for name in ("isl", "osl")}
    lines += [f"workload.{name}={tokens}" for name, tokens in lengths.items()]
    lines += [
        f"workload.{name}={shape[name]:.4g}" for name in ("isl_sigma", "osl_sigma", "length_correlation")
    ]
    return [*lines, "workload.lengths=lognormal"]


def _within_context(asked: Question, lines: list[str], job: Job, requests: Requests) -> tuple[Question, int]:
    """The question without the requests that the model's context cannot hold, and how many those are."""
    longest = float(asked.candidates.records["max_position"][0])
    fits = np.flatnonzero(requests.isl.astype(np.int64) + requests.osl <= longest)
    left_out = len(requests) - len(fits)
    if left_out == 0:
        return asked, 0
    if len(fits) == 0:
        raise UserError(
            f"no request of the busiest hour fits into the model's context of {longest:,.0f} tokens",
            field="job.models",
        )
    return question(lines, job.config_dirs, requests.take(fits)), left_out


def _replay(answer: Answer, job: Job, rate_per_s: float) -> Replay | None:
    """The recorded hour at `rate_per_s`; None where there is nothing to replay."""
    trace = answer.question.trace
    if trace is None or len(trace) < FEWEST_REQUESTS:
        return None
    span_s = max(float(trace.arrival_ns[-1] - trace.arrival_ns[0]) / 1e9, 1.0)
    return Replay(answer, trace, rate_per_s * span_s / len(trace), job.replay_requests)


def _replayed(first: Verified, replay: Replay | None) -> Verified:
    """A plan, grown until it carries the recorded hour."""
    if replay is None:
        return first
    found = replay.grown(first.plan)
    note = "; ".join(dict.fromkeys(part for part in (first.note, found.note) if part))
    return replace(found, note=note)


def _holds(answer: Answer, replay: Replay | None) -> Callable[[Plan], bool]:
    """Whether a plan meets the SLO as it is: simulated at the planned load, and in the replay."""

    def meets(plan: Plan) -> bool:
        try:
            steady = verified([plan], answer)[0].plan if answer.question.setting("simulate") else plan
            return steady == plan and (replay is None or replay.grown(plan).plan == plan)
        except NoAnswer:
            return False

    return meets


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
