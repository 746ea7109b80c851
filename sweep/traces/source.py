"""Files of a trace as pieces of whole lines: globs, rotated and gzipped files, all of it bounded."""

from __future__ import annotations

import glob
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.bounded import no_file
from sweep.errors import UserError

PIECE_BYTES = 8 * 1024**2
MAX_LINE_BYTES = 64 * 1024**2
MAX_FILES = 10_000
MAX_BYTES = 256 * 1024**3
"""Most bytes read from one file, unpacked."""
RATIO_FREE_BYTES = 256 * 1024**2
MAX_RATIO = 200
"""A gzipped log shrinks 5 to 30 times; what unpacks to more than this, beyond a first 256 MiB, is a bomb."""


@dataclass(frozen=True)
class Piece:
    """Whole lines of one file. `complete` is False for a last line without its line end."""

    file: str
    first_line: int
    data: bytes
    complete: bool = True

    @property
    def n_lines(self) -> int:
        return self.data.count(b"\n") + (not self.complete)

    def lines(self) -> list[bytes]:
        return self.data.removesuffix(b"\n").split(b"\n") if self.data else []

    def halves(self) -> tuple[Piece, Piece]:
        """The piece in two, cut at the line end nearest to its middle."""
        cut = self.data.find(b"\n", len(self.data) // 2) + 1
        if cut in (0, len(self.data)):
            cut = self.data.rfind(b"\n", 0, len(self.data) // 2) + 1
        head = Piece(self.file, self.first_line, self.data[:cut])
        return head, Piece(self.file, self.first_line + head.n_lines, self.data[cut:], self.complete)


def expand(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Files that names, globs and folders stand for, oldest rotation first. Raises UserError where there is none."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Path] = []
    for one in given:
        path = Path(one)
        if path.is_dir():
            matches = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        elif path.is_file():
            matches = [path]
        else:
            matches = [Path(name) for name in glob.glob(str(one)) if Path(name).is_file()]
        if not matches:
            raise UserError(_nothing_in(path), file=str(one))
        found += sorted(matches, key=_age)
    if len(found) > MAX_FILES:
        raise UserError(f"{len(found):,} files; at most {MAX_FILES:,} in one trace")
    return list(dict.fromkeys(found))


def _nothing_in(path: Path) -> str:
    """Why no file stands for a name."""
    if path.is_dir():
        return "is a folder without a file in it"
    pattern = glob.has_magic(str(path)) and not path.exists()
    return "no file has such a name" if pattern else no_file(path) or "no such file"


def present(paths: str | Path | Sequence[str | Path]) -> None:
    """Raises UserError, before anything is computed, where `expand` finds no file or none with anything in it."""
    files = expand(paths)
    if not any(file.stat().st_size for file in files):
        raise UserError("is empty", file=str(files[0]))


def _age(path: Path) -> tuple[str, int, str]:
    """Rotation puts log.2 before log.1 before log; other names sort alphabetically."""
    rotated = re.fullmatch(r"(.*?)\.(\d{1,4})(\.gz)?", str(path))
    return (
        (rotated[1], -int(rotated[2]), str(path))
        if rotated
        else (str(path).removesuffix(".gz"), 0, str(path))
    )


class Unpacked:
    """Reads a plain or gzipped file; a bomb raises, a file cut short (still being written) ends with `cut` set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = False
        self._raw = path.open("rb")
        packed = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._stream: Any = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        self._packed = packed
        self._read = 0

    def read(self, n: int) -> bytes:
        data = self._unpacked(n) if self._packed else self._stream.read(n)
        self._read += len(data)
        if self._read > MAX_BYTES:
            raise UserError(f"larger than {MAX_BYTES // 1024**3} GiB", file=str(self.path))
        if self._packed and self._read > max(RATIO_FREE_BYTES, MAX_RATIO * self._raw.tell()):
            raise UserError(f"unpacks to more than {MAX_RATIO} times its size", file=str(self.path))
        return data

    def _unpacked(self, n: int) -> bytes:
        """Up to `n` bytes, fewer only at the end; what precedes the cut of a file cut short is not lost."""
        parts: list[bytes] = []
        size = 0
        try:
            while not self.cut and size < n and (part := self._stream.read1(n - size)):
                parts.append(part)
                size += len(part)
        except EOFError:
            self.cut = True
        except (zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"damaged gzip: {error}", file=str(self.path)) from None
        return b"".join(parts)

    def close(self) -> None:
        self._stream.close()
        self._raw.close()


def pieces(path: Path, piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """The file in pieces of whole lines. Raises UserError for unreadable files and lines over 64 MiB."""
    try:
        stream = Unpacked(path)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=str(path)) from None
    try:
        line, rest = 1, [b""]
        while data := stream.read(piece_bytes):
            end = data.rfind(b"\n") + 1
            if end == 0:
                rest.append(data)
                if sum(map(len, rest)) > MAX_LINE_BYTES:
                    raise UserError(
                        f"a line longer than {MAX_LINE_BYTES // 1024**2} MiB", file=str(path), line=line
                    )
                continue
            piece = Piece(str(path), line, b"".join([*rest, data[:end]]))
            rest = [data[end:]]
            line += piece.n_lines
            yield piece
        if tail := b"".join(rest):
            yield Piece(str(path), line, tail, complete=False)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=str(path)) from None
    finally:
        stream.close()
