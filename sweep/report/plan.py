"""report.html of a plan: the short list, latency over load, the fleet over time, what would change the answer."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.accelerator_style import SYMBOLS, styles
from sweep.planner.answer import curve_frame
from sweep.planner.questions import SWING
from sweep.planner.text import HEADS, answer_lines, cell, question_lines
from sweep.planner.verify import fleet_of
from sweep.report.page import page, source, table

if TYPE_CHECKING:
    from sweep.planner.run import Planned

MOST_INTERVALS = 400
"""Points of a timeline; neighbouring intervals are averaged beyond that."""


def plan_html(done: Planned) -> bytes:
    """The report of a finished plan; all text from outside is data or escaped."""
    answer = done.answer
    told = answer_lines(answer, done.winner, done.smallest, done.cheapest, done.insights)
    lines = [*question_lines(answer), *told]
    frame = done.frame()
    columns = [c for c in HEADS if c in frame.columns]
    rows = [[(cell(c, row[c]), c != "plan") for c in columns] for row in frame.iter_rows(named=True)]
    body = source("plan.html").replace("@@ANSWER@@", html.escape("\n".join(lines)))
    body = body.replace("@@PLANS@@", table([HEADS[c] for c in columns], rows)).replace(
        "@@SWING@@", f"{SWING:.0%}"
    )
    data = {
        "curve": _curve(curve_frame(answer)),
        "slo": {
            k: v for k, v in vars(answer.question.limits).items() if isinstance(v, float) and math.isfinite(v)
        },
        "timeline": _timeline(done),
        "base_usd_per_hour": _finite(done.insights.base_usd_per_hour),
        "percentile": answer.question.limits.percentile,
        "unit": "requests/s" if answer.question.demand.by_rate else "in flight",
        **{k: done.insights.as_dict()[k] for k in ("sensitivity", "by_load")},
    }
    model = answer.question.candidates.labels["model"][0]
    return page(f"servesweep plan: {model}", body, data, ("common.js", "chart.js", "plan.js"))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _curve(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Latency over load, deployment by deployment, each accelerator in its colour."""
    names = frame["deployment"].unique(maintain_order=True).to_list()
    style = styles(names)
    found = []
    for name in names:
        own = frame.filter(pl.col("deployment") == name).sort("requests_per_s")
        columns = {
            c: [_finite(v) for v in own[c]] for c in ("requests_per_s", "ttft_ms", "tpot_ms", "e2e_ms")
        }
        colour, symbol = style[name]
        found.append({"name": name, "colour": colour, "symbol": SYMBOLS[symbol], **columns})
    return found


def _timeline(done: Planned) -> dict[str, Any] | None:
    """The answer in the simulator at its planned load; None where plans are not simulated."""
    if not done.answer.question.setting("simulate"):
        return None
    timeline = fleet_of(done.winner, done.answer).timeline_at(done.winner.rate_per_s)
    series = {
        name: [
            float(f"{v:.5g}")
            for v in averaged(np.asarray(getattr(timeline, name), np.float64), MOST_INTERVALS)
        ]
        for name in ("seconds", "prompt_tok_s", "output_tok_s", "running", "waiting", "kv_share")
    }
    return {"replicas": timeline.replicas, **series}


def averaged(values: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.float64]:
    """Means of equal runs of neighbours, at most `most` of them; a rest that fills no run is left out."""
    run = max(1, math.ceil(values.size / most))
    whole = values.size // run * run
    means: npt.NDArray[np.float64] = values[:whole].reshape(-1, run).mean(axis=1)
    return means
