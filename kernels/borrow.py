"""Arrays that a kernel uses without owning them.

Numba counts references to an array at every call, with atomic operations that cost more than the arithmetic of a small
kernel, and that threads which share an array (the coefficients) slow for each other. A caller that outlives its
callees lends them arrays that nobody counts.
"""

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

from kernels.mode import ENABLED


@intrinsic
def _borrowed(typing_context, array):
    def build(context, builder, signature, arguments):
        view = context.make_array(array)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        return view._getvalue()

    return (array(array), build) if isinstance(array, types.Array) else None


def _itself(array: Any) -> Any:
    return array


borrowed: Any = _borrowed if ENABLED else _itself
"""`borrowed(array)`: the same memory without a count of references; whoever called keeps it alive."""
