"""servesweep: design-space exploration of LLM serving on arrays.

From Python: `from sweep import sweep, estimate, simulate, plan, frontier`; see `sweep.api`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.api import estimate, frontier, plan, simulate, sweep

__version__ = "0.1.0"
__all__ = ["estimate", "frontier", "plan", "simulate", "sweep"]


class _Package(ModuleType):
    """Keeps the public functions reachable: importing `sweep.frontier` or `sweep.simulate` would put the submodule in
    the place of the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in __all__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    # The functions import numba and polars: only who asks for one waits for that.
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("sweep.api"), name)
    raise AttributeError(f"module 'sweep' has no attribute {name!r}")


sys.modules[__name__].__class__ = _Package
