"""The job's structured log: one JSON object per line, appended; the only file that knows when and how long."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "nightly.jsonl"
MOST_BYTES = 8 * 1024**2
"""Beyond it the log is kept as nightly.jsonl.1 and begun again."""


class Events:
    """Appends events of one run. A log that cannot be written does not stop the job."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.run = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}"
        try:
            if self.path.stat().st_size > MOST_BYTES:
                os.replace(self.path, self.path.with_name(FILE + ".1"))
        except OSError:
            pass

    def tell(self, event: str, **more: Any) -> None:
        """One line: time (UTC), run, event and whatever else is said."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": moment, "run": self.run, "event": event, **more}, default=str) + "\n"
        try:
            with open(self.path, "ab", buffering=0) as file:
                file.write(line.encode())
        except OSError:
            pass

    @contextmanager
    def timed(self, step: str, **more: Any) -> Iterator[None]:
        """Tells that a step is done, how long it took and the most memory the process has held."""
        start = time.monotonic()
        yield
        seconds = round(time.monotonic() - start, 3)
        self.tell("step", step=step, seconds=seconds, peak_rss_mib=peak_rss_mib(), **more)


def peak_rss_mib() -> float:
    """Most resident memory of this process so far, MiB."""
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0, 1)
