"""One line of a trace at a time: the careful path, which knows why a line is no request.

`sweep.traces.frames` reads whole pieces; this reads what it could not, and lines with `sub_requests`.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sweep.traces.batch import Batch, as_hashes, ragged
from sweep.traces.clock import NS, Clock, one_time
from sweep.traces.columns import Columns
from sweep.traces.requests import MAX_NS, MAX_TOKENS

Ids = NDArray[np.int64]
TURN_ROLES = Columns(
    isl="input_toks", osl="output_toks", input_tok_ids="input_tok_ids", output_tok_ids="output_tok_ids"
)
"""Keys of a turn inside `sub_requests`."""


class NotARequest(Exception):
    """Why a line is no request: reason, and the field and value that are wrong."""

    def __init__(self, reason: str, field: str = "", value: object = None) -> None:
        super().__init__(reason)
        self.reason, self.field, self.value = reason, field, value


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a line; a follower comes `tool_ns` after the one before it in the same line."""

    arrival_ns: int
    isl: int
    osl: int
    hashes: Ids | None = None
    tokens: Ids | None = None
    model: str | None = None
    follows: bool = False
    tool_ns: int = 0


def tokens_of(value: object, name: str) -> int:
    """A length in tokens, 1 to 100 million; numbers written as text are read."""
    if isinstance(value, str) and re.fullmatch(r"[ \t]*[+-]?[0-9]{1,20}[ \t]*", value):
        value = int(value)
    elif isinstance(value, str) and re.fullmatch(
        r"[ \t]*[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?[ \t]*", value
    ):
        value = float(value)
    if value is None or value == "":
        raise NotARequest("missing", name)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or value != value
        or abs(value) == np.inf
    ):
        raise NotARequest("not a number", name, value)
    if int(value) != value:
        raise NotARequest("not a whole number", name, value)
    if not 1 <= value <= MAX_TOKENS:
        raise NotARequest("must be at least 1" if value < 1 else f"must be at most {MAX_TOKENS}", name, value)
    return int(value)


def ids_of(value: object, name: str, limit: int = 2**63 - 1) -> Ids:
    """A list of ids; text such as `[1, 2]` is read."""
    if isinstance(value, str):
        value = [int(word) for word in re.findall(r"-?\d{1,18}", value)]
    if not isinstance(value, list) or not all(type(one) is int and -limit <= one <= limit for one in value):
        raise NotARequest("not a list of whole numbers", name)
    return np.array(value, np.int64)


def request(row: dict[str, Any], columns: Columns, clock: Clock) -> Turn:
    """The request that a row of named values is. Raises NotARequest."""
    return Turn(_time(row, columns.arrival, clock), **_body(row, columns))


def _time(row: dict[str, Any], name: str, clock: Clock) -> int:
    value = row.get(name)
    if value is None or value == "":
        raise NotARequest("missing", name)
    try:
        return one_time(clock, value)
    except ValueError as error:
        raise NotARequest(str(error), name, value) from None


def _body(row: dict[str, Any], columns: Columns) -> dict[str, Any]:
    out: dict[str, Any] = {
        "isl": tokens_of(row.get(columns.isl), columns.isl),
        "osl": tokens_of(row.get(columns.osl), columns.osl),
    }
    if columns.hash_ids and row.get(columns.hash_ids) is not None:
        out["hashes"] = ids_of(row[columns.hash_ids], columns.hash_ids)
    names = (columns.input_tok_ids, columns.output_tok_ids)
    given = [ids_of(row[name], name, 2**31 - 1) for name in names if name and row.get(name) is not None]
    if given and row.get(columns.input_tok_ids) is not None:
        out["tokens"] = np.concatenate(given)
    if columns.model and row.get(columns.model) is not None:
        out["model"] = str(row[columns.model])
    return out


def session(row: dict[str, Any], clock: Clock, arrival: str) -> list[Turn]:
    """The turns of a line with `sub_requests`; each but the first follows the one before it. Raises NotARequest."""
    turns = row["sub_requests"]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise NotARequest("not a list of objects", "sub_requests")
    if not turns:
        return []
    arrival_ns = _time(row, arrival, clock)
    out, tool_ns = [], 0
    for k, turn in enumerate(turns):
        out.append(Turn(arrival_ns, **_body(turn, TURN_ROLES), follows=k > 0, tool_ns=tool_ns))
        tool_ns = _tool_ns(turn)
    return out


def _tool_ns(turn: dict[str, Any]) -> int:
    try:
        return one_time(Clock(NS["ns"]), turn.get("tool_duration_ns", 0))
    except ValueError as error:
        raise NotARequest(str(error), "tool_duration_ns", turn["tool_duration_ns"]) from None


def json_row(line: bytes) -> dict[str, Any]:
    """The object on one line of JSONL. Raises NotARequest."""
    try:
        row = json.loads(line)
    except RecursionError:
        raise NotARequest("nested too deeply") from None
    except UnicodeDecodeError:
        raise NotARequest("not UTF-8") from None
    except ValueError as error:
        raise NotARequest(f"not valid JSON ({getattr(error, 'msg', error)})") from None
    if not isinstance(row, dict):
        raise NotARequest("not a JSON object")
    return row


def csv_fields(line: bytes, delimiter: str) -> list[str]:
    """Fields of one line of CSV. Raises NotARequest."""
    try:
        text = line.decode()
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError:
        raise NotARequest("not UTF-8") from None
    except csv.Error as error:
        raise NotARequest(f"not valid CSV ({error})") from None


def csv_row(line: bytes, header: list[str], delimiter: str) -> dict[str, Any]:
    """One line of CSV under its header. Raises NotARequest."""
    values = csv_fields(line, delimiter)
    if len(values) != len(header):
        raise NotARequest(f"{len(values)} fields where the header has {len(header)}")
    return dict(zip(header, values, strict=True))


def batch(lines: list[int], turns: list[Turn]) -> Batch:
    """Turns and the lines they stand on, as arrays."""
    empty = np.zeros(0, np.int64)
    follows = np.array([turn.follows for turn in turns], bool)
    some = {name: any(getattr(t, name) is not None for t in turns) for name in ("hashes", "tokens", "model")}
    blocks = tokens = None
    if some["hashes"]:
        blocks = ragged([as_hashes(empty if t.hashes is None else t.hashes) for t in turns], np.uint64)
    if some["tokens"]:
        tokens = ragged([empty if t.tokens is None else t.tokens for t in turns], np.int32)
    return Batch(
        line=np.array(lines, np.int64),
        arrival_ns=np.array([min(t.arrival_ns, MAX_NS) for t in turns], np.int64),
        isl=np.array([t.isl for t in turns], np.int32),
        osl=np.array([t.osl for t in turns], np.int32),
        blocks=blocks,
        tokens=tokens,
        model=pl.Series([t.model for t in turns], dtype=pl.String) if some["model"] else None,
        parent=np.where(follows, np.arange(len(turns)) - 1, -1) if follows.any() else None,
        tool_ns=np.array([t.tool_ns for t in turns], np.int64) if follows.any() else None,
    )
