"""The sweep verb: compose, evaluate block by block, and leave one results directory that can be resumed."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sweep.anchors.grid import grid_anchors
from sweep.axes import Grid
from sweep.coefficients import coefficients
from sweep.compilation import announced
from sweep.errors import UserError
from sweep.evaluate import BEST_ONLY, BlockJob, Evaluator, run_blocks
from sweep.fidelity import base_of
from sweep.fields import by_key
from sweep.fields.inert import inert, notes
from sweep.fields.readers import TRACE_KEYS
from sweep.files import check_folder, write_atomic
from sweep.frontier import FRONTIERS, Running, Summary, ranks
from sweep.manifest import FILE as MANIFEST
from sweep.manifest import manifest
from sweep.parts import parquet_bytes, sound_parts
from sweep.progress import progress
from sweep.saved import FILE as CONFIG
from sweep.saved import dumped, loaded
from sweep.scenarios import shown_name
from sweep.tables import print_best, told_instead

PARTS = "parts"
FRONTIER = "frontier.parquet"
TOP = "top.parquet"


@dataclass(frozen=True)
class Run:
    """One results directory and the grid whose results it holds."""

    folder: Path
    grid: Grid
    block_rows: int
    searched: bool = False
    """Whether the parts are the generations of a search instead of all rows in blocks."""

    @cached_property
    def job(self) -> BlockJob:
        fitted = coefficients(self.grid.hardware, base_of(str(self.grid.settings["fidelity.level"])))
        keep = str(self.grid.settings["output.keep"])
        evaluator = Evaluator(self.grid, fitted, grid_anchors(self.grid, fitted))
        return BlockJob(evaluator, self.block_rows, keep, self.folder / PARTS)

    @cached_property
    def inert(self) -> dict[str, str]:
        """Inputs that can change no result of this grid, and what they would need; of run settings those given."""
        keys = dict.fromkeys([*by_key(), *self.grid.given])
        verb = "search" if self.searched else "sweep"
        found = inert(self.grid.possible(), keys, verb=verb, read=(*self.simulated, *TRACE_KEYS))
        if self.grid.settings.get(TRACE_KEYS[0]):
            return found
        return found | dict.fromkeys(TRACE_KEYS[1:], TRACE_KEYS[0])

    @cached_property
    def simulated(self) -> tuple[str, ...]:
        """Inputs beside the record that the candidates' simulations read."""
        if not self.grid.settings.get("des.top"):
            return ()
        from sweep.simulate.deployment import Shape

        return tuple(Shape.keys().values())

    @property
    def coefficients_digest(self) -> str:
        """Of everything that prices rows: coefficients, and measured points where there are any."""
        evaluator = self.job.evaluator
        digest = hashlib.sha256(np.ascontiguousarray(evaluator.fitted).tobytes())
        if evaluator.anchors is not None:
            digest.update(evaluator.anchors.digest.encode())
        return digest.hexdigest()


Work = Callable[[Run], tuple[Summary, dict[str, Any]]]
"""Evaluates rows of a run; returns their summary and figures for the manifest."""


def main(argv: Sequence[str]) -> int:
    """`servesweep [sweep] [-m] [overrides]`."""
    from sweep.traced import composed

    overrides, config_dirs = arguments(argv)
    carry_out(start(composed(overrides, config_dirs)))
    return 0


def resume(path: str | Path) -> int:
    """`servesweep resume DIR`: evaluates only the blocks that are missing or damaged."""
    carry_out(reopen(Path(path)))
    return 0


def carry_out(run: Run, work: Work | None = None) -> None:
    """Do the `work` (by default, evaluate what is missing) and finish; where that is cut short, say how to go on."""
    try:
        finish(run, *(work or evaluate)(run))
    except OSError as error:
        message = f"cannot be written: {error.strerror}; servesweep resume {run.folder} continues"
        raise UserError(message, field="output.dir", value=run.folder) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"servesweep resume {run.folder} continues") from None


def arguments(argv: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Overrides, and folders of `--config-dir`. `-m` changes nothing: a sweep is a sweep with or without it."""
    overrides: list[str] = []
    config_dirs: list[Path] = []
    rest = iter(argv)
    for argument in rest:
        if argument in ("-m", "--multirun"):
            continue
        if argument == "--config-dir" or argument.startswith("--config-dir="):
            value = argument.partition("=")[2] or next(rest, "")
            if not value:
                raise UserError("which folder?", field="--config-dir")
            config_dirs.append(Path(value))
        elif argument.startswith("-"):
            raise UserError(
                f"unknown option {argument}", allowed="-m, --config-dir DIR, group=choice, key=value"
            )
        else:
            overrides.append(argument)
    return overrides, config_dirs


def start(grid: Grid, *, searched: bool = False) -> Run:
    """A new results directory with the run's configuration in it."""
    given = grid.settings["output.dir"]
    folder = Path(given) if given else _new_folder(grid.name, searched)
    if (folder / CONFIG).exists():
        raise UserError(f"holds a run already: servesweep resume {folder}", field="output.dir", value=given)
    check_folder(folder, "output.dir", (PARTS,))
    run = Run(folder, grid, int(grid.settings["executor.block_rows"]), searched)
    _refuse_what_simulations_cannot(grid.settings)
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
        extra = {"block_rows": run.block_rows, "coefficients_sha256": run.coefficients_digest}
        extra |= {"searched": True} if searched else {}
        write_atomic(folder / CONFIG, dumped(grid, extra))
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", field="output.dir", value=folder) from None
    return run


def _refuse_what_simulations_cannot(settings: dict[str, Any]) -> None:
    """Raises UserError, before anything is evaluated, for traffic that candidates cannot be given."""
    if settings.get("des.top"):
        from sweep.simulate.deployment import Shape

        Shape.of(settings)


def _new_folder(name: str, searched: bool) -> Path:
    stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{shown_name(name)}{'-search' if searched else ''}"
    candidates = (Path("results") / f"{stem}{suffix}" for suffix in ("", *(f"-{i}" for i in range(2, 1000))))
    return next(folder for folder in candidates if not folder.exists())


def reopen(folder: Path) -> Run:
    """The run whose configuration a results directory holds."""
    file = folder / CONFIG
    if not file.is_file():
        raise UserError("is not a results directory: it has no config.yaml", field="DIR", value=folder)
    grid, document = loaded(file.read_bytes(), str(file))
    (folder / PARTS).mkdir(exist_ok=True)
    run = Run(folder, grid, int(document["block_rows"]), bool(document.get("searched")))
    if run.coefficients_digest != document.get("coefficients_sha256"):
        raise UserError("was priced with other coefficients than this installation has", file=str(file))
    return run


def evaluate(run: Run) -> tuple[Summary, dict[str, Any]]:
    """Evaluate the blocks that are not on disk; the summary of all rows and figures of the run."""
    job = run.job
    done = sound_parts(run.folder / PARTS)
    missing = [] if run.searched else [i for i in range(job.n_blocks) if i not in done]
    with announced():
        job.evaluator.summariser.summary(job.evaluator.frame_of(np.array([0])))
    began = time.perf_counter()
    running = Running()
    for path in done.values():
        running.add(job.recall(path))
    rows = sum(stop - begin for begin, stop in map(job.rows_of, missing))
    with (
        progress(run.grid.n_rows, run.grid.n_rows - rows) as advance,
        closing(run_blocks(job, missing, run.grid.settings)) as blocks,
    ):
        for index, block in blocks:
            running.add(block)
            begin, stop = job.rows_of(index)
            advance(stop - begin)
    seconds = time.perf_counter() - began
    return running.total(), {
        "evaluated_rows": rows,
        "seconds": round(seconds, 3),
        "resumed_blocks": len(done),
    }


def frontier_frame(run: Run, summary: Summary) -> pl.DataFrame:
    """Rows on any frontier or cheapest for an accelerator, in row order, with a mark for each of those."""
    marks = {f"accelerator_frontier_{name}": p for name, p in zip(FRONTIERS, summary.frontiers, strict=True)}
    overall = map(run.job.evaluator.summariser.overall, summary.frontiers)
    marks |= {f"frontier_{name}": p for name, p in zip(FRONTIERS, overall, strict=True)}
    marks["cheapest_in_slo"] = summary.best
    rows = np.unique(np.concatenate([p.row for p in marks.values()]))
    frame = run.job.evaluator.frame_of(rows)
    return frame.with_columns(pl.Series(mark, np.isin(rows, points.row)) for mark, points in marks.items())


def top_frame(run: Run, summary: Summary) -> pl.DataFrame:
    """The cheapest rows that meet the SLO, in row order, with their place among those of scenario and accelerator."""
    frame = run.job.evaluator.frame_of(summary.top.row)
    return frame.with_columns(pl.Series("top_rank", ranks(summary.top) + 1))


def finish(run: Run, summary: Summary, figures: dict[str, Any]) -> None:
    """Write what a run leaves beside its parts, and tell the person; the last line names the directory."""
    frame = frontier_frame(run, summary)
    write_atomic(run.folder / FRONTIER, parquet_bytes(frame))
    if summary.n_top:
        write_atomic(run.folder / TOP, parquet_bytes(top_frame(run, summary)))
    parts = sound_parts(run.folder / PARTS)
    write_atomic(run.folder / MANIFEST, manifest(run.grid, summary, parts, run.inert, figures))
    if run.grid.settings["output.report"]:
        _draw(run, summary, frame)
    print_best(frame, run.grid)
    _tell_without_answer(run, summary, frame)
    for line in notes({key: run.inert[key] for key in run.grid.given if key in run.inert}):
        print(f"note: {line}", file=sys.stderr)
    if run.job.evaluator.anchors is not None:
        print(run.job.evaluator.anchors.told, file=sys.stderr)
    print(_counted(run, summary, figures), file=sys.stderr)
    _simulate(run)
    print(run.folder)


def _tell_without_answer(run: Run, summary: Summary, frame: pl.DataFrame) -> None:
    """Why no deployment is the answer, on stderr; nothing where one is."""
    if not summary.best.row.size:
        print(told_instead(frame, run.grid, summary.reasons), file=sys.stderr)


def _counted(run: Run, summary: Summary, figures: dict[str, Any]) -> str:
    """Rows by what became of them, and how fast that was."""
    evaluated, seconds = figures["evaluated_rows"], figures["seconds"]
    counts = (
        f"{summary.reasons.get('', 0):,} feasible, {summary.priced:,} with a price,"
        f" {summary.meets_slo:,} meet the SLO"
    )
    if run.searched:
        return f"{run.grid.n_rows:,} rows in the space, {sum(summary.reasons.values()):,} of them evaluated: {counts}"
    rate = f"{evaluated:,} evaluated in {seconds:.1f} s ({evaluated / max(seconds, 1e-9):,.0f} rows/s)"
    return f"{run.grid.n_rows:,} rows, {counts}; {rate}"


def _simulate(run: Run) -> None:
    """`des.top` candidates of the frontier through the simulator."""
    top = int(run.grid.settings.get("des.top") or 0)
    if top > 0:
        from sweep.fanout import differences, fan_out

        for line in differences(fan_out(run.folder, top, run.grid.settings["executor.workers"])):
            print(line, file=sys.stderr)


def redraw(folder: Path) -> list[Path]:
    """Draw the pictures and the report of a finished run again, those that a run leaves out included; the files written."""
    from sweep.breakdown_plot import breakdown_png
    from sweep.plots import throughput_png

    run = reopen(folder)
    check_folder(folder, "DIR")
    if not (folder / FRONTIER).is_file():
        raise UserError(f"is not finished: servesweep resume {folder}", field="report", value=folder)
    summary, _ = evaluate(run)
    frame = frontier_frame(run, summary)
    _draw(run, summary, frame)
    more = {
        "throughput.png": throughput_png(frame, run.grid),
        "breakdown.png": breakdown_png(frame, run.grid),
    }
    for name, content in more.items():
        if content is not None:
            write_atomic(folder / name, content)
    _tell_without_answer(run, summary, frame)
    return [folder / name for name in ("report.html", "pareto.png", *more) if (folder / name).is_file()]


def _draw(run: Run, summary: Summary, frame: pl.DataFrame) -> None:
    """pareto.png and report.html; without a priced row there is nothing to draw."""
    from sweep.plots import pareto_png
    from sweep.report.frontier import MOST_POINTS, report_html

    picture = pareto_png(frame, run.grid)
    if picture is None:
        return
    write_atomic(run.folder / "pareto.png", picture)
    feasible = summary.reasons.get("", 0)
    on_disk = run.job.keep not in BEST_ONLY
    points = _all_feasible(run) if on_disk and feasible <= MOST_POINTS else frame
    page = report_html(points, frame, run.grid, summary.reasons, str(run.folder))
    write_atomic(run.folder / "report.html", page)


def _all_feasible(run: Run) -> pl.DataFrame:
    """Feasible rows on disk, in row order."""
    parts = sorted(sound_parts(run.folder / PARTS).values())
    return pl.concat([pl.read_parquet(part).filter("feasible") for part in parts]).sort("row")
