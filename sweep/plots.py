"""pareto.png: cost against latency, one row of panels per scenario, one colour per accelerator."""

from __future__ import annotations

import io

import polars as pl

from sweep.accelerator_style import COLOURS, MARKERS, OTHER, styles
from sweep.axes import Grid
from sweep.frontier import COST, FRONTIERS
from sweep.grid_columns import column_values
from sweep.results import title
from sweep.scenarios import accelerators_by_merit, scenario_columns, scenarios

MAX_SCENARIOS = 8
PANEL_INCHES = (6.2, 3.6)
LEGEND_INCHES = 2.9
MARGIN_INCHES = 0.75
LONGEST_MS = 60_000.0
"""A minute: nobody waits longer, so the axis ends there."""


def pareto_png(frame: pl.DataFrame, grid: Grid) -> bytes | None:
    """The picture of a frontier table; None where no row has both a price and an answer.

    Lines are the accelerators' own frontiers; ringed points lie on the scenario's frontier; small faint points
    miss the SLO. The dashed line is the SLO's limit.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = list(scenarios(frame.filter(pl.col(COST).is_not_null()), scenario_columns(grid)))
    if not shown:
        return None
    panels = shown[:MAX_SCENARIOS]
    style = styles(accelerators_by_merit(pl.concat([rows for _, rows in panels])))
    with plt.rc_context({"font.size": 13, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = _panels(plt, len(panels))
        for (name, rows), pair in zip(panels, axes, strict=True):
            for latency, ax in zip(FRONTIERS, pair, strict=True):
                _panel(ax, rows, latency, style)
                _slo_line(ax, grid, latency)
                _scales(ax)
                ax.set_title(name, fontsize=14, loc="left", fontweight="bold")
            pair[0].set_ylabel("$ per M tokens")
        for latency, ax in zip(FRONTIERS, axes[-1], strict=True):
            ax.set_xlabel(title(latency))
        _legend(figure, style)
        hidden = f" (first {MAX_SCENARIOS} of {len(shown)})" if len(shown) > MAX_SCENARIOS else ""
        heading = f"Cost of tokens against latency{hidden}: down and to the left is better"
        figure.suptitle(heading, fontsize=16, y=1.0 - 0.12 / figure.get_figheight(), va="top")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=100, metadata={"Software": None})
        plt.close(figure)
    return buffer.getvalue()


def _panels(plt, n: int):  # type: ignore[no-untyped-def]
    """A figure with `n` rows of two panels and room for a legend on the right; margins are the same at any `n`."""
    width, height = 2 * PANEL_INCHES[0] + LEGEND_INCHES, PANEL_INCHES[1] * n + MARGIN_INCHES
    figure, axes = plt.subplots(n, 2, figsize=(width, height), squeeze=False)
    figure.subplots_adjust(
        left=0.9 / width,
        right=1.0 - LEGEND_INCHES / width,
        top=1.0 - 0.85 / height,
        bottom=0.65 / height,
        wspace=0.13,
        hspace=0.26,
    )
    return figure, axes


def _panel(ax, rows: pl.DataFrame, latency: str, style: dict[str, tuple[str, int]]) -> None:  # type: ignore[no-untyped-def]
    """Each accelerator's own frontier, the most important on top."""
    within = rows.filter(pl.col(f"accelerator_frontier_{latency}") & (pl.col(latency) <= LONGEST_MS)).sort(
        latency
    )
    by_name = {str(name): own for (name,), own in within.group_by("hardware", maintain_order=True)}
    for name in reversed([n for n in style if n in by_name]):
        colour, marker = style[name]
        x, y, meets, best = (
            by_name[name][c].to_numpy() for c in (latency, COST, "meets_slo", f"frontier_{latency}")
        )
        if colour == OTHER:
            ax.plot(x, y, color=colour, linewidth=0.8)
            continue
        points = {"linestyle": "none", "marker": MARKERS[marker], "color": colour, "markeredgewidth": 0}
        ax.plot(x, y, color=colour, linewidth=1.6)
        ax.plot(x[~meets], y[~meets], markersize=2.5, **points)
        ax.plot(x[meets], y[meets], markersize=4.8, **points)
        ax.plot(
            x[best],
            y[best],
            "o",
            markersize=6.5,
            markerfacecolor="none",
            markeredgecolor="black",
            markeredgewidth=0.8,
            zorder=5,
        )


def _scales(ax) -> None:  # type: ignore[no-untyped-def]
    """Logarithmic axes with plain numbers at 1, 2 and 5 of each decade, or at decades where there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.grid(True, color="#DDDDDD", linewidth=0.8)
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 500.0 else (1.0,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _slo_line(ax, grid: Grid, latency: str) -> None:  # type: ignore[no-untyped-def]
    """The SLO's limit, where all rows share one."""
    if any(latency in axis.columns for axis in grid.axes):
        return
    limit = float(column_values(grid, latency, grid.codes(0, 1))[0])
    if limit == limit:
        ax.axvline(limit, color="#555555", linestyle="--", linewidth=1.2, zorder=1)
        ax.annotate(
            "SLO",
            (limit, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -12),
            textcoords="offset points",
            fontsize=11,
        )


def _legend(figure, style: dict[str, tuple[str, int]]) -> None:  # type: ignore[no-untyped-def]
    from matplotlib.lines import Line2D

    named = [(n, c, m) for n, (c, m) in style.items() if c != OTHER]
    handles = [
        Line2D([], [], color=c, marker=MARKERS[m], label=n, linewidth=2, markersize=7) for n, c, m in named
    ]
    if len(style) > len(COLOURS):
        handles.append(Line2D([], [], color=OTHER, label=f"{len(style) - len(COLOURS)} others"))
    handles.append(
        Line2D([], [], color="none", marker="o", markeredgecolor="black", markersize=9, label="frontier")
    )
    handles.append(
        Line2D([], [], color="#777777", marker="o", markersize=3, linestyle="none", label="misses the SLO")
    )
    figure.legend(handles=handles, loc="upper right", frameon=False, title="accelerator", fontsize=13)
