"""Scoring the model against measured tables: which figure a table measures, its errors per slice."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from sweep.catalog.fitted_collectives import LIBRARY
from sweep.collectives import COLUMNS as OF_COLLECTIVES
from sweep.collectives import price_collectives
from sweep.errors import UserError
from sweep.parity_plot import parity_plot
from sweep.point_rows import ALIASES, COLUMNS, DEFAULTS, MEASURED
from sweep.points import PointCorrector, price_points
from sweep.table_io import numbers, read_table, tell
from sweep.validation_figure import Figure
from sweep.validation_runs import NEEDED, replayed, runs_in

SLICES = ("mode", "backend", "implementation", "hardware", "gpu", "model", "statistic")
UNSAID = {"mode": DEFAULTS["mode"], "backend": DEFAULTS["backend"], "implementation": LIBRARY}
"""The slice of rows whose table does not say; those of other columns without a word are in no slice."""
PRINTED = ("weights_gib", "kv_gib", "kv_tokens", "block_size", "num_blocks", "max_concurrency", "notes")
"""What a start-up log prints: no inputs."""
TIMES = ("time_us", "algbw_gbps", "busbw_gbps")
"""What a table of collectives may have measured."""
MIB = 1024**2


def figures(
    table: pl.DataFrame, fidelity: str = "fitted", anchors: PointCorrector | None = None
) -> list[Figure]:
    """The figures that a measured table holds, with the model's answer to each row.

    Raises UserError where the table holds nothing that the model predicts.
    """
    columns = set(table.columns)
    if {"measured_ttft_ms", "measured_tpot_ms"} <= columns:
        pairs = {"ttft_ms": "measured_ttft_ms", "tpot_ms": "measured_tpot_ms"}
        return _answered(table, price_points(table, fidelity, anchors), pairs)
    if "measured_output_tok_s_per_gpu" in columns:
        return _answered(
            table,
            price_points(table, fidelity, anchors),
            {"output_tok_s_per_gpu": "measured_output_tok_s_per_gpu"},
        )
    if {"weights_gib", "kv_tokens"} <= columns:
        inputs = table.drop(PRINTED, strict=False)
        return _answered(
            table,
            price_points(inputs, fidelity),
            {"weights_gib": "weights_gib", "kv_capacity_tokens": "kv_tokens"},
        )
    if {"bytes", "n_gpus"} <= columns and columns & {"time_us", "busbw_gbps"}:
        return [_collectives(table, fidelity)]
    raise UserError(
        "holds no figure that the model predicts",
        allowed="measured_ttft_ms and measured_tpot_ms, measured_output_tok_s_per_gpu, weights_gib and kv_tokens, or time_us",
    )


def _answered(table: pl.DataFrame, answers: pl.DataFrame, pairs: dict[str, str]) -> list[Figure]:
    bounds = [c for c in answers.columns if c.endswith(("_p10", "_p90"))]
    out = []
    for predicted, measured in pairs.items():
        kept = answers.select("status", "reason", pl.col(predicted).alias("predicted"), *bounds)
        frame = beside(table, kept).with_columns(numbers(table, measured).alias("measured"))
        frame = frame.filter(pl.col("measured").is_not_null() & (pl.col("measured") > 0))
        if frame.height == 0:
            raise UserError("no row has a value above 0", field=measured)
        inside = pl.lit(None, pl.Boolean)
        if f"{predicted}_p10" in bounds:
            inside = pl.col("measured").is_between(pl.col(f"{predicted}_p10"), pl.col(f"{predicted}_p90"))
        out.append(Figure(predicted, frame.with_columns(inside.alias("inside"))))
    return out


def beside(table: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
    """Each row with its answer; rows are told apart by their place, since an id may stand twice or nowhere."""
    rows = table if "id" in table.columns else table.with_row_index("id")
    return pl.concat([rows.drop(answers.columns, strict=False), answers], how="horizontal")


def _collectives(table: pl.DataFrame, fidelity: str) -> Figure:
    printed = [c for c in TIMES if c in table.columns]
    counts = ("n_gpus", "bytes", *printed)
    table = table.with_columns(numbers(table, name).alias(name) for name in counts)
    answers = price_collectives(table.drop(printed), fidelity=fidelity)
    ring_us = 2 * (pl.col("n_gpus") - 1) / pl.col("n_gpus") * pl.col("bytes") / (pl.col("busbw_gbps") * 1e3)
    measured = pl.coalesce("time_us", ring_us) if "busbw_gbps" in table.columns else pl.col("time_us")
    kept = answers.select("status", pl.col("time_us").alias("predicted"))
    size = (
        pl.when(pl.col("bytes") < MIB)
        .then(pl.lit("below 1 MiB"))
        .otherwise(pl.lit("from 1 MiB"))
        .alias("size")
    )
    frame = beside(table.with_columns(measured.alias("measured"), size), kept)
    return Figure(
        "time_us",
        frame.filter(pl.col("measured").is_not_null()).with_columns(pl.lit(None, pl.Boolean).alias("inside")),
    )


def score(figure: Figure, by: Sequence[str] = SLICES) -> pl.DataFrame:
    """Errors of a figure over all rows and per slice.

    Columns: figure, slice, rows, coverage (share answered), median_abs_percent, p90_abs_percent, signed_percent
    (median), in_interval (share of measured values between p10 and p90; 0.8 is honest).
    """
    parts = [_scored(figure.frame, figure.name, "all")]
    for column in (*by, "size"):
        if column in figure.frame.columns:
            said = figure.frame.with_columns(
                pl.col(column).cast(pl.String).fill_null(pl.lit(UNSAID.get(column)))
            )
            groups = said.drop_nulls(column).partition_by(column, as_dict=True)
            parts += [
                _scored(group, figure.name, f"{column}={key[0]}")
                for key, group in sorted(groups.items(), key=str)
            ]
    return pl.concat(parts)


def _scored(frame: pl.DataFrame, name: str, label: str) -> pl.DataFrame:
    error = 100 * (pl.col("predicted") / pl.col("measured") - 1)
    return frame.select(
        pl.lit(name).alias("figure"),
        pl.lit(label).alias("slice"),
        pl.len().alias("rows"),
        pl.col("predicted").is_not_null().mean().round(3).alias("coverage"),
        error.abs().median().round(1).alias("median_abs_percent"),
        error.abs().quantile(0.9).round(1).alias("p90_abs_percent"),
        error.median().round(1).alias("signed_percent"),
        pl.col("inside")
        .filter(pl.col("predicted").is_not_null())
        .cast(pl.Float64)
        .mean()
        .round(3)
        .alias("in_interval"),
    )


def validate(
    paths: Sequence[Path],
    fidelity: str = "fitted",
    plot: Path | None = None,
    anchors: PointCorrector | None = None,
    profiles: Path | None = None,
) -> pl.DataFrame:
    """Score the model on measured tables and folders of real runs; the columns of `score` after `table`."""
    found: list[Figure] = []
    for path in paths:
        if path.is_dir():
            found += run_figures(path, profiles, fidelity)
        else:
            found += _of_file(path, fidelity, anchors)
    for sentence in unanswered(found):
        print(f"servesweep validate: {sentence}", file=sys.stderr)
    if plot is not None:
        parity_plot(found, plot)
    return pl.concat(
        [score(figure).select(pl.lit(figure.table).alias("table"), pl.all()) for figure in found]
    )


def _of_file(path: Path, fidelity: str, anchors: PointCorrector | None) -> list[Figure]:
    table = read_table(path)
    try:
        found = [replace(f, table=path.stem) for f in figures(table, fidelity, anchors)]
    except UserError as error:
        raise UserError(f"{path}: {error.message}") from None
    if "bytes" in table.columns:
        tell("validate", path, table, (*OF_COLLECTIVES, *TIMES))
    else:
        tell("validate", path, table, (*COLUMNS, *MEASURED), (*ALIASES, *PRINTED))
    return found


def unanswered(found: Sequence[Figure]) -> list[str]:
    """A sentence per table whose rows were not all answered: how many, and the first reason."""
    told = {}
    for figure in found:
        if "reason" not in figure.frame.columns:
            continue
        without = figure.frame.filter(pl.col("predicted").is_null())
        if without.height and figure.table not in told:
            told[figure.table] = (
                f"{figure.table}: {without.height} of {figure.frame.height} rows are not answered; "
                f"the first, {without['id'][0]}: {without['reason'][0]}"
            )
    return list(told.values())


def run_figures(folder: Path, profiles: Path | None, fidelity: str) -> list[Figure]:
    """Figures of the real runs in a folder, all runs together. Raises UserError where there is none."""
    runs = runs_in(folder)
    if not runs:
        raise UserError(f"holds no run ({', '.join(NEEDED)})", file=str(folder))
    frames: dict[str, list[pl.DataFrame]] = {}
    for run in runs:
        for name, frame in replayed(run, profiles, fidelity):
            frames.setdefault(name, []).append(frame)
    return [Figure(name, pl.concat(parts), folder.name) for name, parts in frames.items()]
