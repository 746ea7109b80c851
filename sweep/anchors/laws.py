"""Laws by which a measurement carries over: how far it counts, over TP, and as a floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reach:
    """Doublings over which half of a measured correction is lost: of load, of parallel shape, of lengths."""

    load: float
    shape: float
    lengths: float

    def weight(self, load: Floats | float, shape: float, lengths: float) -> Floats:
        """2^-(distances / reach): what part of a correction still holds, in (0, 1]."""
        return np.asarray(
            np.exp2(-(load / self.load + shape / self.shape + lengths / self.lengths)), np.float64
        )


TTFT_REACH = Reach(load=1.5, shape=1.0, lengths=0.7)
TPOT_REACH = Reach(load=1.5, shape=1.2, lengths=2.0)
"""Measured on rows of silicon_dev.csv and amd_dev.csv that share model, accelerator, engine, formats and client: the share of
one row's log error (measured / model) that the other has, by distance (`python -m sweep.anchors.reach` prints it)."""
BRACKETED = 0.5
"""A load between two measured ones is half as far from the nearer as it looks."""
LEAST_WIDTH = 0.3
"""Scatter of a repeated measurement over that of the model (the same pairs, at no distance)."""


def remaining_width(weight: Floats | float) -> Floats:
    """Log width of an interval after a correction of this weight over the width before: sqrt(1 - w^2), not below scatter.

    The weight is the correlation of the two errors; on the same pairs 0.70 at 0.62 (0.79 by this rule), 0.84 at 0.47
    (0.88), 0.98 at 0.32 (0.94) for TPOT.
    """
    return np.maximum(LEAST_WIDTH, np.sqrt(1.0 - np.square(weight)))


@dataclass(frozen=True)
class TpFit:
    """Decode time over TP without its communication: shardable_ms / tp + fixed_ms."""

    shardable_ms: float
    fixed_ms: float

    def at(self, tp: float, communication_ms: float) -> float:
        """Time per output token at a width, with that width's exposed communication added, ms."""
        return self.shardable_ms / tp + self.fixed_ms + communication_ms


def fit_tp(widths: Sequence[float], compute_ms: Sequence[float]) -> TpFit | None:
    """Least squares of compute_ms = shardable / tp + fixed over at least two widths.

    A negative fixed part is none (then through the origin); None where nothing shards or there is one width.
    """
    if len(set(widths)) < 2:
        return None
    inverse, times = 1.0 / np.asarray(widths, np.float64), np.asarray(compute_ms, np.float64)
    spread = inverse - inverse.mean()
    shardable = float(spread @ times / (spread @ spread))
    fixed = float(times.mean() - shardable * inverse.mean())
    if fixed < 0.0:
        shardable, fixed = float(inverse @ times / (inverse @ inverse)), 0.0
    return TpFit(shardable, fixed) if shardable > 0.0 else None


def decode_floor_ms(batches: Sequence[float], step_ms: Sequence[float], batch: float) -> float:
    """Measured step of a batch: linear between points, the ends held beyond them."""
    order = np.argsort(batches, kind="stable")
    return float(
        np.interp(batch, np.asarray(batches, np.float64)[order], np.asarray(step_ms, np.float64)[order])
    )
