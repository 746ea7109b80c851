"""Fixtures that several test modules share."""

import os
from pathlib import Path

import hypothesis
import pytest

# A first example may compile a kernel, and a machine may be slow or busy: only what is found counts, not when.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("servesweep", deadline=None, suppress_health_check=SLOW)
hypothesis.settings.load_profile("servesweep")


@pytest.fixture(scope="session")
def shared():
    """Folder of measured facts beside the repository (or $SERVESWEEP_SHARED); skips where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SERVESWEEP_SHARED", beside))
    if not folder.is_dir():
        pytest.skip(f"no measured data at {folder}")
    return folder
