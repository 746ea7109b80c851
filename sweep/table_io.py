"""Tables in and out: csv, parquet or jsonl, by suffix."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import polars as pl

from sweep.bounded import check_file
from sweep.errors import UserError, nearest, printable
from sweep.files import replaced
from sweep.json_lines import check_lines
from sweep.muted import muted_stderr
from sweep.parquet_file import read_parquet

SUFFIXES = (".csv", ".parquet", ".jsonl", ".ndjson")
MAX_BYTES = 8 * 1024**3


def read_table(path: Path) -> pl.DataFrame:
    """Read a table. Raises `UserError` where it is missing, too large, of another kind or malformed."""
    check_file(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError("unknown kind of table", file=str(path), allowed=", ".join(SUFFIXES))
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"larger than {MAX_BYTES // 1024**3} GiB", file=str(path))
    if suffix == ".parquet":
        return read_parquet(path)
    try:
        with muted_stderr():
            if suffix == ".csv":
                return _distinct(_csv(path), path)
            return pl.read_ndjson(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        if suffix != ".csv":
            check_lines(path)
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UserError(f"cannot be read: {reason}", file=str(path)) from None


def _csv(path: Path) -> pl.DataFrame:
    """A CSV file, types by content; ids that are no whole numbers stay the text that they are: `1e999` is not infinity."""
    read = functools.partial(pl.read_csv, path, infer_schema_length=None, null_values=["", "null", "None"])
    found = read()
    return read(schema_overrides={"id": pl.String}) if found.schema.get("id") == pl.Float64 else found


def _distinct(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The frame; UserError where a column stands twice, which the reader renames."""
    twice = next((name for name in frame.columns if "_duplicated_" in name), None)
    if twice is not None:
        raise UserError("a column stands twice", file=str(path), field=twice.partition("_duplicated_")[0])
    return frame


MISSPELT = 0.85
"""A column that no one reads and that is this like one that is, and is missing, is a slip of the keyboard."""
SHORTEST_BEGUN = 4
"""Letters of a name that a column which begins with it is taken for: `mode` and longer, not `id` or `tp`."""


def tell(
    verb: str,
    path: Path,
    frame: pl.DataFrame,
    known: Collection[str],
    others: Collection[str] = (),
    inputs: Collection[str] = (),
) -> None:
    """Print the `remarks` on a table to stderr, for every verb that reads one."""
    for remark in remarks(frame, known, others, inputs):
        print(f"servesweep {verb}: {path}: {remark}", file=sys.stderr)


def remarks(
    frame: pl.DataFrame, known: Collection[str], others: Collection[str] = (), inputs: Collection[str] = ()
) -> list[str]:
    """What a person may not have meant, a sentence each: one id for several rows, a column name next to a `known` one.

    `others` are names that mean something too and are no suggestions. Only names that the table lacks are suggested.
    `inputs` are names of the program's inputs: a column under one that is not `known` sets nothing, and that is told.
    """
    told = []
    if "id" in frame.columns:
        counts = frame["id"].drop_nulls().value_counts(sort=True)
        twice = counts.filter(pl.col("count") > 1)
        if twice.height:
            value, count = twice.row(0)
            more = f", and {twice.height - 1} more ids alike" if twice.height > 1 else ""
            told.append(f"id={printable(value)} stands in {count} rows{more}; every row counts")
    missing = [name for name in known if name not in frame.columns]
    unread = [name for name in frame.columns if name not in known and name not in others]
    for column in unread:
        if name := _meant(column, missing):
            told.append(f"column {printable(column)} is not read; nearest: {name}")
        elif column in inputs:
            told.append(f"column {column} is not read: an input of sweeps and estimates that no table sets")
    return told


def _meant(column: str, missing: Collection[str]) -> str | None:
    """The one of the `missing` names that a column misspells or writes out further (ttft_statistic, workload.isl), if any."""
    short = column.casefold().rpartition(".")[2]
    if short in missing:
        return short
    close = nearest(column, missing, limit=1, likeness=MISSPELT)
    begun = [name for name in missing if column.casefold().startswith(name) and len(name) >= SHORTEST_BEGUN]
    return close[0] if close else max(begun, key=len, default=None)


def need(frame: pl.DataFrame, columns: Iterable[str]) -> None:
    """Raises UserError for the first of `columns` that the table does not have, with the one it may stand under."""
    for name in columns:
        if name not in frame.columns:
            raise UserError("column is missing", field=name, near=nearest(name, frame.columns))


def numbers(frame: pl.DataFrame, column: str, path: Path | None = None) -> pl.Series:
    """A column as float64; UserError with the line where a value is no number."""
    where = None if path is None else str(path)
    if frame[column].dtype.is_nested():
        raise UserError("holds lists, not numbers", file=where, field=column)
    found = frame[column].cast(pl.Float64, strict=False)
    wrong = (found.is_null() & frame[column].is_not_null()).arg_true()
    if len(wrong):
        raise UserError(
            "is not a number",
            file=where,
            line=int(wrong[0]) + 2,
            field=column,
            value=frame[column][int(wrong[0])],
        )
    return found


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a table atomically: a temporary file beside it, flushed to disk, then renamed."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError("unknown kind of table", file=str(path), allowed=", ".join(SUFFIXES))
    if not path.parent.is_dir():
        raise UserError("no such folder", file=str(path.parent))
    try:
        with replaced(path) as handle:
            if suffix == ".csv":
                frame.write_csv(handle)
            elif suffix == ".parquet":
                frame.write_parquet(handle)
            else:
                frame.write_ndjson(handle)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"cannot be written: {_reason(error)}", file=str(path)) from None


def _reason(error: Exception) -> str:
    """What the system said; a full disk reaches polars' writers as an error of their own, with the system's words last."""
    told = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
    return str(told).rpartition("error: ")[2]
