"""Measured router coverage: a JSON map from tokens per step to the share of experts reached."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweep.bounded import read_json
from sweep.errors import UserError

POINTS = (1, 4, 16, 64, 256, 1024)
"""Tokens per step at which the model keeps the curve (fields moe.coverage_N)."""
FIELD = "moe.router_coverage"
INSIDE = "coverage_vs_uniform"
"""Key under which the map may stand, as the compatible tool writes it."""
MAX_BYTES = 1_000_000


def coverage_values(file: str | Path) -> dict[str, float]:
    """Values of the fields `coverage_N` from a JSON file {tokens: share}, linear in log tokens, flat outside."""
    curve = sorted(read_curve(Path(file)).items())
    return {f"coverage_{n}": _at(n, curve) for n in POINTS}


def read_curve(file: Path) -> dict[float, float]:
    """The map in `file`, checked: tokens at least 1, shares above 0 and at most 1."""
    try:
        content = read_json(file, MAX_BYTES)
    except UserError as error:
        raise UserError(error.details["message"], field=FIELD, value=file) from None
    if isinstance(content, Mapping) and isinstance(content.get(INSIDE), Mapping):
        content = content[INSIDE]
    if not isinstance(content, Mapping) or not content:
        raise UserError('is not a map {"tokens": share}', field=FIELD, value=file)
    return dict(_point(tokens, share, file) for tokens, share in content.items())


def _point(tokens: Any, share: Any, file: Path) -> tuple[float, float]:
    try:
        point = float(tokens), float(share)
    except (TypeError, ValueError):
        raise UserError(f"{tokens}: {share} is not tokens: share", field=FIELD, value=file) from None
    if not (1.0 <= point[0] < math.inf and 0.0 < point[1] <= 1.0):
        raise UserError(
            f"{tokens}: {share} is out of range",
            field=FIELD,
            value=file,
            allowed="tokens >= 1, 0 < share <= 1",
        )
    return point


def _at(tokens: float, curve: list[tuple[float, float]]) -> float:
    known = dict(curve)
    if tokens in known:
        return known[tokens]
    if tokens < curve[0][0]:
        return curve[0][1]
    for (left, low), (right, high) in itertools.pairwise(curve):
        if tokens < right:
            between = low + (high - low) * math.log(tokens / left) / math.log(right / left)
            # Rounding takes a tiny share to zero or below
            return min(max(between, min(low, high)), max(low, high))
    return curve[-1][1]
