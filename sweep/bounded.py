"""Text and JSON of files that anyone may have written: bounded, whatever the file says of its own size."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from sweep.errors import UserError


def check_file(path: Path) -> None:
    """Raises UserError where no file is there, and says what is: a folder, a pipe, a device, nothing."""
    told = no_file(path)
    if told is not None:
        raise UserError(told, file=str(path))


def no_file(path: Path) -> str | None:
    """What is in the place of a file; None where a file is."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "is a link to a file that is not there" if path.is_symlink() else "no such file"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError:
        return "is no name of a file"
    if stat.S_ISREG(mode):
        return None
    kinds = {stat.S_IFDIR: "is a folder", stat.S_IFIFO: "is a pipe", stat.S_IFSOCK: "is a socket"}
    return f"{kinds.get(stat.S_IFMT(mode), 'is a device')}, not a file"


def read_text(path: Path, most_bytes: int) -> str:
    """A file's text, a byte-order mark left out. Raises UserError where it cannot be read, is longer, or is not UTF-8."""
    try:
        with open(path, "rb", opener=_never_waiting) as file:
            data = file.read(most_bytes + 1)
            if not data and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise UserError("is a pipe that nobody writes to", file=str(path))
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
    """Open a file; a pipe that nobody writes to reads as empty instead of being waited for."""
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
