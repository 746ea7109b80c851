"""Where compiled kernels are kept: one folder per state of the kernels' sources.

Numba looks only at the file of the function it caches, so an edited helper would leave its compiled callers as they
were. A folder named after the digest of every kernel source cannot go stale; folders of older states are removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

import numba

PREFIX = "compiled-"
KEEP_DAYS = 14.0
"""Age after which another state's folder is removed: another checkout may share a user's cache folder."""


def digest() -> str:
    """Digest of the kernels' sources and of numba's version."""
    state = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        state.update(source.name.encode())
        state.update(source.read_bytes())
    return state.hexdigest()[:16]


def root() -> Path:
    """Folder that holds the caches: NUMBA_CACHE_DIR, else beside the kernels, else the user's cache folder."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given)
    beside = Path(__file__).parent / "__pycache__"
    try:
        beside.mkdir(exist_ok=True)
        if os.access(beside, os.W_OK):
            return beside
    except OSError:
        pass
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "servesweep"


def _prune(current: Path) -> None:
    limit = time.time() - KEEP_DAYS * 86400.0
    for folder in current.parent.glob(f"{PREFIX}*"):
        if folder != current and folder.stat().st_mtime < limit:
            shutil.rmtree(folder, ignore_errors=True)


def prepare() -> Path:
    """Point numba at the folder of this state of the sources and return it; a new state tidies up old ones."""
    folder = root() / f"{PREFIX}{digest()}"
    fresh = not folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            _prune(folder)
    except OSError:
        return folder
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # set by name at import
    return folder
