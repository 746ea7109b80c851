"""Scoring the model against measured tables: which figure a table measures, its errors per slice, a parity plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sweep.errors import UserError
from sweep.points import price_points
from sweep.table_io import read_table

SLICES = ("mode", "backend", "implementation", "hardware", "gpu", "model")
MIB = 1024**2


@dataclass(frozen=True)
class Figure:
    """One measured figure: its name, and columns `measured` and `predicted` beside the table's own."""

    name: str
    frame: pl.DataFrame


def figures(table: pl.DataFrame, fidelity: str) -> list[Figure]:
    """The figures that a measured table holds, with the model's answer to each row.

    Raises UserError where the table holds nothing that the model predicts.
    """
    columns = set(table.columns)
    if {"measured_ttft_ms", "measured_tpot_ms"} <= columns:
        pairs = {"ttft_ms": "measured_ttft_ms", "tpot_ms": "measured_tpot_ms"}
        return _answered(table, price_points(table, fidelity), pairs)
    if "measured_output_tok_s_per_gpu" in columns:
        return _answered(
            table, price_points(table, fidelity), {"output_tok_s_per_gpu": "measured_output_tok_s_per_gpu"}
        )
    if {"weights_gib", "kv_tokens"} <= columns:
        printed = (
            "weights_gib",
            "kv_gib",
            "kv_tokens",
            "block_size",
            "num_blocks",
            "max_concurrency",
            "notes",
        )
        inputs = table.drop([name for name in printed if name in columns])
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
        kept = answers.select("id", "status", pl.col(predicted).alias("predicted"), *bounds)
        frame = table.with_columns(pl.col(measured).cast(pl.Float64).alias("measured")).join(
            kept, on="id", how="left"
        )
        frame = frame.filter(pl.col("measured").is_not_null() & (pl.col("measured") > 0))
        inside = pl.lit(None, pl.Boolean)
        if f"{predicted}_p10" in bounds:
            inside = pl.col("measured").is_between(pl.col(f"{predicted}_p10"), pl.col(f"{predicted}_p90"))
        out.append(Figure(predicted, frame.with_columns(inside.alias("inside"))))
    return out


def _collectives(table: pl.DataFrame, fidelity: str) -> Figure:
    from sweep.collectives import price_collectives

    printed = [c for c in ("time_us", "algbw_gbps", "busbw_gbps") if c in table.columns]
    answers = price_collectives(table.drop(printed), fidelity=fidelity)
    ring_us = 2 * (pl.col("n_gpus") - 1) / pl.col("n_gpus") * pl.col("bytes") / (pl.col("busbw_gbps") * 1e3)
    measured = pl.coalesce("time_us", ring_us) if "busbw_gbps" in table.columns else pl.col("time_us")
    kept = answers.select("id", "status", pl.col("time_us").alias("predicted"))
    size = (
        pl.when(pl.col("bytes") < MIB)
        .then(pl.lit("below 1 MiB"))
        .otherwise(pl.lit("from 1 MiB"))
        .alias("size")
    )
    frame = table.with_columns(measured.alias("measured"), size).join(kept, on="id", how="left")
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
            groups = figure.frame.partition_by(column, as_dict=True)
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


def parity_plot(measured: Sequence[Figure], file: Path) -> None:
    """Predicted against measured on log axes, one panel per figure, one colour per accelerator."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    canvas, panels = plt.subplots(1, len(measured), figsize=(7.5 * len(measured), 6.5), squeeze=False)
    colours = plt.get_cmap("tab10")
    for panel, figure in zip(panels[0], measured, strict=True):
        column = "hardware" if "hardware" in figure.frame.columns else "gpu"
        frame = figure.frame.filter(pl.col("predicted").is_not_null())
        for i, name in enumerate(sorted(frame[column].unique().drop_nulls().to_list())):
            group = frame.filter(pl.col(column) == name)
            panel.scatter(
                group["measured"],
                group["predicted"],
                s=14,
                alpha=0.6,
                color=colours(i % 10),
                marker="osD^v"[i // 10 % 5],
                label=name,
            )
        low, high = frame["measured"].min(), frame["measured"].max()
        panel.plot([low, high], [low, high], color="black", linewidth=1)
        panel.set(
            xscale="log", yscale="log", xlabel=f"measured {figure.name}", ylabel=f"predicted {figure.name}"
        )
        panel.legend(fontsize=9, loc="upper left", framealpha=0.9)
        panel.grid(alpha=0.3, which="both")
    canvas.tight_layout()
    canvas.savefig(file, dpi=120)
    plt.close(canvas)


def validate(paths: Sequence[Path], fidelity: str = "fitted", plot: Path | None = None) -> pl.DataFrame:
    """Score the model on measured tables; the columns of `score` after `table`."""
    found: list[Figure] = []
    parts = []
    for path in paths:
        measured = figures(read_table(path), fidelity)
        found += measured
        parts += [score(figure).select(pl.lit(path.name).alias("table"), pl.all()) for figure in measured]
    if plot is not None:
        parity_plot(found, plot)
    return pl.concat(parts)
