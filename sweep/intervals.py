"""p10 and p90 of the latency estimates and the evidence behind them, for one deployment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sweep.anchors.laws import remaining_width
from sweep.catalog.engine_layer import NEAR, REACH, Interval, interval
from sweep.results import BOUNDS, LOWER_BOUND

BELOW_EVERY_ENGINE = Interval(math.nan, math.nan, math.nan, math.nan, LOWER_BOUND)
"""The roofline estimates no engine: it has no interval, whatever runs is slower."""
CHANGED = ("model.", "hardware.")
"""Keys whose change by hand makes another architecture or accelerator than the measured one."""

ANCHORED_NEAR = 0.5
"""Weight of a measured correction from which an estimate counts as measured near."""


def interval_of(
    model: str, hardware: str, engine: str, fidelity: str, pooled: bool = False, inside: bool = True
) -> Interval:
    """The interval of an estimate; `model` is a catalogue name, empty for an architecture changed by hand.

    `pooled`: prefill and decode run in pools of their own; `inside`: see `is_inside`.
    """
    return BELOW_EVERY_ENGINE if fidelity == "roofline" else interval(model, hardware, engine, pooled, inside)


def is_inside(doublings: Any) -> Any:
    """Whether deployments stand inside what was measured of their combination, or close (column doublings_from_measured)."""
    return np.less_equal(doublings, REACH)


def narrowed(found: Interval, ttft_weight: float, tpot_weight: float) -> Interval:
    """The interval after corrections of these weights by measured points."""
    ttft, tpot = (float(remaining_width(weight)) for weight in (ttft_weight, tpot_weight))
    return Interval(
        found.ttft_p10**ttft,
        found.ttft_p90**ttft,
        found.tpot_p10**tpot,
        found.tpot_p90**tpot,
        NEAR if tpot_weight >= ANCHORED_NEAR else found.support,
    )


def bounds_of(found: Interval, ttft_ms: float, tpot_ms: float) -> dict[str, float]:
    """The interval's bounds in ms, by column name."""
    return {name: f * (ttft_ms if name.startswith("ttft") else tpot_ms) for name, f in factors_of(found)}


def factors_of(found: Interval) -> list[tuple[str, float]]:
    """Column and factor of each bound, in the order of `sweep.results.BOUNDS`."""
    factors = (found.ttft_p10, found.ttft_p90, found.tpot_p10, found.tpot_p90)
    return [(column.name, factor) for column, factor in zip(BOUNDS, factors, strict=True)]
