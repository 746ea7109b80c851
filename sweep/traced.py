"""A grid whose lengths come from a trace: the mean prompt and output of its requests, as the planner takes them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweep.axes import Grid
from sweep.errors import UserError
from sweep.fields.readers import TRACE_KEYS, keys_of
from sweep.hydra_sweeper import compose_grid
from sweep.traces.lengths import mean_lengths
from sweep.traces.reader import read

TRACE, *HOW_IT_IS_READ = TRACE_KEYS
LENGTHS = ("workload.isl", "workload.osl", "workload.length_range")
"""What a trace says instead of the command line."""


def composed(overrides: Sequence[str], config_dirs: Sequence[Path] = ()) -> Grid:
    """The grid that `overrides` describe; where they name a trace, with its mean lengths, fixed, which stderr is told.

    Raises UserError for a trace that cannot be read, several traces, and lengths that are given beside one.
    """
    grid = compose_grid(overrides, config_dirs=config_dirs)
    if any(axis.name == TRACE for axis in grid.axes):
        raise UserError("is one trace for the whole grid: run it once for each", field=TRACE)
    if grid.settings[TRACE] is None:
        return grid
    given = set(keys_of(overrides))
    both = next((key for key in LENGTHS if key in given), None)
    if both is not None:
        raise UserError(f"contradicts {TRACE}, whose requests say how long they are", field=both)
    lines = _lengths(grid)
    return compose_grid([*overrides, *lines], config_dirs=config_dirs)


def _lengths(grid: Grid) -> list[str]:
    """Overrides that set the lengths of the grid's trace."""
    columns, policy = (grid.settings[key] for key in HOW_IT_IS_READ)
    trace = read(grid.settings[TRACE], columns=columns or "", on_bad_line=policy)
    isl, osl = mean_lengths(trace.requests)
    print(
        f"{TRACE}: the mean lengths of {len(trace.requests):,} requests, {isl:,} -> {osl:,} tokens; their arrivals are for "
        "servesweep plan and simulate",
        file=sys.stderr,
    )
    for remark in trace.report.lines():
        print(f"{TRACE}: {remark}", file=sys.stderr)
    return [f"{key}={value}" for key, value in zip(LENGTHS, (isl, osl, 1.0), strict=True)]
