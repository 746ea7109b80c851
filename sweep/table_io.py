"""Tables in and out: csv, parquet or jsonl, by suffix."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from pathlib import Path

import polars as pl

from sweep.errors import UserError, nearest, printable
from sweep.files import replaced
from sweep.muted import muted_stderr
from sweep.parquet_file import read_parquet

SUFFIXES = (".csv", ".parquet", ".jsonl", ".ndjson")
MAX_BYTES = 8 * 1024**3


def read_table(path: Path) -> pl.DataFrame:
    """Read a table. Raises `UserError` where it is missing, too large, of another kind or malformed."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError("unknown kind of table", file=str(path), allowed=", ".join(SUFFIXES))
    if not path.is_file():
        raise UserError("is a folder" if path.is_dir() else "no such file", file=str(path))
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


def remarks(frame: pl.DataFrame, known: Collection[str], others: Collection[str] = ()) -> list[str]:
    """What a person may not have meant, a sentence each: one id for several rows, a column name next to a `known` one.

    `others` are names that mean something too and are no suggestions.
    """
    told = []
    if "id" in frame.columns:
        counts = frame["id"].drop_nulls().value_counts(sort=True)
        twice = counts.filter(pl.col("count") > 1)
        if twice.height:
            value, count = twice.row(0)
            more = f", and {twice.height - 1} more ids alike" if twice.height > 1 else ""
            told.append(f"id={printable(value)} stands in {count} rows{more}; every row is answered")
    missing = [name for name in known if name not in frame.columns]
    for column in frame.columns:
        close = (
            []
            if column in known or column in others
            else nearest(column, missing, limit=1, likeness=MISSPELT)
        )
        if close:
            told.append(f"column {printable(column)} is not read; nearest: {close[0]}")
    return told


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
