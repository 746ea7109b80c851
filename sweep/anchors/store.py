"""The anchor store: a JSON file of measured points, or a folder of such files and of benchmark results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from sweep.anchors.anchor import Anchor
from sweep.anchors.readers import STORE_KEY, STORE_VERSION, read_results
from sweep.bounded import no_file
from sweep.errors import UserError
from sweep.files import write_atomic

FILE = "anchors.json"
"""The store's own file in a folder."""
DEPTH = 3
MAX_FILES = 10_000
SUFFIXES = (".json", ".jsonl", ".csv")


def load(path: Path) -> tuple[list[Anchor], list[str]]:
    """Anchors of a file, or of every benchmark result up to three folders deep; and what was passed over.

    A file that is named must be readable; in a folder, what is no benchmark result or does not say what it measured is
    passed over. The same point in two files counts once. Raises UserError.
    """
    if path.is_file():
        return _distinct(read_results(path)), []
    if not path.is_dir():
        raise UserError(no_file(path) or "is no file", field="anchors", value=path)
    anchors: list[Anchor] = []
    passed: list[str] = []
    for file in _files(path, DEPTH):
        try:
            anchors += read_results(file)
        except UserError as error:
            passed.append(error.message)
    return _distinct(anchors), passed


def _files(folder: Path, depth: int) -> Iterator[Path]:
    """Candidate files in a fixed order, links left out."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.is_symlink())
    if len(entries) > MAX_FILES:
        raise UserError(f"holds more than {MAX_FILES:,} files", field="anchors", value=folder)
    yield from (e for e in entries if e.is_file() and e.suffix.lower() in SUFFIXES)
    if depth > 1:
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith("."):
                yield from _files(entry, depth - 1)


def _distinct(anchors: Iterable[Anchor]) -> list[Anchor]:
    return list({a.identity: a for a in anchors}.values())


def save(path: Path, anchors: Iterable[Anchor]) -> Path:
    """Add anchors to a store (a folder's anchors.json, or a .json file), at once or not at all; where they went.

    Raises UserError where it cannot be written or the file there is none of ours.
    """
    file = path if path.suffix.lower() == ".json" else path / FILE
    kept = load(file)[0] if file.is_file() else []
    entries = [a.as_dict() for a in _distinct([*kept, *anchors])]
    content = json.dumps({STORE_KEY: STORE_VERSION, "anchors": entries}, indent=1) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, content.encode())
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=str(file)) from None
    return file
