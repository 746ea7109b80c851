"""The process that decodes other people's parquet files: over some damage polars ends its process, and then only this one ends.

It is run as a file, so that it imports nothing but polars. A request is a line of JSON on stdin: `file`, and either `height`
or `columns` (null: all), `start` and `rows`. The answer on stdout is one byte of kind, the length of the rest in eight bytes,
little-endian, and the rest: a table in Arrow's streaming format, or the reason why there is none.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any, BinaryIO

TABLE, REFUSED, PANICKED = b"T", b"R", b"P"
LENGTH_BYTES = 8
MOST_BYTES = 8 * 1024**3
"""Address space beside the file itself, which is mapped: a damaged size ends in a failed allocation, not in a full machine."""


def bound_memory(file_bytes: int) -> None:
    """Bound this process's address space for a file of this size; where the system has no such bound there is none."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES + file_bytes, hard))


def answer(request: dict[str, Any]) -> memoryview:
    """The table that is asked for, in Arrow's streaming format."""
    import polars as pl

    scan = pl.scan_parquet(request["file"], glob=False, hive_partitioning=False)
    if request.get("height"):
        frame = scan.select(pl.len()).collect()
    else:
        wanted = scan if request["columns"] is None else scan.select(request["columns"])
        frame = wanted.slice(request["start"], request["rows"]).collect()
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getbuffer()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more, or until polars has panicked, which may leave locks behind."""
    import polars as pl

    for line in requests:
        request = json.loads(line)
        try:
            bound_memory(os.path.getsize(request["file"]))
            kind, content = TABLE, answer(request)
        except (Exception, pl.exceptions.PanicException) as error:
            kind = PANICKED if isinstance(error, pl.exceptions.PanicException) else REFUSED
            content = memoryview((str(error) or type(error).__name__).encode("utf-8", "replace"))
        answers.write(kind + len(content).to_bytes(LENGTH_BYTES, "little"))
        answers.write(content)
        answers.flush()
        if kind == PANICKED:
            return


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
