"""Steps whose results outlive a killed run: kept in a work folder under the digest of their inputs."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from sweep.files import write_atomic
from sweep.nightly.events import Events
from sweep.nightly.traffic import Traffic
from sweep.parts import DIGEST_LENGTH, digest, parquet_bytes

WORK = ".work-"
"""Start of a work folder's name, before its night."""
TABLES = ("hours", "earlier", "peak")


def digest_of(*values: Any) -> str:
    """Digest of plain values."""
    return digest(json.dumps(values, sort_keys=True, default=str).encode())[:DIGEST_LENGTH]


class Steps:
    """Results of the steps of one night that is being worked on."""

    def __init__(self, job_folder: Path, night: str, events: Events) -> None:
        self.job_folder, self.folder, self.events = job_folder, job_folder / f"{WORK}{night}", events
        self.folder.mkdir(exist_ok=True)

    def plain(self, name: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A step whose result is plain values; computed unless the work folder has it for the same `key`."""
        path = self.folder / f"{name}.{key}.json"
        if path.is_file():
            self.events.tell("resumed", step=name)
        else:
            with self.events.timed(name):
                write_atomic(path, json.dumps(compute(), allow_nan=False).encode())
        # Read back in both cases, so that a resumed night cannot differ from one in a single run.
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found

    def traffic(self, key: str, compute: Callable[[], Traffic]) -> Traffic:
        """The step that reads the log."""

        def kept() -> dict[str, Any]:
            found = compute()
            for name in TABLES:
                write_atomic(self._table(name, key), parquet_bytes(getattr(found, name)))
            return {"night": found.night.isoformat(), "notes": list(found.notes)}

        facts = self.plain("read", key, kept)
        tables = {name: pl.read_parquet(io.BytesIO(self._table(name, key).read_bytes())) for name in TABLES}
        return Traffic(date.fromisoformat(facts["night"]), **tables, notes=tuple(facts["notes"]))

    def _table(self, name: str, key: str) -> Path:
        return self.folder / f"{name}.{key}.parquet"

    def clear(self) -> None:
        """Remove the work folder, and those of other nights: they were given up, since this one holds the job's lock."""
        for folder in self.job_folder.glob(f"{WORK}*"):
            shutil.rmtree(folder, ignore_errors=True)
