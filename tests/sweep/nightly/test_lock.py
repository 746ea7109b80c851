"""A lock is respected while its process lives, and recognised as stale once it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweep.errors import UserError
from sweep.nightly.lock import FILE, locked, own_identity, why_stale


def leave(folder: Path, **other: object) -> None:
    (folder / FILE).write_text(json.dumps(own_identity() | other))


def test_a_held_lock_stops_a_second_run(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError, match="another run holds the lock"), locked(tmp_path):
        pass
    assert not (tmp_path / FILE).exists()


def test_a_lock_goes_when_its_run_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path) as taken:
        assert taken is None


def test_the_lock_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    leave(tmp_path, pid=gone.pid)
    with locked(tmp_path) as taken:
        assert taken == f"process {gone.pid} is gone"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"boot": "another"}, "from before the last boot"),
        ({"start_ticks": 1}, "process {pid} is another one now"),
        ({"pid": "x"}, "names no process"),
    ],
)
def test_a_lock_that_cannot_be_of_a_live_run_is_taken_over(
    tmp_path: Path, other: dict[str, object], why: str
) -> None:
    leave(tmp_path, **other)
    with locked(tmp_path) as taken:
        assert taken == why.format(pid=os.getpid())


def test_a_damaged_lock_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with locked(tmp_path) as taken:
        assert taken == "not readable"


def test_a_lock_of_another_host_counts_for_a_day() -> None:
    held = own_identity() | {"host": "elsewhere"}
    assert why_stale(held, 23.0) is None
    assert why_stale(held, 25.0) == "of host elsewhere, 25 h old"
