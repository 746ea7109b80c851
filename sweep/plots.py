"""Pictures of a frontier table: one row of panels per scenario, one colour per accelerator.

pareto.png is cost against latency, throughput.png tokens/s/GPU against tokens/s/user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.accelerator_style import COLOURS, MARKERS, OTHER, styles
from sweep.axes import Grid
from sweep.frontier import COST, FRONTIERS
from sweep.grid_columns import column_values
from sweep.png import png_bytes
from sweep.results import title
from sweep.scenarios import accelerators_by_merit, scenario_columns, scenarios

MAX_SCENARIOS = 8
MOST_INTERVALS = 12
"""Interval bars of a panel: more would run into each other."""
PANEL_INCHES = (6.2, 3.5)
LEGEND_INCHES = 2.9
MARGIN_INCHES = 0.75
LEFT_INCHES = 1.1
DPI = 80
LONGEST_MS = 60_000.0
"""A minute: nobody waits longer, so the axis ends there."""


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two figures to plot. `latency` has the interval and the SLO's limit of the x axis, in ms or, `inverse`, as 1000 / ms."""

    x: str
    y: str
    latency: str
    inverse: bool = False
    more_is_better: bool = False

    def on_axis(self, milliseconds: Floats) -> Floats:
        return 1e3 / milliseconds if self.inverse else milliseconds

    def frontier(self, x: Floats, y: Floats) -> npt.NDArray[np.int64]:
        """Indices of the points that no other beats on both, the best x first."""
        sign = -1.0 if self.more_is_better else 1.0
        order = np.lexsort((sign * y, sign * x))
        before = np.concatenate([[np.inf], np.minimum.accumulate(sign * y[order])[:-1]])
        kept: npt.NDArray[np.int64] = order[sign * y[order] < before]
        return kept


COST_PAIRS = tuple(Pair(latency, COST, latency) for latency in FRONTIERS)
RATE_PAIRS = (Pair("tok_s_per_user", "output_tok_s_per_gpu", "tpot_ms", inverse=True, more_is_better=True),)


def pareto_png(frame: pl.DataFrame, grid: Grid) -> bytes | None:
    """Cost against TPOT and TTFT; None where no row has both a price and an answer."""
    heading = "Cost of tokens against latency: down and to the left is better"
    return picture(frame.filter(pl.col(COST).is_not_null()), grid, COST_PAIRS, heading)


def throughput_png(frame: pl.DataFrame, grid: Grid) -> bytes | None:
    """Output tokens/s/GPU against tokens/s/user, with or without a price; None where no row has an answer."""
    heading = "Throughput against interactivity: up and to the right is better"
    return picture(frame.filter(pl.col("feasible")), grid, RATE_PAIRS, heading)


def picture(frame: pl.DataFrame, grid: Grid, pairs: tuple[Pair, ...], heading: str) -> bytes | None:
    """Lines are the accelerators' own frontiers; ringed points lie on the scenario's, with the interval of their estimate
    (p10 to p90); small points miss the SLO. The dashed line is the SLO's limit.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = list(scenarios(frame, scenario_columns(grid)))
    if not shown:
        return None
    panels = shown[:MAX_SCENARIOS]
    style = styles(accelerators_by_merit(pl.concat([rows for _, rows in panels])))
    with plt.rc_context({"font.size": 13, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = _panels(plt, len(panels), len(pairs))
        for (name, rows), own in zip(panels, axes, strict=True):
            for pair, ax in zip(pairs, own, strict=True):
                _panel(ax, rows, pair, style)
                _slo_line(ax, grid, pair)
                scales(ax)
                ax.set_title(name, fontsize=14, loc="left", fontweight="bold")
            own[0].set_ylabel(title(pairs[0].y))
        for pair, ax in zip(pairs, axes[-1], strict=True):
            ax.set_xlabel(title(pair.x))
        _legend(figure, style)
        hidden = f" (first {MAX_SCENARIOS} of {len(shown)})" if len(shown) > MAX_SCENARIOS else ""
        top, left = 1.0 - 0.12 / figure.get_figheight(), LEFT_INCHES / figure.get_figwidth()
        figure.suptitle(
            heading + hidden, fontsize=15 if len(pairs) > 1 else 12.5, x=left, y=top, va="top", ha="left"
        )
        content = png_bytes(figure, DPI)
        plt.close(figure)
    return content


def _panels(plt: Any, n: int, columns: int) -> tuple[Any, Any]:
    """A figure with `n` rows of panels and room for a legend on the right; margins are the same at any `n`."""
    width, height = columns * PANEL_INCHES[0] + LEGEND_INCHES, PANEL_INCHES[1] * n + MARGIN_INCHES
    figure, axes = plt.subplots(n, columns, figsize=(width, height), squeeze=False)
    figure.subplots_adjust(
        left=LEFT_INCHES / width,
        right=1.0 - LEGEND_INCHES / width,
        top=1.0 - 0.85 / height,
        bottom=0.65 / height,
        wspace=0.13,
        hspace=0.26,
    )
    return figure, axes


def _panel(ax: Any, rows: pl.DataFrame, pair: Pair, style: dict[str, tuple[str, int]]) -> None:
    """Each accelerator's own frontier, the most important on top, and the frontier of all."""
    rows = rows.filter(pl.col(pair.latency) <= LONGEST_MS)
    by_name = {str(name): own for (name,), own in rows.group_by("hardware", maintain_order=True)}
    for name in reversed([n for n in style if n in by_name]):
        colour, marker = style[name]
        x, y = _figures(by_name[name], pair)
        own = pair.frontier(x, y)
        x, y, meets = x[own], y[own], by_name[name]["meets_slo"].to_numpy()[own]
        if colour == OTHER:
            ax.plot(x, y, color=colour, linewidth=0.8)
            continue
        points = {"linestyle": "none", "marker": MARKERS[marker], "color": colour, "markeredgewidth": 0}
        ax.plot(x, y, color=colour, linewidth=1.6)
        ax.plot(x[~meets], y[~meets], markersize=2.5, **points)
        ax.plot(x[meets], y[meets], markersize=4.8, **points)
    _frontier_of_all(ax, rows, pair)


def _frontier_of_all(ax: Any, rows: pl.DataFrame, pair: Pair) -> None:
    """Rings, and the interval of each ringed estimate."""
    x, y = _figures(rows, pair)
    best = pair.frontier(x, y)
    low, high = (rows[f"{pair.latency}_{q}"].cast(pl.Float64).to_numpy()[best] for q in ("p10", "p90"))
    ends = np.sort(np.stack([pair.on_axis(low), pair.on_axis(high)]), axis=0)
    some = _spread(np.log(y[best]), MOST_INTERVALS)
    ax.hlines(y[best][some], ends[0, some], ends[1, some], color="black", alpha=0.5, linewidth=1.0, zorder=4)
    rings = {"markerfacecolor": "none", "markeredgecolor": "black", "markeredgewidth": 0.8, "zorder": 5}
    ax.plot(x[best], y[best], "o", markersize=6.5, **rings)


def _spread(heights: Floats, most: int) -> list[int]:
    """Indices of points far enough apart that their bars can be told apart, `most` over the whole height."""
    apart = (heights.max() - heights.min()) / most if heights.size else 0.0
    kept: list[int] = []
    for i, height in enumerate(heights):
        if not kept or abs(height - heights[kept[-1]]) >= apart:
            kept.append(i)
    return kept


def _figures(rows: pl.DataFrame, pair: Pair) -> tuple[Floats, Floats]:
    x, y = (rows[column].cast(pl.Float64).to_numpy() for column in (pair.x, pair.y))
    return x, y


def scales(ax: Any) -> None:
    """Logarithmic axes with plain numbers: at every digit of a narrow range, at 1, 2 and 5 of a few decades, at many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.grid(True, color="#DDDDDD", linewidth=0.8)
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        digits = range(1, 10) if high / low < 8.0 else (1, 2, 5) if high / low < 500.0 else (1,)
        axis.set_major_locator(LogLocator(subs=[float(digit) for digit in digits]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def _slo_line(ax: Any, grid: Grid, pair: Pair) -> None:
    """The SLO's limit, where all rows share one."""
    if any(pair.latency in axis.columns for axis in grid.axes):
        return
    limit = float(pair.on_axis(column_values(grid, pair.latency, grid.codes(0, 1)))[0])
    if limit == limit:
        ax.axvline(limit, color="#555555", linestyle="--", linewidth=1.2, zorder=1)
        ax.annotate(
            "SLO",
            (limit, 0.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 4),
            textcoords="offset points",
            fontsize=11,
        )


def _legend(figure: Any, style: dict[str, tuple[str, int]]) -> None:
    from matplotlib.lines import Line2D

    named = [(n, c, m) for n, (c, m) in style.items() if c != OTHER]
    handles = [
        Line2D([], [], color=c, marker=MARKERS[m], label=n, linewidth=2, markersize=7) for n, c, m in named
    ]
    if len(style) > len(COLOURS):
        handles.append(Line2D([], [], color=OTHER, label=f"{len(style) - len(COLOURS)} others"))
    handles.append(
        Line2D(
            [],
            [],
            color="none",
            marker="o",
            markeredgecolor="black",
            markersize=9,
            label="frontier, p10 to p90",
        )
    )
    handles.append(
        Line2D([], [], color="#777777", marker="o", markersize=3, linestyle="none", label="misses the SLO")
    )
    figure.legend(handles=handles, loc="upper right", frameon=False, title="accelerator", fontsize=13)
