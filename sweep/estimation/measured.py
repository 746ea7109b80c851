"""Whether an estimate is to be scaled by measured points, from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweep.errors import UserError

STORE, FILE = "fidelity.anchors", "fidelity.load_benchmark"
SCALING, FLOOR, SAVE = (
    "fidelity.load_benchmark_scaling",
    "fidelity.decode_floor_benchmark",
    "bench.save_benchmark",
)
MODE = "fidelity.profiling_mode"


def is_anchored(settings: Mapping[str, Any]) -> bool:
    """Whether measured points are to be applied. Raises UserError where they are asked for and none are given."""
    given = bool(settings.get(STORE) or settings.get(FILE))
    mode = settings.get(MODE) or ("benchmark" if given else "simulate")
    if mode != "simulate" and not given:
        raise UserError(
            "nothing is measured here: an anchor is needed (--anchor-store PATH or --load-benchmark FILE); "
            "`servesweep anchor` with the same options prints what to run",
            field="--profiling-mode",
            value=mode,
            allowed="simulate",
        )
    return given and mode != "simulate"
