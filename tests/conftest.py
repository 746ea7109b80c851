"""Fixtures that several test modules share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared():
    """Folder of measured facts beside the repository (or $SERVESWEEP_SHARED); skips where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SERVESWEEP_SHARED", beside))
    if not folder.is_dir():
        pytest.skip(f"no measured data at {folder}")
    return folder
