"""Parts of a result on disk: written at once or not at all, each with its checksum in its name."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from sweep.files import TEMPORARY, write_atomic

DIGEST_LENGTH = 16
_PART = re.compile(r"part-(\d{6,})\.([0-9a-f]{16})\.parquet")


def parquet_bytes(frame: pl.DataFrame, metadata: Mapping[str, str] | None = None) -> bytes:
    """The frame as parquet: the same bytes for the same frame."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="lz4", metadata=dict(metadata or {}))
    return buffer.getvalue()


def digest(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_part(folder: Path, index: int, frame: pl.DataFrame, metadata: Mapping[str, str]) -> Path:
    """Write the part of block `index`: its name carries its number and the first 16 digits of its SHA-256."""
    content = parquet_bytes(frame, metadata)
    path = folder / f"part-{index:06d}.{digest(content)[:DIGEST_LENGTH]}.parquet"
    write_atomic(path, content)
    return path


def sound_parts(folder: Path) -> dict[int, Path]:
    """Parts whose bytes match their name, by block. Damaged and half-written files are removed."""
    parts: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        match = _PART.fullmatch(path.name)
        if match and digest(path.read_bytes())[:DIGEST_LENGTH] == match[2]:
            parts[int(match[1])] = path
        elif match or path.name.startswith(TEMPORARY):
            path.unlink(missing_ok=True)
    return parts
