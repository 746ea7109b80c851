"""The frontier table as plots and tables show it: per scenario, the accelerators that matter first."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sweep.axes import FASTEST, Grid
from sweep.frontier import COST, FRONTIERS, SCENARIO


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
    """Label columns of the design and its load that were swept, in the order of the axes."""
    scenario = scenario_columns(grid)
    shown = ["hardware", "precision", "parallelism", "concurrency"]
    swept = [x.name for axis in grid.axes for x in axis.labels if len(set(x.values)) > 1]
    spread = {
        "linear_dtype",
        "expert_dtype",
        "kv_cache_dtype",
        "tp",
        "attention_dp",
        "pp",
        "moe_tp",
        "moe_ep",
        "isl",
        "osl",
    }
    groups = {axis.name for axis in grid.axes if axis.radix > 1}
    if not {"precision", "parallelism"} & groups:
        spread = set()
    return [
        c for c in dict.fromkeys([*shown[:3], *swept, "concurrency"]) if c not in scenario and c not in spread
    ]


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
