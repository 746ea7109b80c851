"""The plan as a person reads it."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from sweep.planner.answer import HOURS_PER_MONTH, Answer, plan_row, tokens_per_request
from sweep.planner.insights import Insights
from sweep.planner.names import plan_name
from sweep.planner.plans import Plan
from sweep.planner.questions import SWING, TOLD_APART

MOST_STRETCHES = 6


def question_lines(answer: Answer) -> list[str]:
    """What was asked."""
    question = answer.question
    record = question.candidates.records[0]
    isl, osl = tokens_per_request(question)
    lengths = f"{isl:,.0f} prompt and {osl:,.0f} output tokens"
    if record["prefix_hit_rate"] > 0.0:
        lengths += f" ({record['prefix_hit_rate']:.0%} of the prompt cached)"
    spare = question.demand.spare
    return [
        f"model    {question.candidates.labels['model'][0]}, {lengths} per request",
        f"demand   {question.demand.text()}; "
        + (f"{spare} spare replica{'s' if spare > 1 else ''} per pool" if spare else "no spare replica"),
        f"SLO      {question.limits.text()}"
        + (
            f", {question.demand.goodput_share:.0%} of requests within all"
            if question.demand.goodput_share
            else ""
        ),
        f"searched {len(question.candidates):,} deployments, {int(answer.capacity.meets.sum()):,} meet the SLO",
    ]


def answer_lines(answer: Answer, winner: Plan, smallest: Plan, cheapest: Plan, found: Insights) -> list[str]:
    """The answer in three sentences, how sure it is in the first, and the other objective's where it differs."""
    row = plan_row(winner, answer)
    cost = f", {money(winner.usd_per_hour)}/h ({money(winner.usd_per_hour * HOURS_PER_MONTH, 0)} a month)"
    if not math.isfinite(winner.usd_per_hour):
        cost = ", no price in this book"
    lines = [
        "",
        f"answer   {plan_name(winner, answer.question.candidates)}{sureness(winner, found)}",
        f"         {winner.gpus:,} GPUs{cost}"
        + (f"; ${row['usd_per_m_total']:.3g} per M tokens at the planned load" if "/h" in cost else ""),
        f"         {winner.utilization:.0%} utilized at the planned load, sustains {figure(winner.capacity_per_s)} requests/s"
        f" with every replica ({winner.headroom:+.0%})",
    ]
    for word, other in (("smallest", smallest), ("cheapest", cheapest)):
        better = other.gpus < winner.gpus if word == "smallest" else other.usd_per_hour < winner.usd_per_hour
        if better:
            name = plan_name(other, answer.question.candidates)
            cost = (
                f"{money(other.usd_per_hour)}/h"
                if math.isfinite(other.usd_per_hour)
                else "no price in this book"
            )
            lines.append(f"{word} {name}: {other.gpus:,} GPUs, {cost}")
    return lines


def sureness(winner: Plan, found: Insights) -> str:
    """How sure the answer is, in the line that gives it; empty where there is no price to compare, or nothing else."""
    if found.chance_of_winner is None or not math.isfinite(winner.usd_per_hour):
        return ""
    verdict = "" if found.told_apart else ": the two are not told apart"
    return f", cheaper than the second with probability {found.chance_of_winner:.0%}{verdict}"


def insight_lines(found: Insights, answer: Answer) -> list[str]:
    """What would change the answer."""
    lines: list[str] = []
    if found.second is not None and found.chance_of_winner is not None:
        lines += ["", f"second   {found.names[1]}"]
        if not found.told_apart:
            lines.append(
                f"         less than {TOLD_APART:.0%} sure given the estimates' errors: measure both, or take the simpler one"
            )
    even = found.break_even
    if even is not None:
        ways = [f"${even.price_usd_per_gpu_hour:.2f} per GPU-hour"] if even.price_usd_per_gpu_hour else []
        if even.bandwidth_factor is not None and even.bandwidth_factor > 1.0:
            ways.append(f"{even.bandwidth_factor:.2f} x its memory bandwidth")
        if even.acceptance is not None:
            ways.append(f"speculation of {even.draft_tokens} tokens accepted at {even.acceptance:.0%}")
        lines.append(
            f"         it would win at {' or '.join(ways)}"
            if ways
            else "         nothing asked would make it win"
        )
    if len(found.stretches) > 1:
        unit = "requests/s" if answer.question.demand.by_rate else "in flight"
        lines += ["", f"at other loads ({unit})"]
        shown = _nearest_stretches(found, answer.question.demand.planned)
        lines += [f"  {s.low:9.4g} to {s.high:9.4g}  {found.names[s.design]}" for s in shown]
        if len(shown) < len(found.stretches):
            lines.append(f"  (nearest {len(shown)} of {len(found.stretches)} stretches)")
    if found.swings:
        lines += ["", f"$/h of the answer's design when one input moves by {SWING:.0%}"]
        for s in found.swings:
            ends = f"  {s.name:26s} {_usd(s.low_usd_per_hour):>10s} .. {_usd(s.high_usd_per_hour):<10s}"
            others = {found.names[k] for k in (s.low_winner, s.high_winner) if k}
            lines.append(ends + (f" then cheaper: {', '.join(sorted(others))}" if others else ""))
    return lines


def _nearest_stretches(found: Insights, planned: float) -> list[Any]:
    """The stretches around the planned load."""
    stretches = list(found.stretches)
    here = min(
        range(len(stretches)), key=lambda k: abs(math.log(stretches[k].low * stretches[k].high / planned**2))
    )
    first = max(0, min(here - MOST_STRETCHES // 2, len(stretches) - MOST_STRETCHES))
    return stretches[first : first + MOST_STRETCHES]


def figure(value: float) -> str:
    """Three digits, no exponent: `46.6`, `2,684`."""
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def money(usd: float, digits: int = 2) -> str:
    """`$1,234.50`."""
    return f"${usd:,.{digits}f}" if math.isfinite(usd) else "no price"


def _usd(usd: float) -> str:
    return f"{usd:,.2f}" if math.isfinite(usd) else "misses SLO"


HEADS = {
    "plan": "plan",
    "deployment": "deployment",
    "gpus": "GPUs",
    "usd_per_hour": "$/h",
    "requests_per_s": "requests/s",
    "simulated_requests_per_s": "simulated",
    "usd_per_m_total": "$/M tok",
    "utilization": "util",
    "headroom": "headroom",
    "ttft_ms": "TTFT ms",
    "tpot_ms": "TPOT ms",
    "simulated_ttft_ms": "sim. TTFT",
    "simulated_tpot_ms": "sim. TPOT",
    "simulated_goodput": "sim. goodput",
}


def print_plans(frame: pl.DataFrame, title: str) -> None:
    """The table of plans on stdout."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=170)
    table = Table(title=title, title_justify="left", title_style="", box=None, pad_edge=False)
    columns = [c for c in HEADS if c in frame.columns]
    for column in columns:
        text = column in ("plan", "deployment")
        table.add_column(
            HEADS[column], justify="left" if text else "right", no_wrap=not text, overflow="fold"
        )
    for row in frame.select(columns).iter_rows(named=True):
        table.add_row(*(cell(column, row[column]) for column in columns))
    console.print(table, highlight=False)


def cell(column: str, value: Any) -> str:
    """A figure of a table of plans."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if column in ("utilization", "headroom", "simulated_goodput"):
        return f"{value:.0%}"
    if column == "usd_per_hour":
        return f"{value:,.2f}"
    if isinstance(value, float):
        return figure(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
