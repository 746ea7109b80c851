"""Frontier candidates of a sweep through the simulator: in parallel, resumable, joined to the sweep's own figures.

Each candidate is one file, written at once with its checksum in its name. A run that is killed and started again
simulates only what is missing; the table and the picture made from the files are the same.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sweep.candidates import chosen, record_of, with_neighbours
from sweep.compilation import announced
from sweep.errors import UserError
from sweep.fidelity import coefficients_of
from sweep.files import TEMPORARY, write_atomic
from sweep.frontier import COST, FRONTIERS, Points, pareto
from sweep.parquet_file import read_parquet
from sweep.parts import DIGEST_LENGTH, digest, parquet_bytes
from sweep.progress import progress
from sweep.run import FRONTIER, Run, reopen
from sweep.scenarios import scenario_columns

FOLDER = "simulated"
TABLE = "simulated.parquet"
PICTURE = "pareto_simulated.png"
COMPARED = ("ttft_ms", "tpot_ms", "e2e_ms", "output_tok_s_per_gpu", "requests_per_s")
"""Columns that both drivers compute; each gets `des_<name>` and `<name>_des_vs_closed` = des / closed - 1."""
_FILE = re.compile(r"row-(\d{12,})\.([0-9a-f]{16})\.json")

Simulate = Callable[[NDArray[np.float64], NDArray[np.float64], int], dict[str, Any]]
"""(flat input record, coefficients (N_OPS, N_COEF), seed) -> figures by name, or {"why": reason}."""


def simulate_row(
    record: NDArray[np.float64], coefficients: NDArray[np.float64], seed: int, shape: Any = None
) -> dict[str, Any]:
    """Simulate one row, traffic and fleet as `shape` says; a row that the simulator does not take says why."""
    from sweep.fields import record_dtype
    from sweep.simulate.deployment import PLAIN, simulate_deployment
    from sweep.simulate.pools import twin

    try:
        one = twin(record.view(record_dtype()), coefficients)
        return simulate_deployment(one, seed, PLAIN if shape is None else shape)
    except UserError as error:
        return {"why": error.message}


def fan_out(
    results_dir: str | Path,
    top: int,
    workers: int | None = None,
    *,
    seed: int = 0,
    simulate: Simulate | None = None,
) -> pl.DataFrame:
    """Simulate `top` frontier candidates of a results directory and their neighbours; returns and writes the joined table.

    Traffic and fleet are those of the run's settings (workload.lengths, des.instances, des.routing, ...).

    Writes simulated/row-*.json, simulated.parquet and pareto_simulated.png into the directory. Raises UserError where
    it is none.
    """
    if top < 1:
        raise UserError("must be at least 1", field="des.top", value=top)
    run = reopen(Path(results_dir))
    file = run.folder / FRONTIER
    if not file.is_file():
        raise UserError(
            f"has no {FRONTIER}: servesweep resume {run.folder}", field="results", value=run.folder
        )
    rows = with_neighbours(run.grid, chosen(read_parquet(file), top, scenario_columns(run.grid)))
    closed = run.job.evaluator.frame_of(rows).filter(pl.col("feasible") & pl.col(COST).is_not_null())
    shape = _shape(run)
    simulated = functools.partial(simulate_row, shape=shape) if simulate is None else simulate
    figures = _simulated(run, closed["row"].to_list(), workers, seed, simulated, repr(shape))
    table = _with_frontiers(joined(closed, figures), scenario_columns(run.grid))
    write_atomic(run.folder / TABLE, parquet_bytes(table))
    _draw(run, table)
    return table


def _shape(run: Run) -> Any:
    from sweep.simulate.deployment import Shape

    return Shape.of(run.grid.settings)


def _simulated(
    run: Run, rows: list[int], workers: int | None, seed: int, simulate: Simulate, shape: str
) -> dict[int, dict[str, Any]]:
    """Figures of every row: those on disk, and the missing ones simulated and put there."""

    folder = run.folder / FOLDER
    folder.mkdir(exist_ok=True)
    inputs = {row: _inputs(run, row) for row in rows}
    keys = {row: _key(*inputs[row], seed, shape) for row in rows}
    done = {row: found for row, found in sound_files(folder).items() if found["inputs"] == keys.get(row)}
    missing = [row for row in rows if row not in done]
    tasks = [(simulate, row, *inputs[row], seed) for row in missing]
    if missing:
        print(f"simulating {len(missing)} of {len(rows)} candidates", file=sys.stderr)
    with progress(len(rows), len(rows) - len(missing)) as advance:
        for row, figures in _results(tasks, workers):
            done[row] = {"row": row, "inputs": keys[row], "figures": figures}
            _write(folder, row, done[row])
            advance(1)
    return {row: done[row]["figures"] for row in rows}


def _results(tasks: list[tuple[Any, ...]], workers: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows with their figures as they come. The first is done here, so that workers find the kernels compiled.

    Workers are threads: the event loop holds no lock, and a process of its own would take longer to start than most
    simulations take.
    """
    if not tasks:
        return
    with announced():
        first = _task(*tasks[0])
    yield first
    if len(tasks) > 1:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("threading", n_jobs=min(workers or os.cpu_count() or 1, len(tasks) - 1)):
            yield from Parallel(return_as="generator_unordered", batch_size=1)(
                delayed(_task)(*task) for task in tasks[1:]
            )


def _task(
    simulate: Simulate, row: int, record: Any, coefficients: Any, seed: int
) -> tuple[int, dict[str, Any]]:
    return row, simulate(record, coefficients, seed)


def _inputs(run: Run, row: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from sweep.fields import record_dtype

    record = record_of(run.grid, row)
    fitted = run.job.evaluator.fitted
    return record, coefficients_of(fitted, record.view(record_dtype()))


def _key(record: NDArray[np.float64], coefficients: NDArray[np.float64], seed: int, shape: str) -> str:
    """What a simulation depends on, as a digest: a file made from anything else is not used."""
    made_from = hashlib.sha256(record.tobytes() + coefficients.tobytes() + seed.to_bytes(8, "little"))
    made_from.update(shape.encode())
    return made_from.hexdigest()[:DIGEST_LENGTH]


def _write(folder: Path, row: int, content: dict[str, Any]) -> None:
    """Write a candidate's file, then remove those of its row that were made from other inputs."""
    data = json.dumps(content, allow_nan=False, sort_keys=True).encode()
    written = folder / f"row-{row:012d}.{digest(data)[:DIGEST_LENGTH]}.json"
    write_atomic(written, data)
    for stale in folder.glob(f"row-{row:012d}.*.json"):
        if stale != written:
            stale.unlink(missing_ok=True)


def sound_files(folder: Path) -> dict[int, dict[str, Any]]:
    """Contents of the candidates' files whose bytes match their name, by row; damaged and half-written ones are removed."""
    found: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match and digest(data := path.read_bytes())[:DIGEST_LENGTH] == match[2]:
            found[int(match[1])] = json.loads(data)
        elif match or path.name.startswith(TEMPORARY):
            path.unlink()
    return found


def joined(closed: pl.DataFrame, figures: dict[int, dict[str, Any]]) -> pl.DataFrame:
    """The closed form's rows with the simulation beside them, and their difference as a fraction.

    A simulated row costs what its GPUs cost over the tokens that it made: closed cost x closed / simulated throughput.
    """
    rows = closed["row"].to_list()
    names = sorted({name for row in rows for name in figures[row]} - {"why"})
    columns = [
        pl.Series(f"des_{name}", [figures[row].get(name) for row in rows], dtype=pl.Float64) for name in names
    ]
    columns.append(pl.Series("des_why_not", [str(figures[row].get("why", "")) for row in rows]))
    table = closed.with_columns(columns)
    table = table.with_columns(
        (pl.col(f"des_{name}") / pl.col(name) - 1.0).alias(f"{name}_des_vs_closed")
        for name in COMPARED
        if name in names
    )
    if "output_tok_s_per_gpu" not in names:
        return table.with_columns(pl.lit(None, dtype=pl.Float64).alias(f"des_{COST}"))
    rate = pl.col("output_tok_s_per_gpu") / pl.col("des_output_tok_s_per_gpu")
    return table.with_columns((pl.col(COST) * rate).alias(f"des_{COST}"))


def _with_frontiers(table: pl.DataFrame, scenario: list[str]) -> pl.DataFrame:
    """Marks of the frontiers among the simulated rows, by the closed form and by the simulation."""
    number = {key: i for i, key in enumerate(dict.fromkeys(table.select(scenario).rows()))}
    groups = np.array([number[key] for key in table.select(scenario).rows()], dtype=np.int64)
    marks = []
    for latency in FRONTIERS:
        for prefix in ("", "des_"):
            if f"{prefix}{latency}" not in table.columns:
                continue
            x, y = (
                table[f"{prefix}{name}"].cast(pl.Float64).fill_null(np.nan).to_numpy()
                for name in (latency, COST)
            )
            known = np.isfinite(x) & np.isfinite(y)
            points = Points(table["row"].to_numpy()[known], groups[known], x[known], y[known])
            on_it = np.isin(table["row"].to_numpy(), pareto(points).row)
            marks.append(pl.Series(f"{prefix}frontier_{latency}", on_it))
    return table.with_columns(marks)


def _draw(run: Run, table: pl.DataFrame) -> None:
    from sweep.fanout_plot import picture

    drawn = picture(table, scenario_columns(run.grid))
    if drawn is not None:
        write_atomic(run.folder / PICTURE, drawn)


def differences(table: pl.DataFrame) -> list[str]:
    """One line per compared figure: how far the simulation is from the closed form, for people."""
    lines = []
    for name in COMPARED:
        column = f"{name}_des_vs_closed"
        if column in table.columns and (known := table[column].drop_nulls()).len():
            low, middle, high = (known.quantile(q, "linear") for q in (0.1, 0.5, 0.9))
            lines.append(
                f"{name}: simulation {middle:+.1%} against the closed form ({low:+.1%} to {high:+.1%})"
            )
    return lines
