"""The search verb: generations evaluated in one call each, kept as the parts of a results directory, until nothing grows.

A directory of a search is that of a sweep whose parts are generations instead of blocks. A killed search is replayed
from its parts: the same seed asks for the same rows, and only those that no part holds are evaluated.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sweep.axes import Grid
from sweep.compilation import announced
from sweep.errors import UserError
from sweep.evaluate import Block
from sweep.frontier import Running, Summary
from sweep.parts import sound_parts
from sweep.progress import progress
from sweep.run import Run, arguments, carry_out, start
from sweep.search.figures import WEIGHED
from sweep.search.settings import Settings

ROWS_AT_ONCE = 4096
"""Rows of one call of the kernel: their inputs take some megabytes."""

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
Evaluate = Callable[[int, Rows], pl.DataFrame]
"""(number of the generation, its rows) -> what is weighed of those that can run."""


def main(argv: Sequence[str]) -> int:
    """`servesweep search [overrides]`."""
    from sweep.traced import composed

    overrides, config_dirs = arguments(argv)
    grid = composed(overrides, config_dirs)
    check(grid)
    carry_on(start(grid, searched=True))
    return 0


def carry_on(run: Run) -> None:
    """Search on from what the directory holds, and finish."""
    carry_out(run, search)


def check(grid: Grid) -> None:
    """Raises UserError where a search cannot be done: without its library, on a cluster, without prices."""
    try:
        import pymoo  # noqa: F401
        import threadpoolctl  # noqa: F401
    except ImportError:
        raise UserError("needs the extra: pip install 'servesweep[search]'", field="search") from None
    if grid.settings["executor.kind"] != "threads":
        raise UserError(
            "a search runs in threads of this process",
            field="executor",
            value=grid.settings["executor.kind"],
            allowed="threads",
        )
    from sweep.search.space import Space

    Space(grid)


def search(run: Run) -> tuple[Summary, dict[str, Any]]:
    """Evaluate generations until the frontiers stop growing or the evaluations are spent."""
    check(run.grid)
    job = run.job
    with announced():
        job.evaluator.summariser.summary(job.evaluator.framed(job.evaluator.scattered(np.array([0]))))
    settings = Settings.of(run.grid)
    began = time.perf_counter()
    done = sound_parts(run.folder / "parts")
    running, counted = Running(), {"evaluated": 0, "recalled": 0}
    with _pool(run) as evaluated, progress(settings.evaluations) as advance:

        def generation(index: int, rows: Rows) -> pl.DataFrame:
            frame = _recalled(done.get(index), rows)
            counted["evaluated" if frame is None else "recalled"] += rows.size
            if frame is None:
                if index in done:
                    done[index].unlink(missing_ok=True)
                block = evaluated(rows)
                running.add(job.store(index, block))
                frame = job.evaluator.feasible_frame(block, WEIGHED)
            else:
                running.add(job.evaluator.summariser.summary(frame))
            advance(rows.size)
            return frame

        told = (
            _everything(run.grid, generation)
            if settings.covers(run.grid)
            else _found(run.grid, settings, generation)
        )
    print(told.pop("told"), file=sys.stderr)
    return running.total(), {
        "evaluated_rows": counted["evaluated"],
        "seconds": round(time.perf_counter() - began, 3),
        "recalled_rows": counted["recalled"],
        "search": told,
    }


def _everything(grid: Grid, evaluate: Evaluate) -> dict[str, Any]:
    """A space that the evaluations cover is not searched but enumerated."""
    for index, begin in enumerate(range(0, grid.n_rows, ROWS_AT_ONCE)):
        evaluate(index, np.arange(begin, min(begin + ROWS_AT_ONCE, grid.n_rows), dtype=np.int64))
    return {
        "told": "every row of the space was evaluated: the frontiers are exact",
        "evaluations": grid.n_rows,
        "stopped": "all rows evaluated",
    }


def _found(grid: Grid, settings: Settings, evaluate: Evaluate) -> dict[str, Any]:
    """Search; how far it came and how sure it is."""
    from sweep.search.figures import figures_of
    from sweep.search.history import History
    from sweep.search.optimiser import Optimiser
    from sweep.search.space import Space

    space = Space(grid)
    optimiser = Optimiser(space, settings)
    history = History(settings.patience)
    stopped = "evaluations spent"
    while optimiser.seen.size < settings.evaluations:
        rows = optimiser.ask()
        if rows.size == 0:
            stopped = "no new rows"
            break
        figures = figures_of(space, evaluate(history.generations, rows), settings.within_slo)
        optimiser.tell(rows, figures)
        history.add(optimiser.seen.size, optimiser.contests)
        if history.stalled(settings.tolerance):
            stopped = "stalled"
            break
    return {
        "stopped": stopped,
        "seed": settings.seed,
        "within_slo": settings.within_slo,
        **history.summary(space.n_scenarios),
    }


@contextmanager
def _pool(run: Run) -> Iterator[Callable[[Rows], Block]]:
    """A function that evaluates rows, many of them in threads: the kernel holds no lock."""
    workers = int(run.grid.settings["executor.workers"] or os.cpu_count() or 1)
    scattered = run.job.evaluator.scattered
    with ThreadPoolExecutor(workers) as pool:

        def evaluated(rows: Rows) -> Block:
            pieces = [rows[i : i + ROWS_AT_ONCE] for i in range(0, rows.size, ROWS_AT_ONCE)]
            return Block.joined(list(pool.map(scattered, pieces)))

        yield evaluated


def _recalled(part: Path | None, rows: Rows) -> pl.DataFrame | None:
    """The rows' table from their part, where it holds all of them."""
    if part is None:
        return None
    frame = pl.read_parquet(part)
    return frame if np.array_equal(frame["row"].to_numpy(), rows) else None
