"""Where compiled kernels are kept: one folder per state of the kernels' sources, shared by all checkouts of a user.

Numba looks only at the file of the function it caches, so an edited helper would leave its compiled callers as they
were; and it keys its cache by path, so that each checkout compiles again. A folder named after the digest of every
kernel source cannot go stale and needs no path; folders of older states are removed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

try:
    import fcntl
except ImportError:  # no file locks on Windows: processes that start together compile each for itself
    fcntl = None  # type: ignore[assignment]

PREFIX = "compiled-"
KEEP_DAYS = 14.0
"""Age after which another state's folder is removed: checkouts in different states share a user's cache folder."""


@functools.cache
def digest() -> str:
    """Digest of the kernels' sources and of numba's version."""
    state = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        state.update(source.name.encode())
        state.update(source.read_bytes())
    return state.hexdigest()[:16]


def _roots() -> Iterator[Path]:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given)
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "servesweep"
    yield Path(__file__).parent / "__pycache__"


@functools.cache
def folder() -> Path | None:
    """Folder of this state: under NUMBA_CACHE_DIR, the user's cache folder or beside the kernels; None if all are read-only."""
    for root in _roots():
        path = root / f"{PREFIX}{digest()}"
        try:
            fresh = not path.is_dir()
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            if fresh:
                _prune(path)
            return path
    return None


def _prune(current: Path) -> None:
    limit = time.time() - KEEP_DAYS * 86400.0
    for other in current.parent.glob(f"{PREFIX}*"):
        try:
            if other != current and other.stat().st_mtime < limit:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue


class KernelLocator(caching._CacheLocator):  # the hook that numba documents
    """Numba's question where a function's cache is, answered for the kernels only."""

    def __init__(self, line: int) -> None:
        self.line = line

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> KernelLocator | None:
        if Path(py_file).parent != Path(__file__).parent or folder() is None:
            return None
        return cls(py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        return str(folder())

    def get_source_stamp(self) -> str:
        return digest()

    def get_disambiguator(self) -> str:
        return str(self.line)


def prepare() -> bool:
    """Make numba keep the kernels in `folder()`, and other packages' functions where it did; False without a folder."""
    if folder() is None:
        return False
    locators = numba.config.CACHE_LOCATOR_CLASSES  # type: ignore[attr-defined]  # set by name at import
    if not locators:
        locators = ",".join(locator.__name__ for locator in caching.CacheImpl._locator_classes)
    own = f"{__name__}.{KernelLocator.__name__}"
    if own not in locators:
        numba.config.CACHE_LOCATOR_CLASSES = f"{own},{locators}"  # type: ignore[attr-defined]
    return True


@contextmanager
def lock(name: str, shared: bool = True) -> Iterator[None]:
    """Keep other processes from compiling `name` meanwhile: they wait and load the result. Not where nothing is shared."""
    path = folder()
    if fcntl is None or path is None or not shared:
        yield
        return
    with open(path / f"{name}.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
