"""NSGA-II (pymoo) over the axes of a grid: where deployments come from, which stay, and how they vary.

What differs from the textbook: survivors are the frontiers of all scenarios at once, so that a choice that proved
itself in one is tried in the others; a mutation steps along axes of numbers and exchanges words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.crossover import Crossover
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.sampling import Sampling
from pymoo.core.selection import Selection
from pymoo.core.survival import Survival
from pymoo.core.termination import NoTermination

from sweep.frontier import FRONTIERS
from sweep.search.contests import best_of, contests, gaps
from sweep.search.figures import Figures
from sweep.search.space import Codes, FreeAxis, Rows, Space

Random = np.random.Generator

HALF, WHOLE, ALONE = 0.2, 0.15, 0.65
"""Share of the offspring that take half of a second parent's choices, all of them, or none (the scenario stays)."""
SECOND = 0.3
"""Share of mutations that move along a second axis, too."""
LONG_STEP = 0.5
"""Chance that a step along an axis of numbers goes on to the next value."""


class Spread(Sampling):
    """A Latin hypercube: every usable choice of every axis about equally often."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    def _do(self, problem: Problem, n_samples: int, *_: Any, random_state: Random, **__: Any) -> Codes:
        columns = [
            random_state.permutation(np.resize(random_state.permutation(free.usable), n_samples))
            for free in self.space.axes
        ]
        return np.column_stack(columns)


class Turns(Selection):
    """Every frontier in turn; of two of its deployments the one with more room beside it. Its mate is from any frontier."""

    def __init__(self, survival: Frontiers) -> None:
        super().__init__()
        self.survival = survival

    def _do(
        self, _: Problem, pop: Population, n_select: int, n_parents: int, *, random_state: Random, **__: Any
    ) -> npt.NDArray[np.int64]:
        members = self.survival.members
        first = np.empty(n_select, np.int64)
        turns = random_state.permutation(np.resize(np.arange(len(members)), n_select))
        for turn, (places, room) in enumerate(members):
            mine = np.flatnonzero(turns == turn)
            pairs = random_state.integers(places.size, size=(mine.size, 2))
            first[mine] = places[np.where(room[pairs[:, 0]] >= room[pairs[:, 1]], pairs[:, 0], pairs[:, 1])]
        return np.column_stack([first, random_state.integers(len(pop), size=n_select)])


class Inherit(Crossover):
    """The first parent with half or all of the second's choices, in the first's scenario."""

    def __init__(self, space: Space) -> None:
        super().__init__(n_parents=2, n_offsprings=1, prob=1.0)
        self.space = space

    def _do(self, _: Problem, parents: Codes, *__: Any, random_state: Random, **___: Any) -> Codes:
        first, second = parents
        take = random_state.choice([0.5, 1.0, 0.0], size=len(first), p=[HALF, WHOLE, ALONE])
        taken = random_state.random(first.shape) < take[:, None]
        return np.where(taken, in_scenario_of(self.space, second, first), first)[None]


def in_scenario_of(space: Space, codes: Codes, others: Codes) -> Codes:
    """Deployments `codes` in the scenarios of `others`."""
    columns = [
        free.image[codes[:, i], free.scenario[others[:, i]]] if free.scenario.max() else codes[:, i]
        for i, free in enumerate(space.axes)
    ]
    return np.column_stack(columns)


class Neighbour(Mutation):
    """One or two moves: to a near value of an axis of numbers, to any choice of another; within the scenario."""

    def __init__(self, space: Space) -> None:
        super().__init__(prob=1.0)
        self.space = space
        self.movable = [i for i, free in enumerate(space.axes) if not free.decides_scenario_alone]

    def _do(self, _: Problem, codes: Codes, *__: Any, random_state: Random, **___: Any) -> Codes:
        moved = codes.copy()
        n = len(codes)
        if not self.movable:
            return moved
        once = random_state.choice(self.movable, size=n)
        again = np.where(random_state.random(n) < SECOND, random_state.choice(self.movable, size=n), -1)
        for place in self.movable:
            free = self.space.axes[place]
            where = np.flatnonzero((once == place) | (again == place))
            step = _step if free.numbers is not None else _exchange
            moved[where, place] = step(free, codes[where, place], random_state)
        return moved


def _step(free: FreeAxis, choices: Codes, random_state: Random) -> Codes:
    steps = random_state.geometric(LONG_STEP, size=choices.size) * random_state.choice(
        [-1, 1], size=choices.size
    )
    stepped: Codes = free.order[np.clip(free.rank[choices] + steps, 0, free.axis.radix - 1)]
    return stepped


def _exchange(free: FreeAxis, choices: Codes, random_state: Random) -> Codes:
    """Any usable choice of the same scenario."""
    number = free.scenario[free.usable]
    order = free.usable[np.argsort(number, kind="stable")]
    counts = np.bincount(number, minlength=int(free.scenario.max()) + 1)
    mine = free.scenario[choices]
    first = (np.cumsum(counts) - counts)[mine]
    exchanged: Codes = order[first + (random_state.random(choices.size) * counts[mine]).astype(np.int64)]
    return exchanged


class Frontiers(Survival):
    """Those on the frontier of their scenario survive, in cost against each latency."""

    def __init__(self, space: Space) -> None:
        super().__init__(filter_infeasible=False)
        self.space = space
        self.contests = contests(Figures.none())
        self.members: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
        """Places in the population and room of the deployments of each frontier."""

    def _do(self, _: Problem, pop: Population, *__: Any, **___: Any) -> Population:
        rows = self.space.rows(pop.get("X").astype(np.int64))
        logs, excess = (pop.get(name).astype(np.float64) for name in ("F", "G"))
        known = np.flatnonzero(np.isfinite(logs).all(axis=1))
        figures = Figures(
            rows[known],
            self.space.scenario(rows[known]),
            logs[known],
            np.maximum(excess[known, 0], 0.0),
        )
        self.contests = contests(figures)
        best = best_of(self.contests).row
        place = np.argsort(rows[known], kind="stable")
        survivors = known[place[np.searchsorted(rows[known][place], best)]]
        self.members = [(np.searchsorted(best, c.on_it.row), gaps(c)) for c in self.contests]
        return pop[survivors]


def algorithm(space: Space, seed: int, n_first: int) -> NSGA2:
    """NSGA-II that starts with `n_first` deployments; `n_offsprings` is set before each generation."""
    survival = Frontiers(space)
    nsga = NSGA2(
        pop_size=n_first,
        sampling=Spread(space),
        selection=Turns(survival),
        crossover=Inherit(space),
        mutation=Neighbour(space),
        survival=survival,
        eliminate_duplicates=False,
    )
    problem = Problem(
        n_var=len(space.axes),
        n_obj=1 + len(FRONTIERS),
        n_ieq_constr=1,
        xl=np.zeros(len(space.axes)),
        xu=space.radices - 1,
        vtype=int,
    )
    nsga.setup(problem, seed=seed, termination=NoTermination())
    return nsga


def told(pop: Population, rows: Rows, figures: Figures) -> Population:
    """`pop`, whose rows are `rows`, with the figures of those among them that have a price."""
    objectives = np.full((rows.size, figures.logs.shape[1]), np.inf)
    excess = np.ones((rows.size, 1))
    order = np.argsort(rows, kind="stable")
    places = order[np.searchsorted(rows[order], figures.row)]
    objectives[places] = figures.logs
    excess[places, 0] = figures.excess
    pop.set("F", objectives, "G", excess)
    return pop
