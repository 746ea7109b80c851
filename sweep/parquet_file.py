"""Parquet files that anyone may have written, decoded where damage can do no harm: see sweep/parquet_child.py."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import polars as pl

from sweep import parquet_child
from sweep.errors import UserError
from sweep.parquet_child import LENGTH_BYTES, PANICKED, TABLE

ROWS_AT_ONCE = 1_000_000
MOST_SECONDS = 300.0
"""For one answer of the decoder; a million rows of a trace take 0.1 s."""
MAGIC, FOOTER_BYTES = b"PAR1", 8
LONGEST_REASON = 200


class ParquetDecoder:
    """A process that decodes one file after another, started for the first and again after one that ended it.

    Every method raises UserError, with the file's name, for a file that is not sound.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def schema(self, path: Path) -> pl.Schema:
        """Names and types of the columns."""
        check_ends(path)
        return self._table(path, columns=None, start=0, rows=0).schema

    def height(self, path: Path) -> int:
        """Rows that the file says it has."""
        return int(self._table(path, height=True).item())

    def rows(self, path: Path, columns: Sequence[str] | None, start: int, rows: int) -> pl.DataFrame:
        """So many rows from `start` on, which the file must have; all columns where `columns` is None."""
        wanted = None if columns is None else list(columns)
        frame = self._table(path, columns=wanted, start=start, rows=rows)
        if frame.height != rows:
            raise UserError("is damaged: it has fewer rows than it says", file=str(path))
        return frame

    def table(self, path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The whole table."""
        schema, height = self.schema(path), self.height(path)
        pieces = [
            self.rows(path, columns, start, min(ROWS_AT_ONCE, height - start))
            for start in range(0, height, ROWS_AT_ONCE)
        ]
        if pieces:
            return pl.concat(pieces)
        return pl.DataFrame(schema=schema).select(pl.all() if columns is None else list(columns))

    def _table(self, path: Path, **wanted: Any) -> pl.DataFrame:
        kind, content = self._answer(path, json.dumps({"file": os.path.abspath(path), **wanted}))
        if kind == TABLE:
            return pl.read_ipc_stream(io.BytesIO(content))
        if kind == PANICKED:
            self.close()
        reason = content.decode("utf-8", "replace").splitlines()[0]
        raise UserError(f"cannot be read: {reason[:LONGEST_REASON]}", file=str(path))

    def _answer(self, path: Path, request: str) -> tuple[bytes, bytes]:
        """Kind and content of the decoder's answer; one that ends or takes too long leaves the file refused."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _started()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(MOST_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
            return _message(process.stdout)
        except (BrokenPipeError, EOFError):
            self.close()
            gib = parquet_child.MOST_BYTES // 1024**3
            raise UserError(
                f"is damaged, or needs more than {gib} GiB or {MOST_SECONDS:g} s to decode", file=str(path)
            ) from None
        finally:
            timer.cancel()


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A parquet file as a table, through a decoder of its own. Raises UserError."""
    with ParquetDecoder() as decoder:
        return decoder.table(path, columns)


def check_ends(path: Path) -> None:
    """Raises UserError for a file without parquet's first and last bytes, before a decoder starts for it."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(len(MAGIC))
            file.seek(max(0, size - FOOTER_BYTES))
            foot = file.read(FOOTER_BYTES)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=str(path)) from None
    described = int.from_bytes(foot[:4], "little")
    if head != MAGIC or foot[4:] != MAGIC or described + len(MAGIC) + FOOTER_BYTES > size:
        raise UserError("is no whole parquet file", file=str(path))


def _started() -> subprocess.Popen[bytes]:
    # Run with -P: the folder of a module that is run as a file would hide others of the same names
    command = [sys.executable, "-P", parquet_child.__file__]
    pipe, quick_end = subprocess.PIPE, {"RUST_BACKTRACE": "0"}
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=os.environ | quick_end
    )


def _message(answers: IO[bytes]) -> tuple[bytes, bytes]:
    kind = answers.read(1)
    size = int.from_bytes(_exactly(answers, LENGTH_BYTES), "little")
    return kind, _exactly(answers, size)


def _exactly(answers: IO[bytes], size: int) -> bytes:
    content = answers.read(size)
    if len(content) < size:
        raise EOFError
    return content
