"""Calls through an address.

A kernel that calls another by name is compiled with all of its code, again at every level of callers. Two large
parts of the simulator, the price of a batch and the step model below it, are therefore compiled once each and
called through addresses that the simulation's record holds.
"""

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.jit import CACHE, ENABLED

WORD, REAL = types.int64, types.float64
LAUNCH = WORD(WORD, WORD, WORD)
"""(world address, batches, now) -> 0"""
PRICE = REAL(WORD, WORD, REAL, REAL, REAL, REAL, REAL, REAL)
"""(world address, instance, decode seqs, context, queries, prefill seqs, tokens, prior) -> us"""


def _caller(signature: Any) -> Any:
    names = {WORD: ir.IntType(64), REAL: ir.DoubleType()}

    def build(context, builder, types_, arguments):
        kind = ir.FunctionType(names[signature.return_type], [names[a] for a in signature.args])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return build


@intrinsic
def _launch(typing_context, address, world, n_members, now):
    return LAUNCH.return_type(WORD, *LAUNCH.args), _caller(LAUNCH)


@intrinsic
def _price(typing_context, address, world, i, decode, context, queries, prefill, tokens, prior):
    return PRICE.return_type(WORD, *PRICE.args), _caller(PRICE)


PLAIN: list[Any] = []
"""Callbacks where kernels run as plain Python: an address is an index here."""


def _plain(address: int, *arguments: Any) -> Any:
    return PLAIN[int(address)](*arguments)


call_launch: Any = _launch if ENABLED else _plain
call_price: Any = _price if ENABLED else _plain


def callback(signature: Any) -> Any:
    """Decorator: compile a function with C's calling convention; its address is `.address`."""
    if ENABLED:
        return numba.cfunc(signature, cache=CACHE)

    def register(function: Any) -> Any:
        function.address = len(PLAIN)
        PLAIN.append(function)
        return function

    return register
