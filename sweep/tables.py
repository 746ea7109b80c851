"""The best deployments that meet the SLO, as the terminal and the report show them."""

from __future__ import annotations

from typing import Any

import polars as pl

from sweep.axes import Grid
from sweep.frontier import COST
from sweep.results import BY_NAME, EVIDENCE, ROW
from sweep.scenarios import design_columns, scenario_columns

FIGURES = ("gpus", COST, "ttft_ms", "tpot_ms", "output_tok_s_per_gpu", EVIDENCE.name, "row")
"""`row` names the deployment to `servesweep export`."""
HEADS = {
    COST: "$/M tok",
    "ttft_ms": "TTFT ms",
    "tpot_ms": "TPOT ms",
    "output_tok_s_per_gpu": "out tok/s/GPU",
    "gpus": "GPUs",
    "hardware": "accelerator",
    "parallelism": "shape",
    "max_num_batched_tokens": "budget",
    "concurrency": "conc.",
}
PER_SCENARIO = 3
MOST_LINES = 60
"""Of the table on a terminal: a grid may have thousands of scenarios."""


def best_deployments(frame: pl.DataFrame, grid: Grid, per_scenario: int = PER_SCENARIO) -> pl.DataFrame:
    """The cheapest accelerators of each scenario, each at its cheapest deployment that meets the SLO."""
    columns = [*scenario_columns(grid), *design_columns(grid), *FIGURES]
    return best_rows(frame, grid, per_scenario).select(columns)


def best_rows(frame: pl.DataFrame, grid: Grid, per_scenario: int = PER_SCENARIO) -> pl.DataFrame:
    """The rows of `best_deployments` with all their columns."""
    scenario = scenario_columns(grid)
    ordered = frame.filter(pl.col("cheapest_in_slo")).sort(COST, "row")
    ranked = ordered.group_by(scenario, maintain_order=True).head(per_scenario)
    return ranked.sort(*scenario, COST)


def told_instead(frame: pl.DataFrame, grid: Grid, reasons: dict[str, int]) -> str:
    """What a person reads where nothing meets the SLO: why nothing is feasible, or the fastest deployment there is."""
    known = frame.filter(pl.col("tpot_ms").is_not_null()).sort("tpot_ms", "row")
    if known.is_empty():
        most = sorted(((n, reason) for reason, n in reasons.items() if reason), reverse=True)
        if most and "" not in reasons:
            return "no row is feasible: " + "; ".join(f"{n:,} x {reason}" for n, reason in most)
        return "no feasible row has a price (price.usd_per_gpu_hour sets one)"
    row = known.row(0, named=True)
    design = ", ".join(f"{head(c)} {text(row[c])}" for c in (*scenario_columns(grid), *design_columns(grid)))
    figures = (
        f"TTFT {text(row['ttft_ms'])} ms, TPOT {text(row['tpot_ms'])} ms, ${text(row[COST])} per M tokens"
    )
    return f"no deployment with a price meets the SLO; the fastest is {design}: {figures}"


def head(column: str) -> str:
    """Head of a column in a table for people."""
    return HEADS.get(column, column)


def cell(column: str, value: Any) -> str:
    """A figure of a column as `text`; row numbers as the command line takes them."""
    return str(value) if column == ROW.name else text(value)


def text(value: Any) -> str:
    """A figure with three significant digits or thousands separators; a word as it is, yes and no as the command line takes them."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_best(frame: pl.DataFrame, grid: Grid) -> None:
    """The table on stdout."""
    from rich.console import Console
    from rich.table import Table

    best = best_deployments(frame, grid)
    if best.is_empty():
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table(
        title="Cheapest deployments that meet the SLO", title_justify="left", box=None, pad_edge=False
    )
    for column in best.columns:
        numeric = column in BY_NAME or best[column].dtype.is_numeric()
        table.add_column(
            head(column), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    previous = None
    for row in best.head(MOST_LINES).iter_rows():
        table.add_row(
            *(cell(c, v) for c, v in zip(best.columns, row, strict=True)),
            end_section=False,
            style=None if row[0] == previous else "bold",
        )
        previous = row[0]
    console.print(table)
    if best.height > MOST_LINES:
        console.print(
            f"... and {best.height - MOST_LINES:,} more in frontier.parquet: rows with cheapest_in_slo"
        )
