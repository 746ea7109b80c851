"""breakdown.png: what the cheapest deployments spend their steps, memory, energy and money on."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sweep.axes import Grid
from sweep.catalog.prices import book_names, price_of
from sweep.frontier import COST
from sweep.grid_columns import column_values
from sweep.png import png_bytes
from sweep.scenarios import design_columns, scenario_columns
from sweep.stacks import MEMORY, STEP
from sweep.tables import best_rows, text

COLOUR = "#0072B2"
BOOK_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288", "#000000")
MOST_BARS = 24
DPI = 80


def breakdown_png(frame: pl.DataFrame, grid: Grid) -> bytes | None:
    """Bars of the cheapest deployments that meet the SLO, per scenario; None where none does."""
    from matplotlib.figure import Figure

    rows = best_rows(frame, grid).head(MOST_BARS)
    if rows.is_empty():
        return None
    names = _names(rows, grid)
    figure = Figure(figsize=(18, 1.7 + 0.34 * rows.height), layout="constrained")
    axes = figure.subplots(1, 4, sharey=True)
    _stack(axes[0], rows, STEP, "one decode step, ms")
    _stack(axes[1], rows, MEMORY, "memory per GPU, GiB")
    axes[2].barh(range(rows.height), rows["joules_per_output_token"].to_numpy(), color=COLOUR, height=0.7)
    axes[2].set_title("facility energy, J per output token", fontsize=11, loc="left")
    _prices(axes[3], rows, grid)
    axes[0].set_yticks(range(rows.height), names)
    axes[0].invert_yaxis()
    for ax in axes:
        ax.grid(True, axis="x", color="#DDDDDD", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Cheapest deployments that meet the SLO", fontsize=13)
    return png_bytes(figure, DPI)


def _names(rows: pl.DataFrame, grid: Grid) -> list[str]:
    given, design = scenario_columns(grid), [c for c in design_columns(grid) if c != "concurrency"]
    return [
        f"{' '.join(text(row[c]) for c in given)}: {row['gpus']} x {' '.join(text(row[c]) for c in design)}"
        for row in rows.iter_rows(named=True)
    ]


def _stack(ax: Any, rows: pl.DataFrame, parts: tuple[tuple[str, str, str], ...], title: str) -> None:
    left = np.zeros(rows.height)
    for column, name, colour in parts:
        width = rows[column].cast(pl.Float64).fill_null(0.0).to_numpy()
        if width.any():
            ax.barh(range(rows.height), width, left=left, color=colour, label=name, height=0.7)
            left = left + width
    ax.set_title(title, fontsize=11, loc="left")
    ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)


def _prices(ax: Any, rows: pl.DataFrame, grid: Grid) -> None:
    """Cost at the prices of every book, a marker each."""
    paid = column_values(grid, "usd_per_gpu_hour", grid.codes_of(rows["row"].to_numpy()))
    per_dollar = rows[COST].cast(pl.Float64).to_numpy() / paid
    for book, colour in zip(book_names(), BOOK_COLOURS, strict=False):
        usd = [price_of(book, str(name)).usd_per_gpu_hour or np.nan for name in rows["hardware"]]
        if np.isfinite(usd).any():
            ax.plot(per_dollar * np.array(usd), range(rows.height), "o", color=colour, label=book, alpha=0.85)
    ax.set_xscale("log")
    ax.set_title("$ per M tokens, by price book", fontsize=11, loc="left")
    ax.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)
