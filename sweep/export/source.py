"""Which deployment: a row of a results directory, Hydra overrides, or the flags of `servesweep estimate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.errors import UserError
from sweep.fields import record_dtype
from sweep.fields.inert import notes
from sweep.fields.readers import unread


@dataclass(frozen=True)
class Chosen:
    """The kernel's record of one deployment (shape (1,)), its model and its accelerator by name."""

    record: npt.NDArray[Any]
    model: str
    hardware: str
    notes: tuple[str, ...] = ()


def chosen(arguments: Sequence[str], row: int | None) -> Chosen:
    """The deployment that the arguments name. Raises UserError where that is none, or more than one."""
    if arguments and "=" not in arguments[0] and not arguments[0].startswith("-"):
        if len(arguments) > 1:
            raise UserError("a results directory stands alone; --row N picks its row", field=arguments[1])
        return of_results(Path(arguments[0]), row)
    if any(argument.startswith("--") for argument in arguments):
        return of_flags(arguments)
    return of_overrides(arguments, row)


def of_results(folder: Path, row: int | None) -> Chosen:
    """A row of a results directory; without `row` the cheapest that meets the SLO."""
    import polars as pl

    from sweep.frontier import COST
    from sweep.parquet_file import read_parquet
    from sweep.run import FRONTIER, reopen

    grid = reopen(folder).grid
    if row is not None:
        return of_row(grid, row)
    file = folder / FRONTIER
    if not file.is_file():
        raise UserError("the run is not finished; --row N picks any row", field="DIR", value=folder)
    best = read_parquet(file).filter(pl.col("cheapest_in_slo")).sort(COST, "row")
    if best.is_empty():
        raise UserError(
            "no row with a price meets the SLO; --row N picks any row", field="export", value=folder
        )
    models = best["model"].cast(pl.String).unique(maintain_order=True).to_list()
    others = [
        f"{name} {best.filter(pl.col('model').cast(pl.String) == name)['row'][0]}" for name in models[1:]
    ]
    found = of_row(grid, int(best["row"][0]))
    notes: tuple[str, ...] = (f"row {best['row'][0]}, the cheapest that meets the SLO",)
    if others:
        notes += (f"the cheapest of the other models are rows: {', '.join(others)} (--row N)",)
    return Chosen(found.record, found.model, found.hardware, notes)


def of_row(grid: Any, row: int) -> Chosen:
    """One row of a grid. Raises UserError for a number outside it."""
    if not 0 <= row < grid.n_rows:
        raise UserError("is no row of this run", field="--row", value=row, allowed=f"0 to {grid.n_rows - 1}")
    record = np.zeros(1, record_dtype())
    flat = record.view(np.float64)
    flat[:] = grid.base
    names: dict[str, Any] = {}
    index = {name: i for i, name in enumerate(record_dtype().names or ())}
    for axis, codes in zip(grid.axes, grid.codes(row, row + 1), strict=True):
        code = int(codes[0])
        for column, value in zip(axis.columns, axis.table[code], strict=True):
            flat[index[column]] = value
        names |= {label.name: label.values[code] for label in axis.labels}
    return Chosen(record, str(names["model"]), str(names["hardware"]))


def of_overrides(overrides: Sequence[str], row: int | None) -> Chosen:
    """The deployment of Hydra overrides. Raises UserError where they describe several."""
    from sweep.hydra_sweeper import compose_grid

    grid = compose_grid([*overrides, *([] if _names_grid(overrides) else ["grid=none"])])
    if grid.n_rows > 1 and row is None:
        raise UserError(
            f"these overrides describe {grid.n_rows:,} deployments; --row N picks one", field="export"
        )
    found = of_row(grid, row or 0)
    return replace(found, notes=tuple(notes(unread(grid.given, "export"))))


def _names_grid(overrides: Sequence[str]) -> bool:
    return any(override.startswith("grid=") for override in overrides)


ENGINE_DECIDES = ("engine.max_num_batched_tokens", "engine.block_size")
"""Where `estimate` has its own default (unlimited, contiguous) that no engine has; the engine's default holds here."""


def of_flags(arguments: Sequence[str]) -> Chosen:
    """The deployment of the flags of `servesweep estimate`."""
    from sweep.catalog.hardware import resolve_hardware
    from sweep.catalog.models import resolve_model
    from sweep.estimation.arguments import parse
    from sweep.estimation.price import input_record
    from sweep.verbs.estimate import gathered

    _, givens = parse(arguments)
    asked = gathered(givens)
    by_engine = {k: v for k, v in asked.values.items() if k in asked.by_hand or k not in ENGINE_DECIDES}
    asked = replace(asked, values=by_engine)
    record, _ = input_record(asked, resolve_model(asked.model), resolve_hardware(asked.hardware))
    told = notes(unread(asked.by_hand, "export"))
    return Chosen(record, asked.model, asked.hardware, (*asked.notes, *told))
