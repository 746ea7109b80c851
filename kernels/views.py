"""Arrays reached through a record of addresses.

A simulation works on dozens of arrays. Handing them to every kernel as arguments would make each signature
hundreds of words long and compilation minutes long; a record that holds their addresses and shapes is one
pointer. Whoever fills the record keeps the arrays alive (`sweep.simulate.world.World` does).
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from kernels.jit import internal
from kernels.mode import ENABLED, record_type

carray: Any = numba.carray  # type: ignore[attr-defined]


@intrinsic
def _as_pointer(typing_context, address):
    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), build


_pointer: Any = _as_pointer


def fields(names: str, n_axes: int) -> list[tuple[Any, ...]]:
    """Record fields for the arrays `names`: an address each, and `<name>_shape` with `n_axes` lengths."""
    out: list[tuple[Any, ...]] = []
    for name in names.split():
        out += [(name, np.int64), (f"{name}_shape", np.int64, (n_axes,))]
    return out


def bind(record: np.ndarray, name: str, array: np.ndarray) -> None:
    """Enter `array` into a record (shape (1,)). The caller keeps the array alive."""
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not contiguous")
    record[name] = array.ctypes.data
    record[f"{name}_shape"] = array.shape


def _plain_view(name: str, dtype: Any) -> Callable[..., Any]:
    """Accessor for kernels that run as plain Python."""
    record = record_type(np.dtype(dtype)) if np.dtype(dtype).names else np.dtype(dtype)

    def access(w: Any) -> Any:
        shape = tuple(int(n) for n in w[f"{name}_shape"])
        n_bytes = int(np.prod(shape)) * record.itemsize
        if n_bytes == 0:
            return np.zeros(shape, record)
        memory: Any = (ctypes.c_char * n_bytes).from_address(int(w[name]))
        return np.frombuffer(memory, record).reshape(shape)

    return access


def view(name: str, dtype: Any, n_axes: int = 1) -> Callable[..., Any]:
    """Accessor `f(record)` of the array called `name`, with `n_axes` axes (1 to 4)."""
    if not ENABLED:
        return _plain_view(name, dtype)
    shape = f"{name}_shape"
    if n_axes == 1:

        @internal
        def access(w):
            return carray(_pointer(w[name]), (w[shape][0],), dtype)

    elif n_axes == 2:

        @internal
        def access(w):
            s = w[shape]
            return carray(_pointer(w[name]), (s[0], s[1]), dtype)

    elif n_axes == 3:

        @internal
        def access(w):
            s = w[shape]
            return carray(_pointer(w[name]), (s[0], s[1], s[2]), dtype)

    else:

        @internal
        def access(w):
            s = w[shape]
            return carray(_pointer(w[name]), (s[0], s[1], s[2], s[3]), dtype)

    return access


@internal
def _records(address, n, dtype):
    return carray(_pointer(address), (n,), dtype)


def _plain_records(address: int, n: int, dtype: Any) -> Any:
    memory: Any = (ctypes.c_char * (n * dtype.itemsize)).from_address(int(address))
    return np.frombuffer(memory, record_type(dtype))


records: Any = _records if ENABLED else _plain_records
"""`records(address, n, dtype)`: the array of `n` records at an address."""


def record_at(dtype: np.dtype) -> Callable[..., Any]:
    """Accessor `f(address)` of one record."""
    if not ENABLED:

        def plain(address: int) -> Any:
            memory: Any = (ctypes.c_char * dtype.itemsize).from_address(int(address))
            return np.frombuffer(memory, record_type(dtype))[0]

        return plain

    @internal
    def access(address):
        return carray(_pointer(address), (1,), dtype)[0]

    return access
