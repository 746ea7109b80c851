"""Prompt and output lengths of synthetic requests, and the means of those of a trace."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweep.traces.requests import MAX_TOKENS, Int32s, Requests

Distribution = Literal["uniform", "lognormal", "empirical"]
DISTRIBUTIONS: tuple[Distribution, ...] = ("uniform", "lognormal", "empirical")


def mean_lengths(requests: Requests) -> tuple[int, int]:
    """Mean prompt and mean output of a trace, whole tokens, at least 1."""
    prompt, output = (max(1, round(float(np.mean(lengths)))) for lengths in (requests.isl, requests.osl))
    return prompt, output


def uniform(rng: np.random.Generator, n: int, nominal: int, ratio: float) -> Int32s:
    """Whole numbers, each equally likely, in [max(1, floor(ratio x nominal)), nominal]; ratio 1 = fixed."""
    low = max(1, int(ratio * nominal))
    return rng.integers(low, nominal, n, dtype=np.int32, endpoint=True)


def about(rng: np.random.Generator, n: int, mean: float, spread: float) -> Int32s:
    """Whole numbers about `mean`, uniform over a width of `spread` x mean; at least 1."""
    length = mean * (1.0 + spread * (rng.random(n) - 0.5))
    whole: Int32s = np.maximum(1.0, np.rint(length)).astype(np.int32)
    return whole


def lognormal(normal: NDArray[np.float64], mean: float, sigma: float, most: int) -> Int32s:
    """Lengths exp(mu + sigma z) with the given mean, rounded into [1, most]; mu = ln mean - sigma^2 / 2.

    `normal` holds standard normal z. Cutting at `most` lowers the mean of what is cut.
    """
    length = np.exp(np.log(mean) - sigma * sigma / 2.0 + sigma * normal)
    whole: Int32s = np.clip(np.rint(length), 1, min(most, MAX_TOKENS)).astype(np.int32)
    return whole


def correlated_normals(
    rng: np.random.Generator, n: int, correlation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two standard normals per request with the given correlation."""
    first, second = rng.standard_normal(n), rng.standard_normal(n)
    return first, correlation * first + np.sqrt(1.0 - correlation * correlation) * second
