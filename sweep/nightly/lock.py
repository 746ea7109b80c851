"""One run at a time per folder: a lock file that names its process, so that a dead one's is recognised."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweep.errors import UserError
from sweep.files import write_atomic

FILE, GUARD = ".lock", ".lock-guard"
FOREIGN_HOURS = 24.0
"""A lock of another host, whose processes cannot be seen, is taken for dead after this time."""


def own_identity() -> dict[str, Any]:
    """Host, boot and process, which no later process shares."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot_id(), "pid": pid, "start_ticks": _start_ticks(pid)}


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where it does not run (or /proc is missing)."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def why_stale(held: dict[str, Any], age_h: float) -> str | None:
    """Why the holder of a lock cannot be alive; None where it may be."""
    me = own_identity()
    if held.get("host") != me["host"]:
        return f"of host {held.get('host')}, {age_h:.0f} h old" if age_h > FOREIGN_HOURS else None
    if held.get("boot") != me["boot"]:
        return "from before the last boot"
    pid = held.get("pid")
    if not isinstance(pid, int):
        return "names no process"
    if not _runs(pid):
        return f"process {pid} is gone"
    return f"process {pid} is another one now" if _start_ticks(pid) != held.get("start_ticks") else None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def locked(folder: Path) -> Iterator[str | None]:
    """Hold the folder's lock; yields why an older lock was taken over, if one was. Raises UserError where it is held."""
    path, mine = folder / FILE, False
    try:
        with _guarded(folder):
            taken = _take_over(path)
            mine = True
            write_atomic(path, json.dumps(own_identity()).encode())
        yield taken
    finally:
        if mine:
            path.unlink(missing_ok=True)


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Only one process at a time looks at the lock and writes it."""
    with open(folder / GUARD, "ab") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _take_over(path: Path) -> str | None:
    try:
        held = json.loads(path.read_bytes())
        age_h = (time.time() - path.stat().st_mtime) / 3600.0
    except FileNotFoundError:
        return None
    except ValueError:
        return "not readable"
    stale = why_stale(held, age_h) if isinstance(held, dict) else "not readable"
    if stale is None:
        raise UserError(
            f"another run holds the lock: process {held.get('pid')} on {held.get('host')}, for {age_h * 60:.0f} min",
            file=str(path),
        )
    return stale
