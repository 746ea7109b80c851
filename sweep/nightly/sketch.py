"""Lengths as counts in bins that grow by 2 %: quantiles within 1 % from tables that add up in any order."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

GAMMA = 1.02
MICRO = 1_000_000
"""Logarithms are summed as whole millionths, so that a sum does not depend on the order of its parts."""


def bin_of(column: str) -> pl.Expr:
    """Bin of a length of at least 1: the smallest b with GAMMA^b >= length."""
    return (pl.col(column).cast(pl.Float64).log() / math.log(GAMMA)).round(9).ceil().cast(pl.Int32)


def micro_log(column: str) -> pl.Expr:
    """ln(length) in whole millionths."""
    return (pl.col(column).cast(pl.Float64).log() * MICRO).round().cast(pl.Int64)


def quantile(bins: NDArray[np.int32], counts: NDArray[np.int64], share: float) -> float:
    """Length that `share` of the requests do not exceed, within 1 %; bins ascending, at least one request."""
    rank = share * (int(counts.sum()) - 1)
    at = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
    b = int(bins[min(at, len(bins) - 1)])
    return 1.0 if b == 0 else 2.0 * GAMMA**b / (GAMMA + 1.0)
