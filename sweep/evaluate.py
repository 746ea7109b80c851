"""Rows of a grid through the kernel, in blocks, each block to a frame, a part on disk and a summary."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.grid import evaluate_rows
from kernels.layout import DERIVED, N_OUT, REPLAY, RESULT, RESULT_INDEX
from kernels.priced import PRICED
from kernels.reasons import OK
from kernels.reasons import TEXT as REASONS
from sweep.axes import Grid, PackedGrid
from sweep.errors import UserError
from sweep.evaluation import evaluate_coded
from sweep.fields import record_dtype
from sweep.files import TEMPORARY
from sweep.frame import FrameBuilder
from sweep.frontier import Summariser, Summary
from sweep.grid_columns import Floats, records_of
from sweep.grid_intervals import Weights
from sweep.parts import write_part

if TYPE_CHECKING:
    from sweep.anchors.grid import GridAnchors

LOAD_ONLY = frozenset(
    "concurrency num_prompts request_rate arrival load length_range decode_spread prefix_hit_rate "
    "ttft_ms tpot_ms e2e_ms usd_per_gpu_hour utilization".split()
)
"""Input columns that `kernels.resolve` does not read: their axes do not resolve the deployment again."""
BATCH_ONLY = LOAD_ONLY | frozenset(
    "isl osl max_num_batched_tokens max_num_seqs max_model_len chunked_prefill_size max_prefill_seqs "
    "gpu_memory_utilization".split()
)
"""Input columns that `kernels.step` does not read: they say what is in a batch, not what a batch costs."""
CONNECT_S = 10
"""How long to wait for the scheduler of a cluster."""
NEAR = 128
"""Rows that a call of the kernel's costs as much as: within so many, those between two wanted ones are evaluated too."""
PIECE = 65_536
"""Rows whose results are held in full width at a time while a table of any rows is built."""
COUNTS = "servesweep_counts"
"""Key of a part's metadata with the counts of its block, rows that were not kept included."""
BEST_ONLY = ("frontier", "top")
"""Values of `output.keep` with which parts do not hold rows in full."""


@dataclass(frozen=True)
class Block:
    """Kernel results of `rows`, shape (rows, N_OUT), and the weights of measured corrections by latency."""

    rows: npt.NDArray[np.int64]
    results: Floats
    weights: Weights | None

    def feasible(self) -> Block:
        """Of the rows, those that can run."""
        runs = self.results[:, RESULT_INDEX["reason"]] == OK
        weights = self.weights and {name: weight[runs] for name, weight in self.weights.items()}
        return Block(self.rows[runs], self.results[runs], weights)

    @staticmethod
    def joined(blocks: Sequence[Block]) -> Block:
        """One block of several; corrections hold for all of a grid's or for none."""
        weights = [block.weights for block in blocks if block.weights is not None]
        return Block(
            np.concatenate([block.rows for block in blocks]),
            np.concatenate([block.results for block in blocks]),
            {name: np.concatenate([w[name] for w in weights]) for name in weights[0]} if weights else None,
        )

    def reasons(self) -> dict[str, int]:
        """Rows by why they cannot run, in the words of the result table."""
        counts = np.bincount(self.results[:, RESULT_INDEX["reason"]].astype(np.int64))
        return dict(sorted((REASONS[code], int(n)) for code, n in enumerate(counts) if n))


@dataclass(frozen=True)
class Evaluator:
    """Evaluates rows of `grid` with `fitted` coefficients, shape (hardware, engine, N_OPS, N_COEF).

    Measured points, where there are any, scale the kernel's results.
    """

    grid: Grid
    fitted: Floats
    anchors: GridAnchors | None = None

    def block(self, start: int, stop: int) -> Floats:
        """Results of rows [start, stop), shape (stop - start, N_OUT)."""
        packed, (resolving, repricing) = self._packed, self._moves
        inputs = np.zeros(1, record_dtype())
        flat = inputs.view(np.float64)
        flat[:] = packed.base
        results = np.empty(stop - start, RESULT)
        matrix = results.view(np.float64).reshape(-1, N_OUT)
        evaluate_rows(
            inputs,
            flat,
            np.zeros(1, DERIVED),
            np.zeros(2, record_dtype()),
            np.zeros(2, DERIVED),
            np.zeros(2, PRICED),
            np.zeros(1, REPLAY),
            packed.axis_field_offsets,
            packed.axis_fields,
            packed.axis_value_offsets,
            packed.axis_values,
            packed.radices,
            resolving,
            repricing,
            self.fitted,
            start,
            stop,
            results,
            matrix,
        )
        return matrix

    @cached_property
    def _packed(self) -> PackedGrid:
        return self.grid.packed()

    @cached_property
    def _moves(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """By axis: whether it changes what `kernels.resolve` reads, and what `kernels.step` reads."""
        axes = self.grid.axes
        resolving = np.array([not LOAD_ONLY.issuperset(axis.columns) for axis in axes])
        return resolving, np.array([not BATCH_ONLY.issuperset(axis.columns) for axis in axes])

    @cached_property
    def builder(self) -> FrameBuilder:
        return FrameBuilder(self.grid)

    @cached_property
    def summariser(self) -> Summariser:
        settings = self.grid.settings
        return Summariser(self.grid, int(settings["output.top"]) if settings["output.keep"] == "top" else 0)

    def results_of(self, start: int, stop: int) -> Block:
        """Results of rows [start, stop), scaled by measured points where there are any."""
        return self._scaled(np.arange(start, stop, dtype=np.int64), self.block(start, stop))

    def frame(self, start: int, stop: int) -> pl.DataFrame:
        """Result table of rows [start, stop)."""
        return self.framed(self.results_of(start, stop))

    def feasible_frame(self, block: Block, columns: Collection[str] | None = None) -> pl.DataFrame:
        """Those of the result table's rows that can run; of its columns, only `columns` where they are given."""
        rows = block.feasible()
        if columns is None:
            return self.framed(rows)
        return self.builder.narrow(rows.rows, rows.results, columns)

    def frame_of(self, rows: npt.NDArray[np.int64]) -> pl.DataFrame:
        """Result table of any rows, the same values as in their block; built piece by piece, narrow columns at once."""
        pieces = np.split(rows, range(PIECE, rows.size, PIECE))
        return pl.concat([self.framed(self._scaled(piece, self._results_at(piece))) for piece in pieces])

    def _results_at(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Kernel results of any rows, shape (rows, N_OUT)."""
        if not rows.size:
            return np.empty((0, N_OUT))
        neighbours = np.split(rows, np.flatnonzero(np.diff(rows // NEAR)) + 1)
        return np.concatenate([self.block(int(r.min()), int(r.max()) + 1)[r - r.min()] for r in neighbours])

    def scattered(self, rows: npt.NDArray[np.int64]) -> Block:
        """Results of rows that lie far apart: one call of the kernel, the same values as in their block."""
        results = evaluate_coded(records_of(self.grid, rows), self.fitted).results
        return self._scaled(rows, results.view(np.float64).reshape(-1, N_OUT))

    def _scaled(self, rows: npt.NDArray[np.int64], results: Floats) -> Block:
        return Block(rows, results, self.anchors.correct(self.grid, rows, results) if self.anchors else None)

    def framed(self, block: Block) -> pl.DataFrame:
        """Result table of a block."""
        return self.builder.frame(block.rows, block.results, block.weights)


@dataclass(frozen=True)
class BlockJob:
    """What a worker needs to do one block: picklable, the same for threads, processes and a cluster."""

    evaluator: Evaluator
    block_rows: int
    keep: str
    folder: Path | None
    """Where parts go; None keeps nothing on disk (benchmarks)."""

    @property
    def n_blocks(self) -> int:
        return -(-self.evaluator.grid.n_rows // self.block_rows)

    def rows_of(self, index: int) -> tuple[int, int]:
        """First row of block `index` and the row after its last."""
        start = index * self.block_rows
        return start, min(start + self.block_rows, self.evaluator.grid.n_rows)

    def do(self, index: int) -> tuple[int, Summary]:
        """Evaluate a block, write its part, return its summary."""
        return index, self.store(index, self.evaluator.results_of(*self.rows_of(index)))

    def discard_unfinished(self) -> None:
        """Remove parts that are not written whole, once nobody writes any more."""
        for path in self.folder.glob(f"{TEMPORARY}*") if self.folder is not None else ():
            path.unlink(missing_ok=True)

    def store(self, index: int, block: Block) -> Summary:
        """Write the part of a block, or what is kept of it; its summary."""
        if self.keep == "all":
            frame = self.evaluator.framed(block)
        else:
            columns = Summariser.columns if self.keep in BEST_ONLY else None
            frame = self.evaluator.feasible_frame(block, columns)
        summary = replace(self.evaluator.summariser.summary(frame), reasons=block.reasons())
        if self.folder is not None:
            if self.keep in BEST_ONLY:
                # Few of a block's best are among the best of the grid: the run evaluates those again, in full, at its end
                frame = frame.filter(np.isin(frame["row"].to_numpy(), summary.rows))
            counts = {"reasons": summary.reasons, "priced": summary.priced, "meets_slo": summary.meets_slo}
            write_part(self.folder, index, frame, {COUNTS: json.dumps(counts)})
        return summary

    def recall(self, part: Path) -> Summary:
        """Summary of a block that an earlier run finished, from its part."""
        counts = json.loads(pl.read_parquet_metadata(part)[COUNTS])
        return replace(self.evaluator.summariser.summary(pl.read_parquet(part)), **counts)


Done = Generator[tuple[int, Summary], None, None]
"""Blocks as they are finished: number and summary."""


def run_blocks(job: BlockJob, blocks: Iterable[int], settings: dict[str, Any]) -> Done:
    """Do `blocks` on the executor of the settings; summaries come as blocks finish, in any order.

    Closed early, or by an interruption, it leaves no worker and nothing half-written behind.
    """
    workers = int(settings["executor.workers"] or os.cpu_count() or 1)
    if settings["executor.kind"] == "threads":
        yield from _in_threads(job, iter(blocks), workers)
        return
    from joblib import Parallel, delayed, parallel_config

    with executor(settings) as backend, parallel_config(backend=backend, n_jobs=workers):
        parallel = Parallel(return_as="generator_unordered", pre_dispatch="2 * n_jobs", batch_size=1)
        try:
            with _deaf_to_ctrl_c() if backend == "loky" else nullcontext():
                summaries = parallel(delayed(job.do)(index) for index in blocks)
            yield from summaries
        except BaseException:
            job.discard_unfinished()  # of workers that were ended while they wrote
            raise


def _in_threads(job: BlockJob, blocks: Iterator[int], workers: int) -> Done:
    """Blocks that have begun are finished whatever happens: a thread cannot be ended while it writes."""
    with ThreadPoolExecutor(workers) as pool:
        begun = {pool.submit(job.do, index) for index in islice(blocks, 2 * workers)}
        try:
            while begun:
                done, begun = wait(begun, return_when=FIRST_COMPLETED)
                begun |= {pool.submit(job.do, index) for index in islice(blocks, len(done))}
                yield from (future.result() for future in done)
        finally:
            for future in begun:
                future.cancel()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes started within never see the SIGINT that a terminal sends to all: this process ends them, without their traces."""
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # started with the first worker instead, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def executor(settings: dict[str, Any]) -> Iterator[str]:
    """Name of joblib's backend for processes, connected to the cluster where there is one."""
    kind, address = settings["executor.kind"], settings["executor.address"]
    if kind != "dask":
        yield "loky"
        return
    if not address:
        raise UserError("executor=dask needs the scheduler of a running cluster", field="executor.address")
    try:
        from distributed import Client
    except ImportError:
        raise UserError("needs the extra: pip install 'servesweep[distributed]'", field="executor") from None
    try:
        client = Client(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise UserError(f"no scheduler answers: {error}", field="executor.address", value=address) from None
    with client:
        yield "dask"
