"""The one place that sets numba options for every kernel.

`SERVESWEEP_NUMBA_CACHE=0` switches the on-disk cache off; `SERVESWEEP_JIT=0` runs the
kernels as plain Python (coverage, debugging).
"""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import typeof_impl

from kernels import jit_cache
from kernels.mode import ENABLED

F = TypeVar("F", bound=Callable[..., Any])

CACHE = ENABLED and os.environ.get("SERVESWEEP_NUMBA_CACHE", "1") != "0" and jit_cache.prepare()

# error_model="numpy": a division by zero is an infinity that the caller guards, not a branch
# on every division; fastmath stays off so that every machine computes the same bits.
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": False, "error_model": "numpy"}
NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only other kernels call: unpacking records from Python would cost a third of compile time."""


class Kernel:
    """A function compiled when it is first called: with a wrapper and a cache entry for Python, without for kernels.

    The cache entry of the kernel that Python calls contains those that it calls.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.inner: Any = numba.njit(**OPTIONS, **NO_WRAPPERS, **options)(function)
        self.entry: Any = numba.njit(cache=CACHE, **OPTIONS)(function)
        self.entry.compile = one_process_at_a_time(function.__name__, self.entry.compile)

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    def __reduce__(self) -> str:
        return self.__wrapped__.__qualname__  # type: ignore[no-any-return, attr-defined]  # set by update_wrapper


@typeof_impl.register(Kernel)
def _type_in_kernels(value: Kernel, context: Any) -> Any:
    return numba.types.Dispatcher(value.inner)


def _without_constants(template: Callable[..., Any]) -> Callable[..., Any]:
    """`template` (numba's question how a call is typed) without a version of the code for each constant argument."""

    def typed(args: Any, kws: Any) -> Any:
        return template(tuple(numba.types.unliteral(kind) for kind in args), kws)

    return typed


def one_process_at_a_time(name: str, compile_: Callable[..., Any]) -> Callable[..., Any]:
    """`compile_` (which also loads from the cache) while no other process compiles the kernel `name`."""

    def locked(signature: Any) -> Any:
        with global_compiler_lock, jit_cache.lock(name, CACHE):
            return compile_(signature)

    return locked


def kernel(function: F) -> F:
    """Compile `function` in nopython mode, without the GIL, cached on disk."""
    return cast(F, Kernel(function)) if ENABLED else function


def inlined(function: F) -> F:
    """Like `kernel`, for helpers that LLVM should inline into their callers, where it sees which arguments are constants."""
    if not ENABLED:
        return function
    compiled = Kernel(function, forceinline=True)
    compiled.inner.get_call_template = _without_constants(compiled.inner.get_call_template)
    return cast(F, compiled)


def internal(function: F) -> F:
    """Like `kernel`, for functions that only other kernels call."""
    return cast(F, numba.njit(**OPTIONS, **NO_WRAPPERS)(function)) if ENABLED else function
