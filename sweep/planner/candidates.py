"""Every deployment of a composed grid as an input record, with the labels that name it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.layout import RESULT
from sweep.axes import Grid
from sweep.coefficients import coefficients
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.fields import record_dtype
from sweep.frame import label_series

Records = npt.NDArray[Any]
MAX_DEPLOYMENTS = 200_000
"""Their input records are held at once, about 2 kB each."""
FIXED = ("model", "workload", "slo", "price", "cluster")
"""Groups of the question: a plan has one of each."""


@dataclass(frozen=True)
class Candidates:
    """Deployments: input records, coefficients, and one row of labels each."""

    records: Records
    fitted: npt.NDArray[np.float64]
    labels: pl.DataFrame
    hardware: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.records.shape[0])

    def take(self, rows: npt.NDArray[np.int64]) -> Candidates:
        """The given deployments."""
        return Candidates(self.records[rows], self.fitted, self.labels[rows], self.hardware)

    @property
    def workers(self) -> npt.NDArray[np.float64]:
        """GPUs of one replica: tp x attention_dp x pp x cp."""
        r = self.records
        return np.asarray(r["tp"] * r["attention_dp"] * r["pp"] * r["cp"])

    @property
    def usd_per_gpu_hour(self) -> npt.NDArray[np.float64]:
        """Price of one GPU; NaN where the book has none."""
        return np.asarray(self.records["usd_per_gpu_hour"])

    def results(self, **columns: npt.NDArray[Any] | float) -> Records:
        """Results with some input columns set, one per deployment, on all cores."""
        return evaluated(self.records, self.fitted, **columns)


def evaluated(
    records: Records, fitted: npt.NDArray[np.float64], **columns: npt.NDArray[Any] | float
) -> Records:
    """Result records of `records` with some input columns set."""
    if not len(records):
        return np.zeros(0, RESULT)
    asked = records.copy()
    for name, values in columns.items():
        asked[name] = values
    pieces = np.array_split(asked, max(1, min(os.cpu_count() or 1, len(asked))))
    with ThreadPoolExecutor(len(pieces)) as pool:
        parts = list(pool.map(lambda piece: evaluate(piece, fitted).results, pieces))
    return np.concatenate(parts)


def candidates_of(grid: Grid) -> Candidates:
    """The deployments of `grid`. Raises UserError where it asks more than one question, or is too large."""
    for axis in grid.axes:
        group = axis.name.split(".", 1)[0].split("+")[-1]
        if group in FIXED and axis.radix > 1:
            raise UserError(
                "a plan answers one question at a time and this sweeps it",
                field=axis.name,
                allowed="one value",
            )
    if grid.n_rows > MAX_DEPLOYMENTS:
        raise UserError(f"{grid.n_rows:,} deployments; a plan weighs at most {MAX_DEPLOYMENTS:,} at once")
    codes = grid.codes(0, grid.n_rows)
    index = {name: i for i, name in enumerate(record_dtype().names or ())}
    flat = np.tile(grid.base, (grid.n_rows, 1))
    for axis, code in zip(grid.axes, codes, strict=True):
        for k, column in enumerate(axis.columns):
            flat[:, index[column]] = axis.table[code, k]
    records = flat.view(record_dtype()).reshape(-1)
    if (records["disaggregate"] > 0.0).any():
        raise UserError(
            "a plan sizes the pools itself: demand.pools=split", field="disagg.disaggregate", value="true"
        )
    fitted = coefficients(grid.hardware, str(grid.settings["fidelity.level"]))
    return Candidates(records, fitted, _labels(grid, codes), grid.hardware)


def _labels(grid: Grid, codes: Sequence[npt.NDArray[np.int64]]) -> pl.DataFrame:
    series = [
        label_series(label).gather(code)
        for axis, code in zip(grid.axes, codes, strict=True)
        for label in axis.labels
    ]
    return pl.DataFrame(list({s.name: s for s in series}.values()))
