"""Waiting for what another process does, on any machine and under any load: for the event, not for a time."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

HANGS_S = 900.0
"""Nothing that tests wait for takes this long on a machine five times slower than usual: only a hang does."""


def wait_for(event: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Return once `event` holds, or `process` has ended; an AssertionError where neither comes."""
    until = time.monotonic() + HANGS_S
    while not event() and (process is None or process.poll() is None):
        assert time.monotonic() < until, f"waited {HANGS_S:g} s in vain"
        time.sleep(0.002)
