"""The folder of a job: one dated folder per night, complete or absent, and the history of all of them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from sweep.errors import UserError
from sweep.files import TEMPORARY, write_atomic
from sweep.manifest import FILE as MANIFEST
from sweep.parquet_file import ParquetDecoder
from sweep.parts import digest, parquet_bytes

PLAN, HOURS, HISTORY = "plan.json", "hours.parquet", "history.parquet"
_NIGHT = re.compile(r"\d{4}-\d\d-\d\d")
_NEW, _OLD = ".new-", ".old-"
HISTORY_SCHEMA = {
    "night": pl.Date,
    "log_name": pl.String,
    "model": pl.String,
    "status": pl.String,
    "requests": pl.Int64,
    "planned_requests_per_s": pl.Float64,
    "plan": pl.String,
    "hardware": pl.String,
    "gpus": pl.Int64,
    "usd_per_hour": pl.Float64,
    "usd_per_m_total": pl.Float64,
    "changed": pl.Boolean,
    "announced": pl.Boolean,
}


def mend(folder: Path) -> None:
    """Put right what a killed run left: half-made nights go, a night that was being replaced comes back."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(_OLD):
            night = folder / path.name.removeprefix(_OLD)
            if night.exists():
                shutil.rmtree(path)
            else:
                os.rename(path, night)
        elif path.name.startswith(_NEW):
            shutil.rmtree(path)
        elif path.name.startswith(TEMPORARY):
            path.unlink()


def inputs_of(folder: Path, night: date) -> str | None:
    """Digest of what a finished night was made from; None where there is none or its files are not what they were."""
    own = folder / night.isoformat()
    try:
        found = json.loads((own / MANIFEST).read_bytes())
        sound = all(digest((own / name).read_bytes()) == sha for name, sha in found["files"].items())
        return str(found["inputs"]) if sound else None
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None


def publish(folder: Path, night: date, inputs: str, files: Mapping[str, bytes]) -> Path:
    """Put a night in its place in one step, with a manifest of its files; an older version goes, or stays where this fails."""
    new, own, old = (folder / f"{prefix}{night}" for prefix in (_NEW, "", _OLD))
    try:
        _fill(new, night, inputs, files)
        if own.exists():
            os.rename(own, old)
        os.rename(new, own)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        if old.exists() and not own.exists():
            os.rename(old, own)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return own


def _fill(new: Path, night: date, inputs: str, files: Mapping[str, bytes]) -> None:
    """A folder of the night's files and their manifest."""
    new.mkdir()
    for name, content in files.items():
        write_atomic(new / name, content)
    manifest = {
        "night": night.isoformat(),
        "inputs": inputs,
        "files": {n: digest(c) for n, c in files.items()},
    }
    write_atomic(new / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def nights(folder: Path, before: date = date.max) -> tuple[dict[date, dict[str, Any]], list[str]]:
    """plan.json of every night before a day, in order, and remarks on those that cannot be read."""
    found: dict[date, dict[str, Any]] = {}
    notes = []
    for path in sorted(
        p for p in folder.iterdir() if _NIGHT.fullmatch(p.name) and p.name < before.isoformat()
    ):
        try:
            plan = json.loads((path / PLAN).read_bytes())
            rows_of(date.fromisoformat(path.name), plan)
            found[date.fromisoformat(path.name)] = plan
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            notes.append(f"the night of {path.name} cannot be read and was left out")
    return found, notes


def hours_of(folder: Path, night: date, decoder: ParquetDecoder) -> pl.DataFrame | None:
    """The hourly table of an earlier night."""
    try:
        return decoder.table(folder / night.isoformat() / HOURS, ["model", "hour", "rate_per_s"])
    except UserError:
        return None


def rows_of(night: date, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the history: one per model of the night."""
    rows = []
    for one in plan["models"]:
        answer = one.get("answer") or {}
        rows.append(
            {
                "night": night,
                "log_name": one["log_name"],
                "model": one.get("model"),
                "status": one["status"],
                "requests": one["requests"],
                "planned_requests_per_s": one.get("planned_requests_per_s"),
                **{
                    name: answer.get(name)
                    for name in ("plan", "hardware", "gpus", "usd_per_hour", "usd_per_m_total")
                },
                "changed": one["changed"],
                "announced": one["announced"],
            }
        )
    return rows


def history(plans: Mapping[date, Mapping[str, Any]]) -> pl.DataFrame:
    """The history of all nights, in order."""
    rows = [row for night, plan in plans.items() for row in rows_of(night, plan)]
    return pl.DataFrame(rows, schema=HISTORY_SCHEMA).sort("night", "log_name")


def write_history(folder: Path) -> None:
    """Rewrite history.parquet from the nights, so that a lost or damaged one comes back by itself."""
    content = parquet_bytes(history(nights(folder)[0]))
    path = folder / HISTORY
    if not path.is_file() or path.read_bytes() != content:
        write_atomic(path, content)


def announced_fleet(
    plans: Mapping[date, Mapping[str, Any]], log_name: str
) -> tuple[date, dict[str, Any]] | None:
    """The latest plan of a model that was told to people, and its night."""
    for night in sorted(plans, reverse=True):
        for one in plans[night]["models"]:
            if one["log_name"] == log_name and one["announced"]:
                return night, one
    return None


def missing_before(night: date, seen: Sequence[date]) -> str | None:
    """A remark where the night before is missing although earlier ones are there."""
    if not seen or (night - max(seen)).days == 1:
        return None
    return f"no night of the day before: compared with nights up to {max(seen)}"
