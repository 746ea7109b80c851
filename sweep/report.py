"""report.html: the points of pareto.png in one file without network, to hover over and to filter."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import polars as pl

from sweep.accelerator_style import PLOTLY_MARKERS, styles
from sweep.axes import Grid
from sweep.frontier import COST, FRONTIERS
from sweep.results import BY_NAME, title
from sweep.scenarios import accelerators_by_merit, design_columns, scenario_columns
from sweep.tables import best_deployments, head, text

TEMPLATE = Path(__file__).with_name("report_template.html")
HOVER = (
    "gpus",
    COST,
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "output_tok_s_per_gpu",
    "tok_s_per_user",
    "weights_gib_per_gpu",
    "kv_capacity_tokens_total",
    "max_concurrency",
    "bound",
    "joules_per_output_token",
)
"""Results that a point shows when the pointer is over it."""


def report_html(frame: pl.DataFrame, grid: Grid, counts: dict[str, int]) -> bytes:
    """The report of a frontier table; `counts` are rows by reason. Every string is data, never markup."""
    from plotly.offline import get_plotlyjs

    priced = frame.filter(pl.col(COST).is_not_null())
    data = {
        "columns": _columns(priced, grid),
        "scenario": scenario_columns(grid),
        "design": design_columns(grid),
        "heads": {c: head(c) for c in (*scenario_columns(grid), *design_columns(grid))},
        "hover": [{"name": c, "title": title(c)} for c in HOVER],
        "latencies": [{"name": c, "title": title(c)} for c in FRONTIERS],
        "cost": {"name": COST, "title": title(COST)},
        "styles": _styles(priced),
    }
    replacements = {
        "@@TITLE@@": html.escape(f"servesweep: {grid.name}"),
        "@@SUMMARY@@": _summary(grid, counts),
        "@@BEST@@": _best(frame, grid),
        "@@DATA@@": _json(data),
        "@@PLOTLY@@": get_plotlyjs(),
    }
    page = TEMPLATE.read_text(encoding="utf-8")
    for mark, value in replacements.items():
        page = page.replace(mark, value)
    return page.encode()


def _json(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def _columns(frame: pl.DataFrame, grid: Grid) -> dict[str, Any]:
    """Columns of the points; words as codes into a list."""
    marks = [f"{kind}_{name}" for kind in ("frontier", "accelerator_frontier") for name in FRONTIERS]
    names = [*scenario_columns(grid), *design_columns(grid), *HOVER, "meets_slo", *marks]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        series = frame[name]
        if isinstance(series.dtype, pl.Enum):
            columns[name] = {
                "words": series.dtype.categories.to_list(),
                "codes": series.to_physical().to_list(),
            }
        elif series.dtype == pl.Boolean:
            columns[name] = {"values": series.cast(pl.Int8).to_list()}
        else:
            columns[name] = {"values": [None if v is None else float(f"{v:.6g}") for v in series.to_list()]}
    return columns


def _styles(frame: pl.DataFrame) -> dict[str, dict[str, str]]:
    return {
        name: {"colour": colour, "symbol": PLOTLY_MARKERS[marker]}
        for name, (colour, marker) in styles(accelerators_by_merit(frame)).items()
    }


def _summary(grid: Grid, counts: dict[str, int]) -> str:
    axes = [
        f"{head(axis.labels[0].name)}: {axis.radix}" for axis in grid.axes if axis.radix > 1 and axis.labels
    ]
    reasons = [(reason or "feasible", n) for reason, n in sorted(counts.items(), key=lambda item: -item[1])]
    rows = "".join(f"<tr><td>{html.escape(r)}</td><td class=n>{n:,}</td></tr>" for r, n in reasons)
    return (
        f"<p>{grid.n_rows:,} combinations ({html.escape(', '.join(axes)) or 'one point'})</p>"
        f"<details><summary>What became of the rows</summary><table>{rows}</table></details>"
    )


def _best(frame: pl.DataFrame, grid: Grid) -> str:
    best = best_deployments(frame, grid)
    if best.is_empty():
        return "<p>No deployment with a price meets the SLO.</p>"
    heads = "".join(f"<th>{html.escape(head(c))}</th>" for c in best.columns)
    body = ""
    for row in best.iter_rows():
        cells = zip(best.columns, row, strict=True)
        body += "<tr>" + "".join(_cell(c, v) for c, v in cells) + "</tr>"
    return f"<table><tr>{heads}</tr>{body}</table>"


def _cell(column: str, value: Any) -> str:
    number = column in BY_NAME or isinstance(value, (int, float))
    return f"<td{' class=n' if number else ''}>{html.escape(text(value))}</td>"
