"""Tables in and out: csv, parquet or jsonl, by suffix."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from sweep.errors import UserError

SUFFIXES = (".csv", ".parquet", ".jsonl", ".ndjson")
MAX_BYTES = 8 * 1024**3


def read_table(path: Path) -> pl.DataFrame:
    """Read a table. Raises `UserError` where it is missing, too large, of another kind or malformed."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError("unknown kind of table", file=str(path), allowed=", ".join(SUFFIXES))
    if not path.is_file():
        raise UserError("no such file", file=str(path))
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"larger than {MAX_BYTES // 1024**3} GiB", file=str(path))
    try:
        if suffix == ".csv":
            return pl.read_csv(path, infer_schema_length=None, null_values=["", "null", "None"])
        if suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_ndjson(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UserError(f"cannot be read: {reason}", file=str(path)) from None


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a table atomically: a temporary file beside it, flushed to disk, then renamed."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError("unknown kind of table", file=str(path), allowed=", ".join(SUFFIXES))
    if not path.parent.is_dir():
        raise UserError("no such folder", file=str(path.parent))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            if suffix == ".csv":
                frame.write_csv(handle)
            elif suffix == ".parquet":
                frame.write_parquet(handle)
            else:
                frame.write_ndjson(handle)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"cannot be written: {_reason(error)}", file=str(path)) from None


def _reason(error: Exception) -> str:
    """What the system said; a full disk reaches polars' writers as an error of their own, with the system's words last."""
    told = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
    return str(told).rpartition("error: ")[2]
