"""report.html of a sweep: its points to hover over and to filter, and what stands behind the cheapest."""

from __future__ import annotations

import html
from typing import Any

import polars as pl

from sweep.accelerator_style import SYMBOLS, styles
from sweep.axes import Grid
from sweep.catalog.prices import book_names, price_of
from sweep.frontier import COST
from sweep.grid_columns import column_values
from sweep.report.page import page, source, table
from sweep.results import BY_NAME, title
from sweep.scenarios import accelerators_by_merit, design_columns, scenario_columns, shown_name
from sweep.stacks import MEMORY, STEP
from sweep.tables import best_deployments, cell, head

MOST_POINTS = 20_000
"""Points that a page holds and still answers at once; a sweep with more feasible rows shows its frontiers."""
SIGNIFICANT = 5
VIEWS: tuple[dict[str, Any], ...] = (
    {"name": "cost against TPOT", "x": "tpot_ms", "y": COST, "interval": "tpot_ms"},
    {"name": "cost against TTFT", "x": "ttft_ms", "y": COST, "interval": "ttft_ms"},
    {
        "name": "tokens/s/GPU against tokens/s/user",
        "x": "tok_s_per_user",
        "y": "output_tok_s_per_gpu",
        "interval": "tpot_ms",
        "inverse": True,
        "more_is_better": True,
    },
    {"name": "cost against end-to-end latency", "x": "e2e_ms", "y": COST},
    {"name": "energy against TPOT", "x": "tpot_ms", "y": "joules_per_output_token", "interval": "tpot_ms"},
)
"""Pairs of figures to plot; `interval` is the latency whose interval the x axis has, inverted for a rate."""
FIGURES = (
    COST,
    "usd_per_m_input",
    "usd_per_m_output",
    "ttft_ms",
    "tpot_ms",
    "itl_ms",
    "e2e_ms",
    "output_tok_s_per_gpu",
    "total_tok_s_per_gpu",
    "tok_s_per_user",
    "requests_per_s",
    "kv_capacity_tokens_total",
    "max_concurrency",
    "bound",
    "mixed_share",
    "prefill_ms",
    "joules_per_output_token",
    "output_tok_s_per_mw",
    "evidence",
)
"""Results that the panel shows for the point under the pointer."""
BOUNDS = ("ttft_ms_p10", "ttft_ms_p90", "tpot_ms_p10", "tpot_ms_p90")


def report_html(
    points: pl.DataFrame, frontier: pl.DataFrame, grid: Grid, counts: dict[str, int], folder: str = "DIR"
) -> bytes:
    """The report. `points` are the rows to plot, `frontier` the frontier table, `counts` rows by reason.

    Every string from outside is data or escaped, never markup.
    """
    shown = points.filter(pl.col("feasible")).with_columns(_price(points.filter("feasible"), grid))
    inputs = [c for c in shown.columns[1 : shown.columns.index("feasible")] if c != "hardware"]
    scenario, design = scenario_columns(grid), design_columns(grid)
    data = {
        "rows": shown.height,
        "columns": _columns(shown, [*inputs, "hardware"]),
        "scenario": scenario,
        "design": design,
        "inputs": inputs,
        "filters": list(
            dict.fromkeys(["hardware", "gpus", *_precision(shown), *_shape(shown), *design, "evidence"])
        ),
        "heads": {c: head(c) for c in [*inputs, "hardware", "gpus", "evidence"]},
        "figures": [{"name": c, "title": title(c)} for c in FIGURES],
        "views": [
            view | {"x_title": title(view["x"]), "y_title": title(view["y"]), "read": _read(view)}
            for view in VIEWS
        ],
        "slo": _limits(grid),
        "styles": _styles(frontier, shown),
        "memory": MEMORY,
        "step": STEP,
        "books": [_book(name, grid.hardware) for name in book_names()],
        "folder": folder,
    }
    best = f"<h2>Cheapest deployments that meet the SLO</h2>\n{_best(frontier, grid)}"
    all_or_some = _which(shown, counts)
    body = f"{_summary(grid, counts)}\n{all_or_some}\n{source('frontier.html')}\n{best}"
    return page(f"servesweep: {shown_name(grid.name)}", body, data, ("common.js", "chart.js", "frontier.js"))


def _price(frame: pl.DataFrame, grid: Grid) -> pl.Series:
    """$/GPU-h that each row was priced with."""
    values = column_values(grid, "usd_per_gpu_hour", grid.codes_of(frame["row"].to_numpy()))
    if values.size == 1 and frame.height != 1:
        values = values.repeat(frame.height)
    return pl.Series("usd_per_gpu_hour", values, nan_to_null=True)


def _columns(frame: pl.DataFrame, inputs: list[str]) -> dict[str, Any]:
    stacks = [name for name, _, _ in (*MEMORY, *STEP)]
    names = ["row", "gpus", "meets_slo", "usd_per_gpu_hour", *inputs, *FIGURES, *BOUNDS, *stacks]
    return {name: _column(frame[name]) for name in dict.fromkeys(names)}


def _column(series: pl.Series) -> dict[str, Any]:
    """One column of the points: a constant, codes into words, or numbers with a few digits."""
    if isinstance(series.dtype, pl.Enum):
        column = {"words": series.dtype.categories.to_list(), "codes": series.to_physical().to_list()}
        return column if series.n_unique() > 1 else {"constant": series[0] if series.len() else None}
    if series.dtype == pl.String:
        return _column(series.cast(pl.Enum(series.drop_nulls().unique(maintain_order=True))))
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int8)
    elif series.dtype.is_float():
        series = series.cast(pl.Float64).fill_nan(None).round_sig_figs(SIGNIFICANT)
    if series.n_unique() == 1:
        return (
            {"constant": series[0], "values": series.to_list()}
            if series.name in PLOTTED
            else {"constant": series[0]}
        )
    return {"values": series.to_list()}


PLOTTED = frozenset(view[axis] for view in VIEWS for axis in ("x", "y"))


def _precision(frame: pl.DataFrame) -> list[str]:
    if frame["precision"].n_unique() > 1:
        return ["precision"]
    return ["linear_dtype", "expert_dtype", "kv_cache_dtype"]


def _shape(frame: pl.DataFrame) -> list[str]:
    if frame["parallelism"].n_unique() > 1:
        return ["parallelism"]
    return ["tp", "attention_dp", "pp", "moe_ep"]


def _read(view: dict[str, Any]) -> str:
    if view.get("more_is_better"):
        return "Up and to the right is better."
    return "Down and to the left is better."


def _limits(grid: Grid) -> dict[str, float | None]:
    """Limits of the SLO that all rows share."""
    limits: dict[str, float | None] = {}
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        values = column_values(grid, name, grid.codes(0, 1))
        swept = any(name in axis.columns for axis in grid.axes)
        limits[name] = None if swept or values[0] != values[0] else float(values[0])
    return limits


def _styles(frontier: pl.DataFrame, shown: pl.DataFrame) -> dict[str, dict[str, str]]:
    names = accelerators_by_merit(frontier.filter(pl.col(COST).is_not_null()))
    names += [n for n in shown["hardware"].cast(pl.String).unique(maintain_order=True) if n not in names]
    return {
        name: {"colour": colour, "symbol": SYMBOLS[marker]}
        for name, (colour, marker) in styles(names).items()
    }


def _book(name: str, accelerators: tuple[str, ...]) -> dict[str, Any]:
    facts = {a: price_of(name, a) for a in dict.fromkeys(accelerators)}
    return {
        "name": name,
        "tier": next((fact.tier for fact in facts.values()), ""),
        "usd": {a: fact.usd_per_gpu_hour for a, fact in facts.items() if fact.usd_per_gpu_hour},
    }


def _which(shown: pl.DataFrame, counts: dict[str, int]) -> str:
    feasible = counts.get("", shown.height)
    if shown.height >= feasible:
        return "<p>The page holds every feasible deployment.</p>"
    return (
        f"<p>The page holds the {shown.height:,} deployments on the cost frontiers (over TPOT and TTFT) of each accelerator; all {feasible:,} "
        "feasible ones are in <code>parts/</code>.</p>"
    )


def _summary(grid: Grid, counts: dict[str, int]) -> str:
    axes = [
        f"{head(axis.labels[0].name)}: {axis.radix}" for axis in grid.axes if axis.radix > 1 and axis.labels
    ]
    reasons = [(reason or "feasible", n) for reason, n in sorted(counts.items(), key=lambda item: -item[1])]
    rows = table(("rows", ""), [((reason, False), (f"{n:,}", True)) for reason, n in reasons])
    return (
        f"<p>{grid.n_rows:,} combinations ({html.escape(', '.join(axes)) or 'one point'})</p>"
        f"<details><summary>What became of the rows</summary>{rows}</details>"
    )


def _best(frame: pl.DataFrame, grid: Grid) -> str:
    best = best_deployments(frame, grid)
    if best.is_empty():
        return "<p>No deployment with a price meets the SLO.</p>"
    rows = [[_cell(c, v) for c, v in zip(best.columns, row, strict=True)] for row in best.iter_rows()]
    return table([head(c) for c in best.columns], rows)


def _cell(column: str, value: Any) -> tuple[str, bool]:
    return cell(column, value), column in BY_NAME or isinstance(value, (int, float))
