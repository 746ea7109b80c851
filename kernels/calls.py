"""Calls through an address.

The simulator's kernels know their own records but not the input record, whose fields `sweep.fields` declares. What
reads it, the price of a step, is made for that record and called through an address that the simulation's record holds.
"""

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.jit import CACHE
from kernels.mode import ENABLED

WORD, REAL = types.int64, types.float64
PRICE = REAL(WORD, WORD, REAL, REAL, REAL, REAL, REAL, REAL)
"""(world address, instance, decode seqs, context, queries, prefill seqs, tokens, prior) -> us"""


def _caller(signature: Any) -> Any:
    names = {WORD: ir.IntType(64), REAL: ir.DoubleType()}

    def build(context, builder, types_, arguments):
        kind = ir.FunctionType(names[signature.return_type], [names[a] for a in signature.args])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return build


@intrinsic
def _price(typing_context, address, world, i, decode, context, queries, prefill, tokens, prior):
    return PRICE.return_type(WORD, *PRICE.args), _caller(PRICE)


PLAIN: list[Any] = []
"""Callbacks where kernels run as plain Python: an address is an index here."""


def _plain(address: int, *arguments: Any) -> Any:
    return PLAIN[int(address)](*arguments)


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
