"""Traces and the shape of synthetic traffic (group `workload`): read by the simulator and the planner."""

from __future__ import annotations

from typing import Any

from sweep.fields.columns import SIMULATED
from sweep.fields.spec import Field, Kind
from sweep.fields.workload import LENGTHS

_Q = "What load?"


def _shape(key: str, kind: Kind, doc: str, **more: Any) -> Field:
    more.setdefault("moves", SIMULATED)
    return Field(key=f"workload.{key}", doc=doc, kind=kind, column=False, question=_Q, **more)


FIELDS = (
    _shape(
        "trace",
        "path",
        "Trace to plan for, or whose mean lengths a sweep takes: CSV, JSONL, JSON or parquet; a name, a folder or a glob.",
        auto="synthetic requests",
    ),
    _shape(
        "columns",
        "text",
        "Which column of the trace holds what: arrival=NAME:unit, isl=NAME, osl=NAME, hash_ids=NAME, model=NAME.",
        auto="told from the columns' names",
    ),
    _shape(
        "on_bad_line",
        "choice",
        "What a line of the trace that is no request does: stop the run, or be skipped, silently or with a report.",
        choices=("stop", "skip", "report"),
        default="stop",
    ),
    _shape(
        "lengths",
        "choice",
        "Distribution of synthetic lengths: uniform in [length_range, 1] x isl, lognormal with means isl and osl, or "
        "drawn from the trace.",
        choices=LENGTHS,
        default="uniform",
    ),
    _shape(
        "isl_sigma",
        "float",
        "Spread of lognormal prompts: standard deviation of ln(length).",
        default=1.0,
        low=0,
        high=10,
    ),
    _shape(
        "osl_sigma",
        "float",
        "Spread of lognormal outputs: standard deviation of ln(length).",
        default=1.0,
        low=0,
        high=10,
    ),
    _shape(
        "length_correlation",
        "float",
        "Correlation of ln(prompt) and ln(output) where lengths are lognormal.",
        default=0.0,
        low=-1,
        high=1,
    ),
    _shape(
        "longest_tokens",
        "int",
        "Longest prompt or output of lognormal lengths; longer draws are cut to it.",
        low=1,
        unit="tokens",
        auto="no bound",
    ),
    _shape(
        "hourly_rates",
        "text",
        "Requests per second in each hour, repeating: numbers separated by spaces.",
        auto="request_rate at every hour",
    ),
    _shape("pulse_requests", "int", "Requests of one pulse where arrival=pulse.", default=10, low=1),
    _shape(
        "pulse_delay_s",
        "float",
        "Time from pulse to pulse where arrival=pulse.",
        default=60.0,
        low=0,
        unit="s",
    ),
)
