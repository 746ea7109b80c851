"""Surfaces of measured combinations (kernels/nearby.py), from the engine layer's file into coefficients.

Key `nearby` of the file holds, per `architecture|accelerator|engine` and apart for split pools, the measured range of every
feature and the numbers of both surfaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.coefficients import (
    MEMORY_EFFICIENCY,
    N_COEF,
    NEAR_DECODE,
    NEAR_HIGH,
    NEAR_KNOWN,
    NEAR_LOW,
    NEAR_POOLED,
    NEAR_PROMPT,
    OP_ELEMENTWISE,
    OP_GEMM_BF16,
    OP_GEMM_INT4_WO,
    OP_LINEAR_DECODE,
    OP_MOE_BF16,
    OP_MOE_INT4_WO,
    OP_PREFILL_GQA,
    OP_SCALE,
)
from kernels.layout import N_PARTS, PART_ATTENTION, PART_GEMM, PART_HOST, PART_MOE, PART_OTHER
from kernels.nearby import N_FEATURES

Floats = npt.NDArray[np.float64]

COLOCATED, POOLS = "colocated", "pools"
"""Sections of the file."""
OFFSETS = {COLOCATED: 0, POOLS: NEAR_POOLED}
"""Rows from a surface to that of a section."""
SURFACES = {"decode": NEAR_DECODE, "prompt": NEAR_PROMPT}
"""First row of every surface by the name that the file uses."""
PAIRS = tuple((i, j) for i in range(N_FEATURES + 1) for j in range(i + 1))
"""(feature, feature up to it) of a surface's numbers in their order; 0 is the constant."""
OPERATORS_OF = {
    PART_GEMM: (OP_GEMM_BF16, OP_GEMM_INT4_WO),
    PART_ATTENTION: (OP_PREFILL_GQA, OP_LINEAR_DECODE),
    PART_MOE: (OP_MOE_BF16, OP_MOE_INT4_WO),
    PART_OTHER: (OP_ELEMENTWISE, OP_ELEMENTWISE),
}
"""First and last operator of the parts whose losses are known."""


def least_shares(c: Floats) -> Floats:
    """Share of every part of a step that no kernel saves, (n, N_COEF), of coefficients (n, N_OPS, N_COEF).

    The best efficiency among a part's operators; all of communication, nothing of the host's time.
    """
    shares = np.ones((len(c), N_COEF))
    shares[:, PART_HOST] = 0.0
    for part, (first, last) in OPERATORS_OF.items():
        shares[:, part] = c[:, first : last + 1, : MEMORY_EFFICIENCY + 1].max(axis=(1, 2))
    shares[:, :N_PARTS] /= c[:, OP_SCALE, :N_PARTS]
    return shares


def write_surface(c: Floats, surface: int, low: Floats, high: Floats, numbers: Floats) -> None:
    """Put a surface into coefficients (n, N_OPS, N_COEF), in place: ranges (n, N_FEATURES), numbers (n, len(PAIRS))."""
    c[:, surface, NEAR_KNOWN] = 1.0
    c[:, surface + 1 : surface + 1 + N_FEATURES, NEAR_LOW] = low
    c[:, surface + 1 : surface + 1 + N_FEATURES, NEAR_HIGH] = high
    for (i, j), value in zip(PAIRS, numbers.T, strict=True):
        c[:, surface + i, j] = value


def write_nearby(table: Floats, axes: Sequence[Sequence[str]], sections: Mapping[str, Any]) -> None:
    """Put the surfaces of a file's `sections` into coefficients (architecture, hardware, engine, N_OPS, N_COEF), in place.

    `axes` says what stands at every place of the first three axes.
    """
    places = [{name: i for i, name in enumerate(axis)} for axis in axes]
    for section, combinations in sections.items():
        for combination, found in combinations.items():
            where = tuple(place.get(part) for place, part in zip(places, combination.split("|"), strict=True))
            if None in where:
                continue
            for name, surface in SURFACES.items():
                low, high = np.array(found["ranges"][name])[:, None]
                numbers = np.array(found[name])[None]
                write_surface(table[where][None], surface + OFFSETS[section], low, high, numbers)
