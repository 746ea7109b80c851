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
from numba.core.typing.templates import signature
from numba.extending import lower_builtin, type_callable

from kernels import jit_cache
from kernels.jit import CACHE, OPTIONS, one_process_at_a_time
from kernels.mode import ENABLED

F = TypeVar("F", bound=Callable[..., Any])


def symbol(name: str, arguments: tuple[Any, ...]) -> str:
    """Name under which the function is registered for arguments of these numba types."""
    return f"servesweep_{name}_{hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]}"


@functools.cache
def load(module: str, name: str, arguments: tuple[Any, ...]) -> Any:
    """Compile the function `name` of `module` for numba types `arguments`, or load it, and register its symbol.

    Returns numba's compile result, which has its return type (None where kernels run as plain Python); the memory of
    calls keeps the code alive.
    """
    if not ENABLED:
        return None
    function = getattr(importlib.import_module(module), name)
    # The wrapper for C is what other modules can call; the one for Python is not needed.
    options = {**OPTIONS, "cache": CACHE, "no_cpython_wrapper": True}
    compiled: Any = numba.njit(**options)(function)
    one_process_at_a_time(name, compiled.compile)(arguments)
    result = compiled.overloads[arguments]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
    llvmlite.binding.add_symbol(symbol(name, arguments), address)
    return result


def is_compiled(name: str) -> bool:
    """Whether the disk cache has the function `name`, or never will."""
    folder = jit_cache.folder()
    return not CACHE or folder is None or any(folder.glob(f"*.{name}-*.nbi"))


def compiled_once(reads: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Decorator: kernels call the function through its symbol.

    Arrays that it only `reads` are passed as read-only, so that callers with writable ones share the same code.
    Callbacks (`kernels.calls`) must `load` what they call before they are made.
    """

    def mark(function: F) -> F:
        if ENABLED:
            _teach_numba(function, reads)
        return function

    return mark


def _teach_numba(function: Callable[..., Any], reads: tuple[str, ...]) -> None:
    names = function.__code__.co_varnames
    module, name = function.__module__, function.__name__

    @type_callable(function)
    def typed(context: Any) -> Any:
        @functools.wraps(function)
        def typer(*given: Any) -> Any:
            arguments = tuple(
                kind.copy(readonly=True) if label in reads else types.unliteral(kind)
                for label, kind in zip(names, given, strict=False)
            )
            return signature(load(module, name, arguments).signature.return_type, *arguments)

        return typer

    @lower_builtin(function, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        values = [context.get_value_type(kind) for kind in sig.args]
        kind = ir.FunctionType(context.get_value_type(sig.return_type), values)
        target = cgutils.get_or_insert_function(builder.module, kind, symbol(name, sig.args))
        # A caller that comes from the cache is linked as it loads: its symbols must be there first.
        context.active_code_library._reload_init.add(functools.partial(load, module, name, sig.args))
        return builder.call(target, arguments)
