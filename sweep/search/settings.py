"""What a search was asked to do, with what was left to it decided."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from sweep.axes import Grid

SHARE = 0.01
FEWEST, MOST = 2_000, 20_000
"""Evaluations where none are given: this share of the space, within these bounds."""
FIRST = 0.12
"""Share of the evaluations that are spread over the whole space before the search begins."""
GENERATIONS = 25
SMALLEST_GENERATION = 16


@dataclass(frozen=True)
class Settings:
    """Settings of group `search`."""

    evaluations: int
    generation: int
    seed: int
    tolerance: float
    patience: int
    within_slo: bool

    @staticmethod
    def of(grid: Grid) -> Settings:
        """Those of a grid's run."""
        asked: dict[str, Any] = {key.removeprefix("search."): value for key, value in grid.settings.items()}
        evaluations = int(asked["evaluations"] or min(max(round(SHARE * grid.n_rows), FEWEST), MOST))
        rest = (1.0 - FIRST) * evaluations
        named = any(key == "slo" or key.startswith("slo.") for key in grid.given)
        return Settings(
            evaluations=evaluations,
            generation=int(asked["generation"] or max(ceil(rest / GENERATIONS), SMALLEST_GENERATION)),
            seed=int(asked["seed"]),
            tolerance=float(asked["tolerance"]),
            patience=int(asked["patience"]),
            within_slo=named if asked["within_slo"] is None else bool(asked["within_slo"]),
        )

    @property
    def first(self) -> int:
        """Rows evaluated before the search begins."""
        return max(1, round(FIRST * self.evaluations))

    def covers(self, grid: Grid) -> bool:
        """Whether the evaluations suffice for every row."""
        return grid.n_rows <= self.evaluations
