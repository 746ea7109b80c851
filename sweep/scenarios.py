"""The frontier table as plots and tables show it: per scenario, the accelerators that matter first."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sweep.axes import FASTEST, Axis, Grid
from sweep.frontier import COST, FRONTIERS, SCENARIO


def shown_name(grid: str) -> str:
    """What a run is called: its preset, or plainly a sweep."""
    return "sweep" if grid == "none" else grid


def scenario_columns(grid: Grid) -> list[str]:
    """Label columns that tell scenarios apart: the model, and what else of the scenario was swept."""
    columns = ["model"]
    for axis in grid.axes:
        for label in axis.labels:
            group = label.name if label.field is None else label.field.group
            if group in SCENARIO and axis.name not in FASTEST and len(set(label.values)) > 1:
                columns.append(label.name)
    return list(dict.fromkeys(columns))


def design_columns(grid: Grid) -> list[str]:
    """Label columns of the design and its load, in the order of the axes: accelerator, precision, shape, load, and what was swept.

    A swept group shows its choices' names, not the fields that they spread to; a group of which single fields were swept
    shows those instead of its own name.
    """
    scenario = scenario_columns(grid)
    by_field = [axis for axis in grid.axes if axis.radix > 1 and "." in axis.name]
    shown = ["hardware", *(g for g in ("precision", "parallelism") if not _spread_by_hand(g, grid, by_field))]
    swept: list[str] = []
    for axis in grid.axes:
        if axis.radix > 1:
            names = [label.name for label in axis.labels if len(set(label.values)) > 1]
            swept += [n for n in names if n == axis.name or n in axis.name.split("+") or axis in by_field]
    return [c for c in dict.fromkeys([*shown, *swept, "concurrency"]) if c not in scenario]


def _spread_by_hand(group: str, grid: Grid, by_field: list[Axis]) -> bool:
    """Whether single fields of a group were swept and the group itself was not."""
    own = any(axis.name == group and axis.radix > 1 for axis in grid.axes)
    return not own and any(axis.name.startswith(f"{group}.") for axis in by_field)


def scenarios(frame: pl.DataFrame, columns: list[str]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Title and rows of each scenario, in grid order."""
    for values, rows in frame.group_by(columns, maintain_order=True):
        yield ", ".join(str(v) for v in values), rows


def accelerators_by_merit(frame: pl.DataFrame) -> list[str]:
    """Accelerators on a scenario's frontier first, then by their cheapest point relative to their scenario's."""
    if frame.is_empty():
        return []
    on_frontier = pl.any_horizontal(pl.col(f"frontier_{name}") for name in FRONTIERS)
    relative = pl.col(COST) / pl.col(COST).min().over("model")
    merit = (
        frame.filter(pl.col(COST).is_not_null())
        .with_columns(relative.alias("_relative"), on_frontier.alias("_on"))
        .group_by("hardware")
        .agg(pl.col("_on").sum(), pl.col("_relative").min())
        .sort(["_on", "_relative", "hardware"], descending=[True, False, False])
    )
    return [str(name) for name in merit["hardware"]]
