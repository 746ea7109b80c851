"""What a model's requests look like: lengths and burstiness of its busiest hour, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

FIGURES = ("isl_mean", "osl_mean", "isl_sigma", "osl_sigma", "length_correlation", "burstiness")
"""Columns of the hourly table that stand in for the requests themselves on a day without any."""
NEAR_BUSIEST = 0.8
MOST_EXCESS = 3.0

Shape = Mapping[str, float]


def shape_of(hours: pl.DataFrame, busiest: Mapping[str, Any]) -> dict[str, float]:
    """Lengths and burstiness of the busiest hour, and by how much a minute exceeds its hour.

    `hours` are the model's rows of the hourly table. The excess is the mean over the hours that come near the busiest:
    the highest minute of one hour is too noisy to buy GPUs by.
    """
    near = hours.filter(pl.col("requests") >= NEAR_BUSIEST * int(busiest["requests"]))
    excess = (near["busiest_minute_per_s"] / near["rate_per_s"] - 1.0).to_numpy()
    return {name: float(busiest[name]) for name in FIGURES} | {
        "busiest_hour_per_s": float(busiest["rate_per_s"]),
        "minute_excess": float(np.clip(np.mean(excess), 0.0, MOST_EXCESS)),
    }


def peak_factor(shape: Shape, rate_per_s: float) -> float:
    """Busiest minute over hour at another rate: chance, of which most excess is made, falls with the root of the rate."""
    times = rate_per_s / shape["busiest_hour_per_s"]
    return 1.0 + shape["minute_excess"] / math.sqrt(max(times, 1.0))
