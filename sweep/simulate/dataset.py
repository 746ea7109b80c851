"""Request streams: JSONL datasets, and requests given as arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import UserError

Ints = NDArray[np.int64]
MAX_TOKENS = 100_000_000
"""Longest prompt or output that a file may ask for."""


@dataclass
class Requests:
    """Requests in arrival order; followers of sessions come after all others.

    `request_id` is the number that outputs show (order of the file). `token_ids[i]` holds prompt and output ids of
    request i, or None. `next_in_session` is an index into this table (-1 none); a follower
    arrives `tool_ns` of its predecessor after that one has ended.
    """

    request_id: Ints
    arrival_ns: Ints
    isl: Ints
    osl: Ints
    n_static: int
    token_ids: list[Ints | None] = field(default_factory=list)
    next_in_session: Ints | None = None
    tool_ns: Ints | None = None
    session: list[str] | None = None

    @property
    def n(self) -> int:
        return len(self.isl)


@dataclass
class _Row:
    request_id: int
    arrival_ns: int
    isl: int
    osl: int
    ids: Ints | None
    session: str = ""
    follower: _Row | None = None
    tool_ns: int = 0


def _count(row: dict[str, Any], name: str, where: dict[str, Any], *, low: int) -> int:
    if name not in row:
        raise UserError("missing", field=name, **where)
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise UserError("not a number", field=name, value=value, **where)
    number = int(value)
    if not low <= number:
        raise UserError(f"must be at least {low}", field=name, value=value, **where)
    if number > MAX_TOKENS and name.endswith("toks"):
        raise UserError(f"must be at most {MAX_TOKENS}", field=name, value=value, **where)
    return number


def _time(row: dict[str, Any], name: str, where: dict[str, Any]) -> int:
    value = _count(row, name, where, low=0)
    if value > 2**60:
        raise UserError("later than 36 years", field=name, value=value, **where)
    return value


def _ids(row: dict[str, Any], where: dict[str, Any]) -> Ints | None:
    parts = [row.get("input_tok_ids"), row.get("output_tok_ids")]
    if parts[0] is None:
        return None
    try:
        return np.concatenate([np.asarray(part or [], dtype=np.int64) for part in parts])
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError("token ids must be lists of integers", field="input_tok_ids", **where) from error


def _turn(row: dict[str, Any], request_id: int, arrival_ns: int, where: dict[str, Any]) -> _Row:
    return _Row(
        request_id=request_id,
        arrival_ns=arrival_ns,
        isl=_count(row, "input_toks", where, low=1),
        osl=_count(row, "output_toks", where, low=1),
        ids=_ids(row, where),
    )


def _parse_line(row: Any, next_id: int, where: dict[str, Any]) -> list[_Row]:
    if not isinstance(row, dict):
        raise UserError("not a JSON object", **where)
    turns = row.get("sub_requests")
    if turns is None:
        return [_turn(row, next_id, _time(row, "arrival_time_ns", where), where)]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise UserError("not a list of objects", field="sub_requests", **where)
    arrival = _time(row, "arrival_time_ns", where) if turns else 0
    rows = [_turn(turn, next_id + k, arrival, where) for k, turn in enumerate(turns)]
    for k, (before, after) in enumerate(zip(rows, rows[1:], strict=False)):
        before.follower = after
        before.tool_ns = _time(turns[k], "tool_duration_ns", where) if "tool_duration_ns" in turns[k] else 0
    for one in rows:
        one.session = str(row.get("session_id", f"session_{next_id}"))
    return rows


def read_jsonl(path: Path, n_lines: int = 0) -> Requests:
    """Read a JSONL dataset: flat lines and sessions with `sub_requests` (specification 18.1), in any order.

    `n_lines` 0 means all. Raises UserError with file, line and field.
    """
    rows: list[_Row] = []
    lines = 0
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                if n_lines and lines >= n_lines:
                    break
                lines += 1
                where = {"file": str(path), "line": number}
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise UserError("not valid JSON", **where) from error  # type: ignore[arg-type]
                rows += _parse_line(row, len(rows), where)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the dataset: {error}", file=str(path)) from error
    if not rows:
        raise UserError("no requests in it", file=str(path))
    return _arrange(rows)


def _arrange(rows: list[_Row]) -> Requests:
    followers = {id(row.follower) for row in rows if row.follower is not None}
    static = sorted((row for row in rows if id(row) not in followers), key=lambda row: row.arrival_ns)
    ordered = static + [row for row in rows if id(row) in followers]
    index = {id(row): k for k, row in enumerate(ordered)}
    return Requests(
        request_id=np.array([row.request_id for row in ordered], np.int64),
        arrival_ns=np.array([row.arrival_ns for row in ordered], np.int64),
        isl=np.array([row.isl for row in ordered], np.int64),
        osl=np.array([row.osl for row in ordered], np.int64),
        n_static=len(static),
        token_ids=[row.ids for row in ordered],
        next_in_session=np.array(
            [index[id(row.follower)] if row.follower is not None else -1 for row in ordered], np.int64
        ),
        tool_ns=np.array([row.tool_ns for row in ordered], np.int64),
        session=[row.session for row in ordered],
    )


def default_requests(n_instances: int) -> Requests:
    """What runs without a dataset: 16 requests per instance, prompt 64, 64 generated, all at time 0."""
    n = 16 * n_instances
    return Requests(
        request_id=np.arange(n),
        arrival_ns=np.zeros(n, np.int64),
        isl=np.full(n, 64),
        osl=np.full(n, 64),
        n_static=n,
    )
