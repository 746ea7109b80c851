"""Foreign code that talks to the terminal when it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2


@contextmanager
def muted_stderr() -> Iterator[None]:
    """Nothing that the process writes to stderr appears: a decoder that panics over a damaged file prints a page there."""
    try:
        kept = os.dup(STDERR)
    except OSError:  # closed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
        os.close(nowhere)
