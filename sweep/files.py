"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sweep.errors import UserError, printable

TEMPORARY = ".tmp-"
"""Start of the names of files that are being written; what is left of a killed run begins so."""


def is_device(path: Path) -> bool:
    """Whether a path is a device, a pipe or a stream (/dev/stdout, /dev/fd/3): written to, not replaced."""
    return (path.is_absolute() and path.parts[1:2] in (("dev",), ("proc",))) or (
        path.exists() and not path.is_file()
    )


def check_target(path: Path | None, field: str) -> None:
    """Raises UserError, before anything is computed, where a file to write has a folder in its place or none to lie in.

    The folder of one file must be there (a misspelt path is told); one that a verb fills is made (`check_folder`).
    """
    if path is None:
        return
    if path.is_dir():
        raise UserError("is a folder", field=field, value=path)
    if is_device(path):
        return
    if not path.parent.is_dir():
        raise UserError(f"no such folder: {path.parent}", field=field, value=path)
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"the folder cannot be written: {path.parent}", field=field, value=path)


def check_folder(folder: Path, field: str, own: Collection[str] | None = None) -> None:
    """Raises UserError, before anything is computed, for a folder to fill that cannot be made or written.

    With `own`, also for a folder that holds anything but these names.
    """
    standing = next((path for path in (folder, *folder.parents) if path.exists()), Path())
    if not standing.is_dir():
        raise UserError(f"{standing} is not a folder", field=field, value=folder)
    if not os.access(standing, os.W_OK | os.X_OK):
        raise UserError(f"{standing} cannot be written", field=field, value=folder)
    if own is None or standing != folder:
        return
    names = (entry.name for entry in folder.iterdir())
    foreign = sorted(name for name in names if name not in own and not name.startswith(TEMPORARY))
    if foreign:
        raise UserError(
            f"holds something else ({printable(foreign[0])})",
            field=field,
            value=folder,
            allowed="a new or an empty folder",
        )


@contextmanager
def replaced(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """A file to write that takes the place of `path` once it is complete and on disk: a reader never sees half of it.

    Raises UserError for a folder in its place, OSError with the path where the system refuses; nothing is left behind then.
    """
    if path.is_dir():
        raise UserError("is a folder", file=str(path))
    text = None if "b" in mode else "utf-8"
    if is_device(path):
        with open(path, mode, encoding=text) as device:
            yield device
        return
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(6)}-{path.name}")
    try:
        with open(temporary, mode.replace("w", "x"), encoding=text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.strerror and error.filename in (None, str(temporary)):
            # A full disk is met while writing: the system names no file then.
            error.filename = str(path)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file whole: `replaced` for content that is there."""
    with replaced(path) as file:
        file.write(content)
