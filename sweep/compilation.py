"""A first compilation takes a while: say so instead of looking dead."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 4.0
"""Loading compiled kernels from the cache takes less than this, on a busy machine too."""


@contextmanager
def announced() -> Iterator[None]:
    """Around a kernel's first call: one line on stderr if it takes longer than loading from the cache does."""
    line = "compiling the kernels, once per machine and version (about a minute) ..."
    timer = threading.Timer(PATIENCE_S, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
