"""The program as Python functions for notebooks and scripts; each returns a polars frame.

    from sweep import sweep, estimate, simulate, plan, frontier

Overrides are the command line's, as strings or as mappings from key to a value or a list of values:
`sweep("model=llama_3_1_8b", {"parallelism.tp": [1, 2, 4], "hardware": ["h100_sxm", "h200_sxm"]})`. Every function raises
`sweep.errors.UserError` for an input that is wrong; `plan` raises `sweep.errors.NoAnswer` where no fleet will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

Overrides = str | Mapping[str, Any]


def sweep(*overrides: Overrides, max_rows: int = 5_000_000) -> pl.DataFrame:
    """Evaluate one deployment or a whole grid in memory: one row per combination, columns as `sweep.results` says.

    The frame is that of `servesweep sweep` (parts/*.parquet) without the results directory. Raises UserError, for a grid
    of more than `max_rows` rows too: that is a run for the command line, whose memory stays flat.
    """
    from sweep.anchors.grid import grid_anchors
    from sweep.coefficients import coefficients
    from sweep.errors import UserError
    from sweep.evaluate import Evaluator
    from sweep.fidelity import base_of
    from sweep.traced import composed

    grid = composed(lines(overrides))
    if grid.n_rows > max_rows:
        raise UserError(f"{grid.n_rows:,} rows; max_rows is {max_rows:,}", field="sweep")
    fitted = coefficients(grid.hardware, base_of(str(grid.settings["fidelity.level"])))
    return Evaluator(grid, fitted, grid_anchors(grid, fitted)).frame(0, grid.n_rows)


def frontier(
    frame: pl.DataFrame,
    *,
    latency: str = "tpot_ms",
    cost: str = "usd_per_m_total",
    by: Sequence[str] = ("model",),
) -> pl.DataFrame:
    """Rows of a result frame that no other row of the same `by` beats in both `latency` and `cost`, cheapest first.

    Rows without either figure (infeasible, no price) are never on a frontier; of equal rows the first stays.
    """
    known = frame.filter(pl.col(latency).is_not_null() & pl.col(cost).is_not_null())
    ordered = known.sort(*by, cost, latency, maintain_order=True)
    if not by:
        best_before = pl.col(latency).cum_min().shift(1)
        return ordered.filter(best_before.is_null() | (pl.col(latency) < best_before))
    best_before = pl.col(latency).cum_min().shift(1).over(list(by))
    return ordered.filter(best_before.is_null() | (pl.col(latency) < best_before))


def estimate(
    deployments: pl.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    fidelity: str = "fitted",
    anchors: str | Path | None = None,
) -> pl.DataFrame:
    """Estimate deployments given as rows: a frame, one mapping or several, with the columns of `servesweep points`.

    `estimate({"model": "llama_3_1_8b", "hardware": "h100_sxm", "tp": 1, "isl": 1024, "osl": 256, "concurrency": 32})`.
    A row that is wrong gets the status `invalid` and its reason; the others are priced. `anchors` is a store of measured
    points, or a benchmark's result file, that scales what it says something about.
    """
    from sweep.anchors.points import point_anchors
    from sweep.points import price_points

    if isinstance(deployments, pl.DataFrame):
        frame = deployments
    else:
        rows = [deployments] if isinstance(deployments, Mapping) else list(deployments)
        frame = pl.DataFrame(rows, infer_schema_length=None)
    measured = None if anchors is None else point_anchors(Path(anchors), fidelity)
    return price_points(frame, fidelity, measured)


def plan(*overrides: Overrides) -> pl.DataFrame:
    """The short list of fleets for a demand, best first, as `servesweep plan` prints it.

    `plan("model=llama_3_3_70b", {"demand.request_rate": 50, "slo.tpot_ms": 40})`. Raises NoAnswer.
    """
    from sweep.planner.question import question
    from sweep.planner.run import planned

    return planned(question(lines(overrides))).frame()


def simulate(*overrides: Overrides) -> pl.DataFrame:
    """Simulate one deployment under its workload: a row per request, times in ns, as `servesweep simulate` writes them.

    `simulate("model=llama_3_1_8b", "hardware=h100_sxm", "workload.load=rate", "workload.request_rate=5")`.
    """
    from sweep.hydra_sweeper import compose_grid
    from sweep.planner.question import of_grid
    from sweep.planner.simulated import requests_frame

    return requests_frame(of_grid(compose_grid(lines(overrides))))


def lines(overrides: Sequence[Overrides]) -> list[str]:
    """Overrides as the command line would have them."""
    found: list[str] = []
    for one in overrides:
        if isinstance(one, str):
            found.append(one)
        else:
            found += [f"{key}={_value(value)}" for key, value in one.items()]
    return found


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple, range)):
        return ",".join(_value(item) for item in value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
