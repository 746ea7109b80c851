"""One generation after the other: which deployments to evaluate next, given all that were.

NSGA-II proposes many more deployments than are evaluated; kriging over those evaluated so far says which of them
probably push a frontier, and those are. What comes out depends on the seed and the figures alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pymoo.core.population import Population
from threadpoolctl import threadpool_limits

from sweep.search.contests import Contest, best_of, contests, improvement
from sweep.search.figures import Figures, limits_of
from sweep.search.kriging import Kriging
from sweep.search.nsga import algorithm, in_scenario_of, told
from sweep.search.settings import Settings
from sweep.search.space import Codes, Rows, Space

Floats = npt.NDArray[np.float64]

POOL = 6
"""Deployments proposed for each one evaluated."""
UNSCREENED = 0.06
"""Share of a generation that the model has no say in: proposals at random, and scenarios without a frontier."""
TAUGHT = 1600
"""Most deployments that the model learns from: three quarters those nearest to a frontier, the others at random."""
NEAR = 0.75
ROUNDS = 16
"""A generation is chosen in so many rounds, each seeing the frontiers that the model expects of those before."""
HOPE = 1.0
"""Standard deviations by which the model's figures are taken to be too pessimistic: what it knows little of is tried."""
EVERY = 4
TRIES = 8
"""How often more proposals are asked for where too few are new."""


class Optimiser:
    """Proposes generations of rows of a space; `tell` hands it their figures."""

    def __init__(self, space: Space, settings: Settings) -> None:
        self.space = space
        self.settings = settings
        self.seen: Rows = np.empty(0, np.int64)
        self._turn = 0
        self._figures = Figures.none()
        self._random = np.random.default_rng([settings.seed, 1])
        self._nsga = algorithm(space, settings.seed, settings.first)

    @property
    def contests(self) -> list[Contest]:
        """Frontiers of what was evaluated so far."""
        return list(self._nsga.survival.contests)

    def ask(self) -> Rows:
        """Rows to evaluate next, in order, none of them before; empty where nothing new is found."""
        left = self.settings.evaluations - self.seen.size
        if self._figures.row.size == 0:
            codes = self._spread(min(self._nsga.pop_size, left))
        else:
            codes = self._chosen(min(self.settings.generation, left))
        return np.sort(self.space.rows(codes))

    def tell(self, rows: Rows, figures: Figures) -> None:
        """Take in the figures of the rows that `ask` named; those without are infeasible or have no price."""
        self.seen = np.sort(np.concatenate([self.seen, rows]))
        self._figures = self._figures.joined(figures)
        # NSGA-II has nobody to start from until the first deployment with a price
        if self._figures.row.size:
            self._nsga.tell(infills=told(Population.new("X", self.space.codes(rows)), rows, figures))

    def _spread(self, n: int) -> Codes:
        """Up to `n` new deployments from all over the space; none only where several draws bring none."""
        sampling = self._nsga.initialization.sampling
        for _ in range(TRIES):
            codes = sampling.do(self._nsga.problem, n, random_state=self._random).get("X")
            new = self._new(codes.astype(np.int64))
            if len(new):
                break
        return new

    def _new(self, codes: Codes) -> Codes:
        """Of `codes`, each deployment that was not evaluated, once, in row order."""
        rows = np.unique(self.space.rows(codes))
        return self.space.codes(rows[~np.isin(rows, self.seen)])

    def _chosen(self, wanted: int) -> Codes:
        """The next generation: some proposals at random, some for scenarios without a frontier, the most promising."""
        proposed = self._proposed(POOL * wanted)
        if len(proposed) <= wanted:
            return self._new(np.concatenate([proposed, self._spread(wanted)]))[:wanted]
        lucky = round(UNSCREENED * wanted)
        elsewhere = self._elsewhere(lucky)
        at_random = proposed[: lucky - len(elsewhere)]
        rest = proposed[len(at_random) :]
        best = self._promising(rest, wanted - lucky)
        return self._new(np.concatenate([elsewhere, at_random, rest[best]]))

    def _proposed(self, n: int) -> Codes:
        """About `n` new deployments by NSGA-II, in random order."""
        proposed = np.empty((0, len(self.space.axes)), np.int64)
        self._nsga.n_offsprings = n
        for _ in range(TRIES):
            offspring = self._nsga.ask().get("X").astype(np.int64)
            proposed = self._new(np.concatenate([proposed, offspring]))
            if len(proposed) >= n:
                break
        return self._random.permutation(proposed)[:n]

    def _elsewhere(self, most: int) -> Codes:
        """Deployments in scenarios of which none with a price is known: what does well elsewhere, and any."""
        known = np.unique(self._figures.scenario)
        if known.size == self.space.n_scenarios or most == 0:
            return np.empty((0, len(self.space.axes)), np.int64)
        spread = self._spread(POOL * most)
        spread = spread[~np.isin(self.space.scenario(self.space.rows(spread)), known)]
        spread = self._random.permutation(spread)[:most]
        good = self._nsga.pop.get("X").astype(np.int64)
        moved = in_scenario_of(self.space, good[self._random.integers(len(good), size=len(spread))], spread)
        return self._new(np.where((np.arange(len(spread)) % 2 == 0)[:, None], moved, spread))

    def _promising(self, codes: Codes, wanted: int) -> npt.NDArray[np.intp]:
        """Places of the `wanted` deployments that the model expects to push frontiers most."""
        taught = self._taught()
        # One thread: sums come out alike on every machine, and no thread spins while another program has its core.
        with threadpool_limits(1, user_api="blas"):
            model = Kriging(self.space).fit(self.space.codes(taught.row), taught.logs)
            mean, deviation = model.predict(codes)
        rows = self.space.rows(codes)
        views = [
            Figures(rows, self.space.scenario(rows), logs, self._excess(rows, logs))
            for logs in (mean, mean - HOPE * deviation)
        ]
        found = self.contests
        left = np.arange(rows.size)
        chosen: list[npt.NDArray[np.intp]] = []
        for turn, n in enumerate(np.diff(np.linspace(0, wanted, ROUNDS + 1).astype(int))):
            expected = views[1 if turn % EVERY == EVERY - 1 else 0]
            if turn % 2:
                taken = self._in_turn(found, expected.take(left), n)
            else:
                taken = np.argsort(-promise_of(found, expected.take(left)), kind="stable")[:n]
            chosen.append(left[taken])
            left = np.delete(left, taken)
            found = contests(best_of(found).joined(expected.take(chosen[-1])))
        return np.concatenate(chosen)

    def _in_turn(self, found: list[Contest], figures: Figures, wanted: int) -> npt.NDArray[np.intp]:
        """Places of about `wanted` deployments: of each frontier in turn the most promising."""
        taken: list[int] = []
        while len(taken) < wanted:
            contest = found[self._turn % len(found)]
            self._turn += 1
            promise = promise_of([contest], figures)
            promise[taken] = -np.inf
            taken.append(int(np.argmax(promise)))
        return np.array(taken, dtype=np.intp)

    def _excess(self, rows: Rows, logs: Floats) -> Floats:
        """By how much the model expects deployments to miss the SLO."""
        if not self.settings.within_slo:
            return np.zeros(len(logs))
        over = logs[:, 1:] - limits_of(self.space, rows)
        excess: Floats = np.fmax(0.0, np.fmax.reduce(over, axis=1))
        return excess

    def _taught(self) -> Figures:
        """What the model learns from."""
        if self._figures.row.size <= TAUGHT:
            return self._figures
        order = np.argsort(-promise_of(self.contests, self._figures), kind="stable")
        near = round(NEAR * TAUGHT)
        others = self._random.choice(order[near:], TAUGHT - near, replace=False)
        return self._figures.take(np.concatenate([order[:near], others]))


def promise_of(found: list[Contest], figures: Figures) -> Floats:
    """How much deployments improve the frontiers of their scenario; negative: how far behind, or off the SLO, they are."""
    gained = np.zeros(figures.row.size)
    behind = np.full(figures.row.size, -np.inf)
    for contest in found:
        mine = np.flatnonzero((figures.scenario == contest.scenario) & (figures.excess == 0.0))
        gains = improvement(contest, figures.logs[mine]) if contest.meets else np.ones(mine.size)
        gained[mine] += np.maximum(gains, 0.0)
        behind[mine] = np.maximum(behind[mine], gains)
    return np.where(figures.excess > 0.0, -figures.excess, np.where(gained > 0.0, gained, behind))
