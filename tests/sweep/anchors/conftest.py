"""The store that tests of anchors share."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.anchors.store import save
from tests.sweep.anchors.measured import measured


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return save(tmp_path / "store", [measured()])
