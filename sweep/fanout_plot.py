"""pareto_simulated.png: the frontier by the closed form and by the simulation, candidate by candidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sweep.accelerator_style import MARKERS, styles
from sweep.frontier import COST, FRONTIERS
from sweep.plots import scales
from sweep.png import png_bytes
from sweep.results import title
from sweep.scenarios import scenarios

MOST_PANELS = 8


def picture(table: pl.DataFrame, scenario: list[str]) -> bytes | None:
    """The picture of a fan-out's table; None where nothing was simulated.

    Open markers are the closed form, filled ones the simulation, a thin line joins the two; lines are the frontiers.
    """
    needed = [f"des_{COST}", *(f"des_{latency}" for latency in FRONTIERS)]
    if not set(needed) <= set(table.columns):
        return None
    known = table.filter(pl.all_horizontal(pl.col(needed).is_not_null()))
    panels = list(scenarios(known, scenario))[:MOST_PANELS]
    if not panels:
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    style = styles(list(dict.fromkeys(_accelerators(known))))
    figure = Figure(figsize=(12.5, 4.2 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 2, squeeze=False)
    for (name, rows), pair in zip(panels, axes, strict=True):
        for latency, axis in zip(FRONTIERS, pair, strict=True):
            _panel(axis, rows, latency, style)
            axis.set_title(name, loc="left", fontsize=11)
    figure.suptitle(
        "Cost against latency: closed form (open, dashed) and simulation (filled, solid)", fontsize=13
    )
    return png_bytes(figure, 100)


def _panel(axis: Any, rows: pl.DataFrame, latency: str, style: dict[str, tuple[str, int]]) -> None:
    closed = rows[latency].to_numpy(), rows[COST].to_numpy()
    simulated = rows[f"des_{latency}"].to_numpy(), rows[f"des_{COST}"].to_numpy()
    axis.plot(
        np.array([closed[0], simulated[0]]),
        np.array([closed[1], simulated[1]]),
        color="#b9b9b9",
        linewidth=0.8,
    )
    machine = _accelerators(rows)
    for name in dict.fromkeys(machine):
        mask = np.array([one == name for one in machine])
        colour, marker = style[name][0], MARKERS[style[name][1]]
        axis.scatter(
            closed[0][mask], closed[1][mask], s=26, facecolors="none", edgecolors=colour, marker=marker
        )
        axis.scatter(
            simulated[0][mask], simulated[1][mask], s=26, color=colour, marker=marker, label=name or None
        )
    for prefix, line in (("", "--"), ("des_", "-")):
        on_it = rows.filter(pl.col(f"{prefix}frontier_{latency}")).sort(f"{prefix}{latency}")
        axis.plot(on_it[f"{prefix}{latency}"], on_it[f"{prefix}{COST}"], line, color="#333333", linewidth=1.0)
    axis.set(xlabel=title(latency), ylabel=title(COST))
    scales(axis)
    axis.legend(fontsize=8, frameon=False)


def _accelerators(rows: pl.DataFrame) -> list[str]:
    return rows["hardware"].cast(pl.String).to_list() if "hardware" in rows.columns else [""] * rows.height
