"""Whole pieces of a trace through polars: the fast path, for lines without any fault."""

from __future__ import annotations

import numpy as np
import polars as pl

from sweep.traces.batch import Batch, as_hashes
from sweep.traces.clock import Clock, times
from sweep.traces.columns import Columns
from sweep.traces.requests import MAX_TOKENS, Int64s, Ragged, offsets
from sweep.traces.source import Piece

IDS = pl.List(pl.Int64)


def json_frame(
    piece: Piece, columns: Columns, arrival: pl.DataType | type[pl.DataType]
) -> pl.DataFrame | None:
    """A piece of flat JSONL as a frame of the columns that matter; None where any line does not fit."""
    types: dict[str, pl.DataType | type[pl.DataType]] = {
        "arrival": arrival,
        "isl": pl.Int64,
        "osl": pl.Int64,
        "hash_ids": IDS,
        "input_tok_ids": IDS,
        "output_tok_ids": IDS,
        "model": pl.String,
    }
    schema = {name: types[role] for role, name in columns.given().items()}
    try:
        frame = pl.read_ndjson(piece.data, schema=schema)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError):
        return None
    return frame if frame.height == piece.n_lines else None


def csv_frame(piece: Piece, header: list[str], delimiter: str, columns: Columns) -> pl.DataFrame | None:
    """A piece of CSV without its header as a frame of text; None where any line does not fit."""
    try:
        frame = pl.read_csv(
            piece.data,
            has_header=False,
            schema={f"c{i}": pl.String for i in range(len(header))},
            separator=delimiter,
            columns=[header.index(name) for name in columns.given().values()],
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError):
        return None
    if frame.height != piece.n_lines:
        return None
    return frame.rename({f"c{header.index(name)}": name for name in columns.given().values()})


def values(frame: pl.DataFrame, columns: Columns, clock: Clock) -> pl.DataFrame:
    """Typed columns by role; null where a value is missing or impossible."""
    out = {
        "arrival": times(clock, frame[columns.arrival]),
        "isl": _lengths(frame[columns.isl]),
        "osl": _lengths(frame[columns.osl]),
    }
    for role in ("hash_ids", "input_tok_ids", "output_tok_ids"):
        name = getattr(columns, role)
        if name:
            out[role] = _id_lists(frame[name])
    if columns.model:
        out["model"] = frame[columns.model].cast(pl.String)
    return pl.DataFrame(out)


def _lengths(column: pl.Series) -> pl.Series:
    whole = column.cast(pl.Int64, strict=False)
    if column.dtype.is_float():
        whole = whole.set((whole.cast(pl.Float64) != column).fill_null(True), None)
    return whole.set(((whole < 1) | (whole > MAX_TOKENS)).fill_null(False), None).cast(pl.Int32)


def _id_lists(column: pl.Series) -> pl.Series:
    if column.dtype == pl.String:
        return column.str.extract_all(r"-?\d+").cast(IDS)
    return column.cast(IDS)


def batch(typed: pl.DataFrame, line: int | Int64s) -> Batch:
    """A frame without nulls in its required columns, whose rows stand on consecutive lines from `line` on."""
    tokens = None
    if "input_tok_ids" in typed.columns:
        prompt = typed["input_tok_ids"]
        output = typed["output_tok_ids"] if "output_tok_ids" in typed.columns else None
        both = (
            typed.select(pl.concat_list("input_tok_ids", "output_tok_ids")).to_series()
            if output is not None
            else prompt
        )
        # A request without prompt ids has no identity, whatever is said of its output.
        both = both.zip_with(both.is_not_null() | prompt.is_null(), prompt)
        tokens = _ragged(both, np.int32)
    blocks = _ragged(typed["hash_ids"], np.int64) if "hash_ids" in typed.columns else None
    if blocks is not None:
        blocks = Ragged(blocks.offset, as_hashes(blocks.value))
    return Batch(
        line=line + np.arange(typed.height) if isinstance(line, int) else line,
        arrival_ns=typed["arrival"].to_numpy().copy(),
        isl=typed["isl"].to_numpy().copy(),
        osl=typed["osl"].to_numpy().copy(),
        blocks=blocks,
        tokens=tokens,
        model=typed["model"] if "model" in typed.columns else None,
    )


def _ragged(lists: pl.Series, dtype: type) -> Ragged | None:
    if lists.null_count() == len(lists):
        return None
    length = lists.list.len().fill_null(0).to_numpy()
    flat = lists.list.explode(keep_nulls=False, empty_as_null=False).to_numpy()
    return Ragged(offsets(length), flat.astype(dtype))


def required_ok(typed: pl.DataFrame) -> pl.Series:
    """Which rows have all that a request needs."""
    return typed["arrival"].is_not_null() & typed["isl"].is_not_null() & typed["osl"].is_not_null()
