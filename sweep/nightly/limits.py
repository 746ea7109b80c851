"""A job that nobody watches ends by itself, and leaves no lock behind when it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 143
"""Exit status of a process that SIGTERM ended."""


class TimeUp(Exception):
    """The job took longer than it may."""


@contextmanager
def limited(minutes: float) -> Iterator[None]:
    """Raise TimeUp in the main thread after so many minutes, and leave in good order on SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [
        signal.signal(signal.SIGALRM, _time_up),
        signal.signal(signal.SIGTERM, _stopped),
    ]
    signal.setitimer(signal.ITIMER_REAL, 60.0 * minutes)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGTERM, before[1])


def _time_up(number: int, frame: FrameType | None) -> None:
    raise TimeUp


def _stopped(number: int, frame: FrameType | None) -> None:
    raise SystemExit(STOPPED)
