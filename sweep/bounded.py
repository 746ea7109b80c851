"""Text and JSON of files that anyone may have written: bounded, whatever the file says of its own size."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sweep.errors import UserError


def read_text(path: Path, most_bytes: int) -> str:
    """A file's text, a byte-order mark left out. Raises UserError where it cannot be read, is longer, or is not UTF-8."""
    try:
        with open(path, "rb", opener=_never_waiting) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except ValueError:
        raise UserError("is no name of a file", file=str(path)) from None
    if len(data) > most_bytes:
        raise UserError(f"is larger than {most_bytes:,} bytes", file=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("is not text", file=str(path)) from None


def _never_waiting(name: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is empty instead of waited for."""
    handle = os.open(name, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def read_json(path: Path, most_bytes: int) -> Any:
    """What a JSON file holds. Raises UserError."""
    text = read_text(path, most_bytes)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not valid JSON: {error}", file=str(path)) from None
