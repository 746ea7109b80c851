"""The one place that sets numba options for every kernel.

`SERVESWEEP_NUMBA_CACHE=0` switches the on-disk cache off; `SERVESWEEP_JIT=0` runs the
kernels as plain Python (coverage, debugging).
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from kernels import jit_cache

F = TypeVar("F", bound=Callable[..., Any])

CACHE = os.environ.get("SERVESWEEP_NUMBA_CACHE", "1") != "0"
ENABLED = os.environ.get("SERVESWEEP_JIT", "1") != "0"
if CACHE and ENABLED:
    jit_cache.prepare()


def kernel(function: F) -> F:
    """Compile `function` in nopython mode, without the GIL, cached on disk."""
    if not ENABLED:
        return function
    # error_model="numpy": a division by zero is an infinity that the caller guards, not a branch
    # on every division; fastmath stays off so that every machine computes the same bits.
    compiled: Any = numba.njit(cache=CACHE, nogil=True, fastmath=False, error_model="numpy")(function)
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Like `kernel`, for small helpers that LLVM should inline into their callers."""
    if not ENABLED:
        return function
    compiled: Any = numba.njit(
        cache=CACHE, nogil=True, fastmath=False, error_model="numpy", forceinline=True
    )(function)
    return cast(F, compiled)


def internal(function: F) -> F:
    """Like `kernel`, for functions that only other kernels call: no wrapper for Python, no cache entry of its own.

    The caller's cache entry contains them; a wrapper that unpacks dozens of arrays would cost most of the
    compile time.
    """
    if not ENABLED:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": False,
        "error_model": "numpy",
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }
    return cast(F, numba.njit(**options)(function))
