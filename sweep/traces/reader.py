"""Reads a trace: any of the formats, any number of files, into one `Requests`.

Pieces of a file go through polars as a whole. A piece with any fault is halved until the fault is alone with few
neighbours, and those lines are read one by one (`sweep.traces.rows`), which tells line, field and reason. Memory is
the arrays plus one piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from sweep.errors import UserError
from sweep.parquet_file import ROWS_AT_ONCE, ParquetDecoder
from sweep.traces import frames, rows
from sweep.traces.batch import Batch, Builder
from sweep.traces.clock import Clock, clock_of
from sweep.traces.columns import Columns, find, mapping
from sweep.traces.problems import BadLine, OnBadLine, Report
from sweep.traces.requests import Requests
from sweep.traces.rows import NotARequest, Turn
from sweep.traces.source import PIECE_BYTES, Piece, Unpacked, expand, pieces

FORMATS = ("auto", "csv", "jsonl", "json", "parquet")
BLOCK_TOKENS = 512
"""Prompt tokens per entry of `hash_ids` in Mooncake traces."""
FEW_LINES = 64
MAX_JSON_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class Trace:
    """Requests of a trace, where they come from, and what was noticed on the way."""

    requests: Requests
    report: Report
    files: tuple[str, ...]
    columns: Columns


class Sink(Protocol):
    """Takes the batches of a trace one by one."""

    n: int  # requests taken

    def add(self, batch: Batch) -> None:
        """Take the next batch; its times are in ns since 1970 where the trace has dates."""


@dataclass(frozen=True)
class Source:
    """What was read, and what was noticed on the way."""

    report: Report
    files: tuple[str, ...]
    columns: Columns
    clock: Clock


@dataclass
class _State:
    """What one file teaches about the next: columns, clock, header."""

    wanted: Columns
    report: Report
    sink: Sink
    last: tuple[str, int] = ("", 0)  # file and arrival (ns) of the latest request
    columns: Columns = field(default_factory=Columns)
    clock: Clock | None = None
    header: list[str] = field(default_factory=list)
    delimiter: str = ","
    limit: int = 0
    decoder: ParquetDecoder = field(default_factory=ParquetDecoder)

    @property
    def full(self) -> bool:
        return 0 < self.limit <= self.report.n_lines

    def refuse(self, file: str, line: int, bad: NotARequest) -> None:
        self.report.refuse(BadLine(file, line, bad.reason, bad.field, bad.value))


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    columns: str | Columns = "",
    on_bad_line: OnBadLine = "stop",
    format: str = "auto",
    block_tokens: int = BLOCK_TOKENS,
    limit: int = 0,
    piece_bytes: int = PIECE_BYTES,
) -> Trace:
    """Read CSV, JSONL, JSON or parquet files (names, globs, folders; gzip by content) into one trace.

    `columns` maps roles to column names, see `sweep.traces.columns.mapping`; `limit` > 0 stops after so many lines.
    Raises UserError with file, line, field and reason; bad lines only where `on_bad_line` is "stop".
    """
    builder = Builder()
    source = stream(
        paths,
        builder,
        columns=columns,
        on_bad_line=on_bad_line,
        format=format,
        limit=limit,
        piece_bytes=piece_bytes,
    )
    requests = builder.requests(block_tokens=block_tokens, absolute=source.clock.absolute)
    return Trace(requests, source.report, source.files, source.columns)


def stream(
    paths: str | Path | Sequence[str | Path],
    sink: Sink,
    *,
    columns: str | Columns = "",
    on_bad_line: OnBadLine = "stop",
    format: str = "auto",
    limit: int = 0,
    piece_bytes: int = PIECE_BYTES,
) -> Source:
    """Read a trace batch by batch into `sink`; memory is one piece and what the sink keeps. Otherwise as `read`."""
    if format not in FORMATS:
        raise UserError("unknown format", field="format", value=format, allowed=", ".join(FORMATS))
    wanted = mapping(columns) if isinstance(columns, str) else columns
    state = _State(wanted, Report(on_bad_line), sink, limit=limit)
    files = expand(paths)
    with state.decoder:
        for path in files:
            if state.full:
                break
            _read_file(path, format, state, piece_bytes)
    if sink.n == 0:
        raise UserError("no requests in it" + _first_bad(state.report), file=", ".join(map(str, files[:3])))
    if state.report.n_backwards:
        state.report.note(
            f"times go backwards {state.report.n_backwards:,} times; requests were sorted by arrival"
        )
    clock = state.clock or Clock(1)
    if clock.guessed:
        state.report.note(
            f"times in {state.columns.arrival} read as milliseconds; say arrival={state.columns.arrival}:s in --columns (or workload.columns, job.columns) otherwise"
        )
    return Source(state.report, tuple(map(str, files)), state.columns, clock)


def _first_bad(report: Report) -> str:
    return f" ({report.n_bad:,} bad lines; first: {report.bad[0].error.message})" if report.bad else ""


def _read_file(path: Path, format: str, state: _State, piece_bytes: int) -> None:
    kind = _sniffed(path) if format == "auto" else format
    if kind == "empty":
        state.report.note(f"{path}: empty")
    elif kind == "parquet":
        _read_parquet(path, state)
    elif kind == "json":
        _read_json(path, state)
    else:
        _read_text(path, kind, state, piece_bytes)


def _sniffed(path: Path) -> str:
    try:
        stream = Unpacked(path)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=str(path)) from None
    try:
        head = stream.read(4096)
    finally:
        stream.close()
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise UserError("zstd-compressed; unpack it or use gzip", file=str(path))
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return "empty"
    return {b"{": "jsonl", b"[": "json"}.get(start[:1], "csv")


def _read_text(path: Path, kind: str, state: _State, piece_bytes: int) -> None:
    for number, piece in enumerate(pieces(path, piece_bytes)):
        if state.full:
            return
        body = _without_header(piece, state) if kind == "csv" and number == 0 else piece
        before = state.sink.n
        for batch in _batches(body, kind, state):
            _note_order(batch, piece.file, state)
            state.sink.add(batch)
        if not piece.complete and state.sink.n > before:
            state.report.note(f"{path}: last line has no line end; it was taken as it is")


def _without_header(piece: Piece, state: _State) -> Piece:
    """Take the header off a file's first piece; a rotated file without one continues under the header before."""
    first = piece.lines()[0]
    text = first.decode("utf-8-sig", errors="replace").strip("\r\n")
    delimiter = max(",;\t|", key=text.count)
    try:
        names = [name.strip() for name in rows.csv_fields(text.encode(), delimiter)]
    except NotARequest as bad:
        raise UserError(f"bad header: {bad.reason}", file=piece.file, line=1) from None
    if len(set(names)) != len(names):
        raise UserError("two columns of one name in the header", file=piece.file, line=1)
    try:
        state.columns = find(names, state.wanted, file=piece.file)
    except UserError:
        if state.header and len(names) == len(state.header) and any(name[:1].isdigit() for name in names):
            return piece
        raise
    state.header, state.delimiter = names, delimiter
    rest = piece.data[len(first) + 1 :]
    return Piece(piece.file, piece.first_line + 1, rest, piece.complete)


def _batches(piece: Piece, kind: str, state: _State) -> Iterator[Batch]:
    """Batches of a piece in its order; halves it as long as the fast path finds a fault."""
    if not piece.data or state.full:
        return
    batch = _fast(piece, kind, state) if not state.limit and piece.complete else None
    if batch is not None:
        state.report.n_lines += len(batch)
        yield batch
    elif piece.n_lines > FEW_LINES and b'"sub_requests"' not in piece.data:
        for half in piece.halves():
            yield from _batches(half, kind, state)
    else:
        yield from _slow(piece, kind, state)


def _fast(piece: Piece, kind: str, state: _State) -> Batch | None:
    if state.clock is None:
        return None
    if kind == "csv":
        frame = frames.csv_frame(piece, state.header, state.delimiter, state.columns)
    elif b'"sub_requests"' in piece.data:
        return None
    else:
        text = pl.String if state.clock.unit_ns == 0 else pl.Int64
        frame = frames.json_frame(piece, state.columns, text)
        if frame is None and text == pl.Int64:
            frame = frames.json_frame(piece, state.columns, pl.Float64)
    if frame is None:
        return None
    try:
        typed = frames.values(frame, state.columns, state.clock)
    except pl.exceptions.PolarsError:
        return None
    return frames.batch(typed, piece.first_line) if frames.required_ok(typed).all() else None


def _slow(piece: Piece, kind: str, state: _State) -> Iterator[Batch]:
    numbers: list[int] = []
    turns: list[Turn] = []
    last = piece.first_line + piece.n_lines - 1
    for number, line in enumerate(piece.lines(), piece.first_line):
        if not line.strip() or state.full:
            continue
        state.report.n_lines += 1
        try:
            found = _line(line, kind, state, piece.file)
        except NotARequest as bad:
            if number == last and not piece.complete:
                state.report.note(
                    f"{piece.file}: line {number}: incomplete last line left out ({bad.reason})"
                )
            else:
                state.refuse(piece.file, number, bad)
            continue
        turns += found
        numbers += [number] * len(found)
    if turns:
        yield rows.batch(numbers, turns)


def _line(line: bytes, kind: str, state: _State, file: str) -> list[Turn]:
    if kind == "csv":
        row = rows.csv_row(line.rstrip(b"\r"), state.header, state.delimiter)
    else:
        row = rows.json_row(line)
    return _turns(row, state, file)


def _turns(row: dict[str, Any], state: _State, file: str) -> list[Turn]:
    """The requests of one row; the first row of a trace also settles columns and clock."""
    in_session = row.get("sub_requests") is not None
    required = ("arrival",) if in_session else ("arrival", "isl", "osl")
    if any(not getattr(state.columns, role) for role in required):
        state.columns = find(list(row), state.wanted, file=file, required=required)
    if state.clock is None:
        state.clock = _clock(row.get(state.columns.arrival), state.columns)
    if in_session:
        return rows.session(row, state.clock, state.columns.arrival)
    return [rows.request(row, state.columns, state.clock)]


def _clock(value: object, columns: Columns) -> Clock:
    try:
        return clock_of(columns.arrival, value, columns.arrival_unit, columns.usual_unit)
    except (ValueError, TypeError):
        raise NotARequest("missing" if value is None else "not a time", columns.arrival, value) from None


def _note_order(batch: Batch, file: str, state: _State) -> None:
    """Count where time goes backwards inside a file and tell the first place."""
    own = batch.arrival_ns
    if not len(own):
        return
    steps = np.flatnonzero(own[1:] < own[:-1]) + 1
    last_file, last_ns = state.last
    if last_file == file and own[0] < last_ns:
        steps = np.concatenate([[0], steps])
    state.last = (file, int(own[-1]))
    if len(steps) and state.report.n_backwards == 0:
        state.report.note(f"{file}: line {batch.line[steps[0]]}: {state.columns.arrival} goes backwards")
    state.report.n_backwards += len(steps)


def _read_json(path: Path, state: _State) -> None:
    """A JSON array of objects; entries count as lines."""
    data = bytearray()
    for piece in pieces(path):
        data += piece.data
        if len(data) > MAX_JSON_BYTES:
            raise UserError(
                f"a JSON array over {MAX_JSON_BYTES // 1024**2} MiB; write one object per line",
                file=str(path),
            )
    try:
        entries = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not valid JSON: {error}", file=str(path)) from None
    if not isinstance(entries, list):
        raise UserError("not a JSON array", file=str(path))
    numbers: list[int] = []
    turns: list[Turn] = []
    for number, entry in enumerate(entries, 1):
        if state.full:
            break
        state.report.n_lines += 1
        try:
            if not isinstance(entry, dict):
                raise NotARequest("not a JSON object")
            found = _turns(entry, state, str(path))
        except NotARequest as bad:
            state.refuse(str(path), number, bad)
            continue
        turns += found
        numbers += [number] * len(found)
    if turns:
        batch = rows.batch(numbers, turns)
        _note_order(batch, str(path), state)
        state.sink.add(batch)


def _read_parquet(path: Path, state: _State) -> None:
    """A parquet file in slices of a million rows; rows count as lines."""
    schema, n_rows = state.decoder.schema(path), state.decoder.height(path)
    state.columns = find(list(schema), state.wanted, file=str(path))
    _check_types(schema, state.columns, str(path))
    if state.limit:
        n_rows = min(n_rows, state.limit - state.report.n_lines)
    wanted = list(state.columns.given().values())
    for start in range(0, n_rows, ROWS_AT_ONCE):
        piece = state.decoder.rows(path, wanted, start, min(ROWS_AT_ONCE, n_rows - start))
        try:
            _parquet_slice(piece, start, str(path), state)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise UserError(f"cannot be read: {reason}", file=str(path)) from None


def _check_types(schema: pl.Schema, columns: Columns, file: str) -> None:
    """Raises UserError for a column whose type can hold nothing of its role."""
    for role, name in columns.given().items():
        type_ = schema[name]
        if role in ("hash_ids", "input_tok_ids", "output_tok_ids"):
            inner = type_.inner if isinstance(type_, pl.List) else type_
            fits = inner == pl.String or (isinstance(type_, pl.List) and inner.is_numeric())
        elif role == "model":
            fits = not type_.is_nested() and type_ != pl.Binary
        else:
            fits = type_.is_numeric() or type_ == pl.String or (role == "arrival" and type_ == pl.Datetime)
        if not fits and type_ != pl.Null:
            raise UserError("a column of this type is not read", file=file, field=name, value=type_)


def _parquet_slice(frame: pl.DataFrame, start: int, file: str, state: _State) -> None:
    arrival = frame[state.columns.arrival]
    if isinstance(arrival.dtype, pl.Datetime):
        frame = frame.with_columns(arrival.dt.cast_time_unit("ns").to_physical())
        state.clock = state.clock or Clock(1, absolute=True)
    elif arrival.dtype.is_integer():
        frame = frame.with_columns(arrival.cast(pl.Int64))
    state.report.n_lines += frame.height
    if state.clock is None:
        first = frame[state.columns.arrival].drop_nulls()
        try:
            state.clock = _clock(first[0] if len(first) else 0, state.columns)
        except NotARequest as bad:
            raise UserError(bad.reason, file=file, field=bad.field, value=bad.value) from None
    typed = frames.values(frame, state.columns, state.clock)
    ok = frames.required_ok(typed).to_numpy()
    for row in np.flatnonzero(~ok):
        _refuse_row(frame.row(int(row), named=True), start + int(row) + 1, file, state)
    batch = frames.batch(typed.filter(pl.Series(ok)), start + 1 + np.flatnonzero(ok))
    _note_order(batch, file, state)
    state.sink.add(batch)


def _refuse_row(row: dict[str, Any], line: int, file: str, state: _State) -> None:
    try:
        _turns(row, state, file)
    except NotARequest as bad:
        state.refuse(file, line, bad)
    else:
        state.refuse(file, line, NotARequest("not a request"))
