"""Why a table of JSON lines has no columns: the first line that is none of an object's, or differs from those before it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweep.errors import UserError

PLAIN, LIST, OBJECT = "plain values", "lists", "objects"
"""What a column can hold. Numbers and text are one kind: a reader makes text of both, and the column's field judges it."""


def check_lines(path: Path) -> None:
    """Raises UserError for the first line that cannot stand in one table with those before it, with the column."""
    kinds: dict[str, tuple[str, int]] = {}
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            for column, kind in _kinds(_object(line, number, path), ""):
                first, where = kinds.setdefault(column, (kind, number))
                if kind != first:
                    message = f"holds {kind} here and {first} in line {where}"
                    raise UserError(message, file=str(path), line=number, field=column)
    if not kinds:
        raise UserError("is empty" if number == 0 else "holds no column", file=str(path))


def _object(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError("is not valid JSON", file=str(path), line=number) from None
    if not isinstance(row, dict):
        raise UserError("is not a JSON object", file=str(path), line=number)
    for column, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError("is not a finite number", file=str(path), line=number, field=column)
    return row


def _kinds(row: dict[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """(name, kind) of every value of an object, those inside it included: `a.b` in an object, `a[]` in a list."""
    for name, value in row.items():
        yield from _kinds_of(value, f"{above}{name}")


def _kinds_of(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield name, OBJECT
        yield from _kinds(value, f"{name}.")
    elif isinstance(value, list):
        yield name, LIST
        for one in value:
            yield from _kinds_of(one, f"{name}[]")
    elif value is not None:
        yield name, PLAIN
