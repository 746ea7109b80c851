"""Scores of the model as tables for people: all of them, and the few that a README shows."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sweep.bounded import read_text
from sweep.errors import UserError
from sweep.files import write_atomic

MOST_BYTES = 16 * 1024**2
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"
"""Between these lines of a file the short table is replaced; a file without them becomes the full page."""
SHORT = ("all", "mode=agg", "mode=disagg")
TITLE = """# Validation

Scores of `servesweep validate` against measured tables, per slice; `make validate` makes this page again. Errors are percent of the
measured value; coverage is the share of rows that were answered; in interval is the share of measured values between p10 and p90 (0.8 is honest).
Rows of these tables took part in the fit of the engine layer, so these are not errors on unseen combinations ([measurements](measurements.md) has those).
"""
HEADS = ("table", "figure", "slice", "rows", "coverage", "median", "P90", "signed", "in interval")


def _table(scores: pl.DataFrame) -> str:
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    for row in scores.rows():
        name, figure, label, rows, coverage, *errors, inside = row
        percents = ["" if e is None else f"{e:.1f} %" for e in errors]
        within = "" if inside is None else f"{inside:.2f}"
        lines.append(
            f"| {name} | {figure} | {label} | {rows:,} | {coverage:.3g} | {' | '.join(percents)} | {within} |"
        )
    return "\n".join(lines)


def short_table(scores: pl.DataFrame) -> str:
    """A row per table and figure; colocated and split pools apart where both are there."""
    several = pl.col("slice").str.starts_with("mode=").any().over("table", "figure")
    both = (pl.col("slice") == "mode=disagg").any().over("table", "figure") & several
    wanted = pl.when(both).then(pl.col("slice").is_in(SHORT[1:])).otherwise(pl.col("slice") == "all")
    return _table(scores.filter(wanted))


def write_page(scores: pl.DataFrame, file: Path, plot: Path | None = None) -> None:
    """Write the full page, or the short table between the marks of a file that has them. Raises UserError."""
    try:
        text = read_text(file, MOST_BYTES) if file.is_file() else ""
        if BEGIN in text and END in text:
            head, _, rest = text.partition(BEGIN)
            content = f"{head}{BEGIN}\n{short_table(scores)}\n{END}{rest.partition(END)[2]}"
        else:
            picture = f"\n![Predicted against measured]({plot.name})\n" if plot is not None else ""
            content = f"{TITLE}{picture}\n{_table(scores)}\n"
        write_atomic(file, content.encode())
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=str(file)) from None
