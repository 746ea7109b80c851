"""A night in words: the Markdown summary for a chat channel, and the tables that the report shares with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweep.nightly.compare import EXIT_CHANGED, EXIT_UNCHANGED
from sweep.nightly.figures import title
from sweep.nightly.plan import NO_ANSWER, PLANNED

HEADLINES = {EXIT_UNCHANGED: "plan unchanged", EXIT_CHANGED: "plan changed"}
NO_PLAN = "a model has no plan that meets its SLO"
HEADS = (
    "model",
    "requests",
    "busiest hour, 1/s",
    "planned, 1/s",
    "fleet",
    "GPUs",
    "$/h",
    "against the announced plan",
)


def headline(night: Mapping[str, Any]) -> str:
    """`demo, 2026-03-29: plan unchanged, 5 GPUs, $22.08/h`."""
    word = "first plan" if night["first"] else HEADLINES.get(night["exit_status"], NO_PLAN)
    total = night["total"]
    cost = "" if total["usd_per_hour"] is None else f", ${total['usd_per_hour']:,.2f}/h"
    return f"{night['job']}, {night['night']}: {word}, {total['gpus']:,} GPUs{cost}"


def table(models: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One row of words per model, under HEADS."""
    return [_row(one) for one in models]


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    answer = one.get("answer") or {}
    usd = answer.get("usd_per_hour")
    change = str(one["change"])
    if one["status"] == PLANNED:
        change = ("changed: " if one["changed"] else "") + change
    return (
        title(one),
        f"{one['requests']:,}",
        _figure(one.get("busiest_hour_per_s")),
        _figure(one.get("planned_requests_per_s")),
        str(answer.get("plan", "none" if one["status"] == NO_ANSWER else "not planned")),
        f"{answer['gpus']:,}" if answer else "-",
        "-" if usd is None else f"{usd:,.2f}",
        change,
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}"


def summary_md(night: Mapping[str, Any]) -> str:
    """The summary: headline, one line per model, remarks."""
    lines = [f"**{headline(night)}**", ""]
    lines += ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(_cell(text) for text in row) + " |" for row in table(night["models"])]
    lines += ["", *(f"- {_cell(note)}" for note in notes(night))]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    """Text that cannot end a cell or start markup: names come from a log."""
    return "".join(f"\\{c}" if c in "|\\`*[]<>" else c for c in " ".join(text.split()))


def notes(night: Mapping[str, Any]) -> list[str]:
    """Remarks on the night and on its models."""
    found = list(night["notes"])
    for one in night["models"]:
        name = title(one)
        if one["status"] == PLANNED and one.get("reason"):
            found.append(f"{name}: {one['reason']}")
        if one.get("too_long_for_the_context"):
            found.append(
                f"{name}: {one['too_long_for_the_context']:,} requests longer than the model's context were left out"
            )
        replay = one.get("replay")
        if replay:
            late = ", ".join(
                f"{k.upper()} {v:,.0f} ms" for k, v in replay["latency_ms"].items() if k != "e2e"
            )
            times = replay["times_as_fast_as_recorded"]
            speed = "" if abs(times - 1.0) < 0.05 else f" {times:.2g} times as fast"
            found.append(
                f"{name}: busiest hour replayed{speed} on the working replicas: {late} at p{replay['percentile']:g},"
                f" {replay['goodput_share']:.1%} of requests within the SLO"
            )
    return found
