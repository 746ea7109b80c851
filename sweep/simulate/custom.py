"""Routing by a function of the user's: `module:function`, called for every request with the fleet's live state."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.des_layout import DECODE
from sweep.errors import UserError

if TYPE_CHECKING:
    from sweep.simulate.world import World


@dataclass(frozen=True)
class Arrival:
    """The request to place: its row in the trace, lengths in tokens, and the time."""

    row: int
    prompt_tokens: int
    output_tokens: int
    now_ns: int


@dataclass(frozen=True)
class Live:
    """An instance as it is at this moment."""

    waiting: int
    running: int
    free_blocks: int
    blocks: int
    queued_tokens: int


Custom = Callable[[Arrival, list[Live]], int]
"""Index of the chosen instance, among those that take new requests."""


def entry_point(text: str) -> Custom:
    """The function that `module:function` names, the working directory included. Raises UserError where there is none."""
    where: dict[str, Any] = {"field": "routing", "value": text}
    module, colon, name = text.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise UserError("not a function", allowed="module:function", **where)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise UserError(f"cannot be imported: {type(error).__name__} {error}", **where) from None
    if not callable(found):
        raise UserError(f"module {module} has no function {name}", **where)
    function: Custom = found
    return function


def answer(world: World, custom: Custom) -> None:
    """Ask the user's function where the waiting request goes. Raises UserError for an answer that is no instance."""
    row = int(world["asked"])
    request, inst = world.req[row], world.inst
    taking = inst[inst["role"] != DECODE]
    now = max(int(world["now"]), int(request["arrival"]))
    arrival = Arrival(row, int(request["isl"]), int(request["osl"]), now)
    live = [
        Live(
            int(one["n_waiting"]),
            int(one["n_running"]),
            int(one["n_free"]),
            int(one["n_blocks"]),
            int(one["queued_tokens"]),
        )
        for one in taking
    ]
    try:
        chosen = custom(arrival, live)
    except Exception as error:
        raise UserError(f"the function raised {type(error).__name__}: {error}", field="routing") from None
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < len(live):
        raise UserError("is no instance", field="routing", value=chosen, allowed=f"0 to {len(live) - 1}")
    world.record[0]["answer"], world.record[0]["asked"] = chosen, -1
