"""A grid's axes as an optimiser sees them: which choices can have a price, which are numbers, which tell scenarios apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sweep.axes import Axis, Grid
from sweep.errors import UserError
from sweep.frontier import SCENARIO, Grouping

Codes = npt.NDArray[np.int64]
"""Choices of the free axes, one row per deployment: shape (n, number of free axes)."""
Rows = npt.NDArray[np.int64]

PRICE = "usd_per_gpu_hour"
MOST_ROWS = 2**63 - 1


@dataclass(frozen=True)
class FreeAxis:
    """An axis with more than one choice.

    `usable` are the choices that can have a price; `scenario[c]` numbers what choice c makes of the scenario, and
    `image[c, s]` is the choice of scenario number s that is otherwise like c.
    """

    axis: Axis
    usable: Codes
    scenario: Codes
    image: Codes

    @property
    def decides_scenario_alone(self) -> bool:
        """Whether no choice can be exchanged for another without leaving the scenario."""
        return bool(np.bincount(self.scenario[self.usable]).max() == 1)

    @cached_property
    def numbers(self) -> npt.NDArray[np.float64] | None:
        """Values of an axis of numbers, on a logarithmic scale where all are positive, from 0 to 1; else None."""
        values = _numbers(self.axis)
        if values is None:
            return None
        scaled = np.log(values) if values.min() > 0.0 else values
        numbers: npt.NDArray[np.float64] = (scaled - scaled.min()) / np.ptp(scaled)
        return numbers

    @cached_property
    def order(self) -> Codes:
        """Choices of an axis of numbers, smallest value first."""
        assert self.numbers is not None
        return np.argsort(self.numbers, kind="stable")

    @cached_property
    def rank(self) -> Codes:
        """Place of each choice in `order`."""
        return np.argsort(self.order, kind="stable")


def _numbers(axis: Axis) -> npt.NDArray[np.float64] | None:
    """Values of a swept field of numbers; None for words, for groups, and where a value is left to the model."""
    fields = [
        label.field for label in axis.labels if label.field is not None and label.field.key == axis.name
    ]
    if not fields or fields[0].kind not in ("int", "float") or axis.radix < 3:
        return None
    values = next(label.values for label in axis.labels if label.field is fields[0])
    if any(value is None for value in values):
        return None
    return np.array(values, dtype=np.float64)


class Space:
    """The free axes of a grid, and the way between their choices and row numbers."""

    def __init__(self, grid: Grid) -> None:
        if grid.n_rows > MOST_ROWS:
            raise UserError(
                f"{grid.n_rows:.2g} rows are more than row numbers go", allowed="fewer than 9.2e18"
            )
        for axis in grid.axes:
            _usable(axis)
        self.grid = grid
        self._places = [i for i, axis in enumerate(grid.axes) if axis.radix > 1]
        self._strides = np.array([grid.strides()[i] for i in self._places], dtype=np.int64)
        self._grouping = Grouping(grid, *SCENARIO)
        self.axes = [self._free(i) for i in self._places]
        self.radices = np.array([free.axis.radix for free in self.axes], dtype=np.int64)

    def _free(self, place: int) -> FreeAxis:
        axis = self.grid.axes[place]
        scenario = self._grouping.of(np.arange(axis.radix) * self.grid.strides()[place])
        scenario = np.unique(scenario, return_inverse=True)[1]
        members = [np.flatnonzero(scenario == s) for s in range(int(scenario.max()) + 1)]
        position = np.empty(axis.radix, np.int64)
        for choices in members:
            position[choices] = np.arange(choices.size)
        image = np.stack([choices[np.minimum(position, choices.size - 1)] for choices in members], axis=1)
        return FreeAxis(axis, _usable(axis), scenario, image)

    @property
    def n_priced(self) -> int:
        """Rows whose accelerator has a price: those that a search looks at."""
        return int(np.prod([float(free.usable.size) for free in self.axes]))

    def rows(self, codes: Codes) -> Rows:
        """Row numbers of deployments."""
        found: Rows = codes @ self._strides
        return found

    def codes(self, rows: Rows) -> Codes:
        """Choices of the free axes of row numbers."""
        return rows[:, None] // self._strides % self.radices

    def scenario(self, rows: Rows) -> Rows:
        """Number of the scenario of each row."""
        return self._grouping.of(rows)

    @property
    def n_scenarios(self) -> int:
        return self._grouping.count


def _usable(axis: Axis) -> Codes:
    """Choices that can have a price. Raises UserError where none has."""
    if PRICE not in axis.columns:
        return np.arange(axis.radix)
    usable = np.flatnonzero(np.isfinite(axis.table[:, axis.columns.index(PRICE)]))
    if usable.size == 0:
        raise UserError(
            "no accelerator has a price, and cost is one of the objectives", field=f"price.{PRICE}"
        )
    return usable
