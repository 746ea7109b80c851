"""What measured deployments of one architecture, accelerator and engine say beyond the modelled terms.

    log f = z' A z / (1 + FADE b^2),   z = (1, (ln v - CENTRES) / SPREAD)

multiplies the time of a step, v = (sequences that run, tokens of one, tp, attention_dp, moe_ep). Two surfaces A: of pure decode
steps, and of steps that hold prompts and the host's time of a request. v is held inside the measured ranges, b is its
distance from them in units of z, so that a surface is never extrapolated. f takes no more from a step than its kernels lose
against their rooflines. Fitted by `servesweep calibrate engine` (sweep/calibrate/nearby_fit.py).
"""

import numpy as np

from kernels.auto import default_to
from kernels.coefficients import (
    LEAST_SHARE,
    NEAR_DECODE,
    NEAR_HIGH,
    NEAR_KNOWN,
    NEAR_LOW,
    NEAR_POOLED,
    NEAR_PROMPT,
)
from kernels.jit import inlined, kernel

N_FEATURES = 5
CENTRES = np.array([3.0, 7.5, 1.4, 0.0, 0.0])
"""Of ln v: 20 sequences, 1,800 tokens, tp 4, no data or expert parallelism: the middle of measured deployments."""
SPREAD = 2.0
FADE = 8.0
"""A surface halves a doubling outside its measurements."""
LARGEST = 0.7
"""Largest |log f|: what is further from the model than twice is another machine."""


@inlined
def place(value, feature):
    """Coordinate of a feature, which is 1 at least."""
    return (np.log(max(1.0, value)) - CENTRES[feature]) / SPREAD


@kernel
def features(running, tokens, p):
    """Coordinates (running sequences, tokens of one, tp, attention_dp, moe_ep) of a step of deployment `p`."""
    spread_experts = p.tp * p.attention_dp if p.attention_dp > 1.0 else 1.0
    return (
        place(running, 0),
        place(tokens, 1),
        place(p.tp, 2),
        place(p.attention_dp, 3),
        place(default_to(p.moe_ep, spread_experts), 4),
    )


@inlined
def held(surface, feature, z, c):
    """A coordinate, held inside the measured range of a surface."""
    row = surface + 1 + feature
    return min(max(z[feature], c[row, NEAR_LOW]), c[row, NEAR_HIGH])


@kernel
def outside(surface, z, c):
    """Squared distance of coordinates `z` from the measured ranges of a surface (its first row in the coefficients `c`)."""
    total = 0.0
    for i in range(N_FEATURES):
        total += (z[i] - held(surface, i, z, c)) ** 2
    return total


@kernel
def log_factor(surface, z, c):
    """Log of the factor of a surface at coordinates `z`."""
    total = c[surface, 0]
    for i in range(N_FEATURES):
        slope = c[surface + 1 + i, 0]
        for j in range(i + 1):
            slope += c[surface + 1 + i, 1 + j] * held(surface, j, z, c)
        total += slope * held(surface, i, z, c)
    return min(LARGEST, max(-LARGEST, total / (1.0 + FADE * outside(surface, z, c))))


@inlined
def surface_of(kind, p):
    """First row of a deployment's surface of a kind: split pools have their own."""
    return kind + NEAR_POOLED if p.disaggregate > 0.0 else kind


@kernel
def nearby_us(t, kind, running, tokens, p, c, parts):
    """A step of `t` us corrected by the surface NEAR_DECODE or NEAR_PROMPT; its `parts` are scaled alike."""
    surface = surface_of(kind, p)
    if c[surface, NEAR_KNOWN] <= 0.0 or t <= 0.0:
        return t
    factor = np.exp(log_factor(surface, features(running, tokens, p), c))
    if factor < 1.0:
        least = 0.0
        for part in range(parts.size):
            least += parts[part] * c[LEAST_SHARE, part]
        factor = min(1.0, max(factor, least / t))
    parts *= factor
    return t * factor


@kernel
def nearby_request(streams, p, c):
    """Factor on the host's time of a request that meets `streams` responses on their way."""
    surface = surface_of(NEAR_PROMPT, p)
    if c[surface, NEAR_KNOWN] <= 0.0:
        return 1.0
    return np.exp(log_factor(surface, features(streams / p.attention_dp, p.isl, p), c))


@kernel
def doublings_from_measured(running, tokens, p, c):
    """Doublings by which a decode step's features lie outside the measured ranges of its combination; NaN: never measured."""
    surface = surface_of(NEAR_DECODE, p)
    if c[surface, NEAR_KNOWN] <= 0.0:
        return np.nan
    return np.sqrt(outside(surface, features(running, tokens, p), c)) * SPREAD / np.log(2.0)
