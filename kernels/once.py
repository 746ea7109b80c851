"""Parts of the model that are compiled once and called through a symbol.

Numba compiles a callee's code again into every level of its callers: the step model, ten levels below the grid's loop,
would cost ten compilations. A function marked `compiled_once` is compiled on its own, cached on disk under its own
name and registered as a symbol; callers, the grid as well as the simulator, hold a call to that symbol.
"""

import functools
import hashlib
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import llvmlite.binding
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import signature
from numba.extending import lower_builtin, type_callable

from kernels import jit_cache
from kernels.jit import CACHE, ENABLED, OPTIONS

F = TypeVar("F", bound=Callable[..., Any])


def symbol(name: str, arguments: tuple[Any, ...]) -> str:
    """Name under which the function is registered for arguments of these numba types."""
    return f"servesweep_{name}_{hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]}"


def load(module: str, name: str, returns: Any, arguments: tuple[Any, ...]) -> None:
    """Compile or load the function `name` of `module` for numba types `arguments` and register its symbol."""
    if ENABLED:
        _loaded(module, name, returns, arguments)


@functools.cache
def _loaded(module: str, name: str, returns: Any, arguments: tuple[Any, ...]) -> Any:
    """What `load` loads; the cache keeps the code alive."""
    function = getattr(importlib.import_module(module), name)
    with global_compiler_lock, jit_cache.lock(name, CACHE):
        compiled = numba.cfunc(returns(*arguments), cache=CACHE, **OPTIONS)(function)
    llvmlite.binding.add_symbol(symbol(name, arguments), compiled.address)
    return compiled


def compiled_once(returns: Any, reads: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Decorator: kernels call the function through its symbol; it returns the numba type `returns`.

    Arrays that it only `reads` are passed as read-only, so that callers with writable ones share the same code.
    Functions by C's convention (`kernels.calls`) must `load` what they call before they are made.
    """

    def mark(function: F) -> F:
        if ENABLED:
            _teach_numba(function, returns, reads)
        return function

    return mark


def argument_types(
    function: Callable[..., Any], reads: tuple[str, ...], given: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Types by which a call with `given` types passes its arguments."""
    names = function.__code__.co_varnames
    return tuple(
        kind.copy(readonly=True) if name in reads else types.unliteral(kind)
        for name, kind in zip(names, given, strict=False)
    )


def _teach_numba(function: Callable[..., Any], returns: Any, reads: tuple[str, ...]) -> None:
    module, name = function.__module__, function.__name__

    @type_callable(function)
    def typed(context: Any) -> Any:
        @functools.wraps(function)
        def typer(*given: Any) -> Any:
            arguments = argument_types(function, reads, given)
            load(module, name, returns, arguments)
            return signature(returns, *arguments)

        return typer

    @lower_builtin(function, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        values = [context.get_value_type(kind) for kind in sig.args]
        kind = ir.FunctionType(context.get_value_type(sig.return_type), values)
        target = cgutils.get_or_insert_function(builder.module, kind, symbol(name, sig.args))
        # A caller that comes from the cache is linked as it loads: its symbols must be there first.
        context.active_code_library._reload_init.add(functools.partial(load, module, name, returns, sig.args))
        return builder.call(target, arguments)
