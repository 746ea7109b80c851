"""Least squares through the collective kernels: lines in, rows of coefficients out.

The residual is log(predicted / measured) under a soft-L1 loss. Starting points and their order are fixed, so the
same samples give the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kernels import coefficients as k
from kernels import collectives as kc
from kernels.units import MIB

LOSS_SCALE = 0.1
"""Relative error above which a point counts less: at a protocol switch one size may take twice its neighbour's time."""
NO_KERNEL = -1.0
UNLIMITED_MIB = 2.0**20
TIE = 1.05
"""Losses within this factor count as equal when a size limit is chosen."""
NO_ANCHOR = 0.01
"""Weight of the starting values where samples speak for themselves: keeps what no sample moves."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """Measured times of one primitive: message bytes, ranks, us."""

    primitive: int
    n_bytes: Array
    n_ranks: Array
    time_us: Array
    algorithm: int = kc.ALGO_AUTO
    weight: float = 1.0

    @classmethod
    def of(
        cls, primitive: int, table: pl.DataFrame, algorithm: int = kc.ALGO_AUTO, weight: float = 1.0
    ) -> Samples:
        rows = table.sort("n_gpus", "bytes", "time_us")
        n_bytes, n_ranks, time_us = (
            rows[name].cast(pl.Float64).to_numpy() for name in ("bytes", "n_gpus", "time_us")
        )
        return cls(primitive, n_bytes, n_ranks, time_us, algorithm, weight)

    def errors(self, c: Array, p: Any) -> Array:
        """log(predicted / measured) under coefficients `c`."""
        predicted = kc.collective_times(
            self.primitive, self.n_bytes, self.n_ranks, float(self.algorithm), p, c
        )
        return np.asarray(np.log(predicted / self.time_us))

    def at(self, keep: NDArray[np.bool_]) -> Samples:
        return replace(
            self, n_bytes=self.n_bytes[keep], n_ranks=self.n_ranks[keep], time_us=self.time_us[keep]
        )


@dataclass(frozen=True)
class Line:
    """Free parameters of one row with their starting values.

    `efficiencies`: three for 2, 4 and 8 or more ranks, or one for all sizes. `step_us` None: no step of its own.
    """

    row: int
    overhead_us: float
    efficiencies: tuple[float, ...]
    step_us: float | None = 0.02

    def start(self) -> Array:
        """Logarithms of the starting values."""
        steps = () if self.step_us is None else (self.step_us,)
        return np.asarray(np.log([self.overhead_us, *steps, *self.efficiencies]))

    def bounds(self) -> tuple[Array, Array]:
        """Bounds of the logarithms: an efficiency above 1 would beat the link."""
        steps = 0 if self.step_us is None else 1
        sizes = len(self.efficiencies)
        low = [1e-3, *[1e-3] * steps, *[1e-3] * sizes]
        high = [2e3, *[50.0] * steps, *[1.0] * sizes]
        return np.log(np.array(low)), np.log(np.array(high))

    def write(self, x: Array, c: Array) -> None:
        """Put the parameters' values into `c`."""
        values = np.exp(x)
        sizes = len(self.efficiencies)
        by_size = values[-sizes:] if sizes == 3 else np.repeat(values[-1], 3)
        many = min(by_size[2], 1.0)
        c[self.row, k.MEMORY_EFFICIENCY] = many
        c[self.row, k.OVERHEAD_US] = values[0]
        c[self.row, kc.STEP_US] = 0.0 if self.step_us is None else values[1]
        c[self.row, kc.PAIR_SLOWDOWN] = many / min(by_size[0], 1.0) - 1.0
        c[self.row, kc.QUAD_SLOWDOWN] = many / min(by_size[1], 1.0) - 1.0


def line_like(row: int, c: Array) -> Line:
    """A line that starts where row `row` of `c` stands."""
    many = float(c[row, k.MEMORY_EFFICIENCY])
    pair, quad = (many / (1.0 + float(c[row, column])) for column in (kc.PAIR_SLOWDOWN, kc.QUAD_SLOWDOWN))
    overhead_us, step_us = (max(float(c[row, column]), 1e-3) for column in (k.OVERHEAD_US, kc.STEP_US))
    return Line(row, overhead_us, (min(pair, 1.0), min(quad, 1.0), many), step_us)


def fit_lines(
    lines: Sequence[Line], samples: Samples | Sequence[Samples], p: Any, c: Array, anchor: float = NO_ANCHOR
) -> Array:
    """`c` with the rows of `lines` fitted to `samples`; `anchor` weighs the starting values."""
    parts = [samples] if isinstance(samples, Samples) else list(samples)
    from scipy.optimize import least_squares

    start = np.concatenate([line.start() for line in lines])
    low = np.concatenate([line.bounds()[0] for line in lines])
    high = np.concatenate([line.bounds()[1] for line in lines])
    cuts = np.cumsum([line.start().size for line in lines])[:-1]
    fitted = c.copy()

    def residuals(x: Array) -> Array:
        for line, values in zip(lines, np.split(x, cuts), strict=True):
            line.write(values, fitted)
        return np.concatenate(
            [*(part.weight * part.errors(fitted, p) for part in parts), anchor * (x - start)]
        )

    inside = np.clip(start, low + 1e-9, high - 1e-9)
    best = least_squares(
        residuals, inside, bounds=(low, high), loss="soft_l1", f_scale=LOSS_SCALE, max_nfev=400
    )
    residuals(best.x)
    return fitted


def loss(errors: Array) -> float:
    """Soft-L1 sum of relative errors, as the fit minimises it."""
    return float(np.sum(np.sqrt(1.0 + (errors / LOSS_SCALE) ** 2) - 1.0))


def best_of(candidates: Iterable[Array], parts: Sequence[Samples], p: Any) -> Array:
    """The coefficients with the least weighted loss on all samples; the first among equals."""
    return min(candidates, key=lambda c: sum(loss(part.weight * part.errors(c, p)) for part in parts))


def floor_us(samples: Samples, hops_per_rank: float, p: Any) -> float:
    """Overhead of the smallest message over the fewest ranks, its hops taken off, us."""
    fewest = samples.n_ranks.min()
    shortest_us = samples.time_us[samples.n_ranks == fewest].min()
    return float(max(shortest_us - hops_per_rank * (fewest - 1.0) * p["link_latency_us"], 0.5))


def efficiencies(value: float, samples: Samples) -> tuple[float, ...]:
    """One efficiency for all group sizes where only one was measured, else one each for 2, 4 and 8."""
    return (value,) * (3 if len(np.unique(samples.n_ranks)) > 1 else 1)


def set_limits(c: Array, limits_mib: Sequence[float]) -> None:
    """Size limits of the engine's own kernel for 2, up to 4 and more ranks."""
    c[k.OP_ONE_SHOT, kc.LIMIT_PAIR_MIB] = limits_mib[0]
    c[k.OP_ONE_SHOT, kc.LIMIT_QUAD_MIB] = limits_mib[1]
    c[k.OP_TWO_SHOT, kc.LIMIT_OCT_MIB] = limits_mib[2]


def limits(c: Array) -> list[float]:
    """What `set_limits` sets."""
    return [
        float(c[k.OP_ONE_SHOT, kc.LIMIT_PAIR_MIB]),
        float(c[k.OP_ONE_SHOT, kc.LIMIT_QUAD_MIB]),
        float(c[k.OP_TWO_SHOT, kc.LIMIT_OCT_MIB]),
    ]


def choose_limits(c: Array, samples: Samples, p: Any) -> None:
    """For each group size the limit between two measured sizes with the least loss, the largest among near equals.

    A limit that is NO_KERNEL stays so.
    """
    n = samples.n_ranks
    for which, members in enumerate((n <= 2, (n > 2) & (n <= 4), n > 4)):
        trial = limits(c)
        if not members.any() or trial[which] == NO_KERNEL:
            continue
        part = samples.at(members)
        sizes = np.unique(part.n_bytes) / MIB
        options = [*np.sqrt(sizes[:-1] * sizes[1:]).tolist(), UNLIMITED_MIB]
        losses = []
        for option in options:
            trial[which] = option
            set_limits(c, trial)
            losses.append(loss(part.errors(c, p)))
        good = [o for o, value in zip(options, losses, strict=True) if value <= TIE * min(losses)]
        trial[which] = max(good)
        set_limits(c, trial)


def reduces_in_switch(samples: Samples, p: Any, c: Array) -> bool:
    """Whether some sample may have been reduced in the switch."""
    return bool(p["multicast"] > 0 and samples.n_ranks.max() >= c[k.OP_NVLS, kc.MIN_RANKS])


def fit_library(
    table: pl.DataFrame,
    p: Any,
    relative: Array,
    gathers: Sequence[tuple[int, Samples]],
    points: Sequence[Samples],
) -> Array:
    """Coefficients of the communication library alone from its all-reduce table.

    `gathers`: rows and samples of all-gather and reduce-scatter. They run the same ring, and show it where all-reduces
    are reduced in the switch. `points`: more samples, of any primitive. Rows without samples stay the relative's.
    """
    samples = Samples.of(kc.ALL_REDUCE, table)
    c = relative.copy()
    set_limits(c, [NO_KERNEL] * 3)
    base_us = floor_us(samples, 2.0, p)
    parts = [samples, *(part for _, part in gathers), *points]
    nvls_starts_us = (30.0, 150.0) if reduces_in_switch(samples, p, c) else (None,)
    candidates = []
    for scale, nvls_us in itertools.product((0.3, 1.0), nvls_starts_us):
        lines = [
            # LL sends a flag with every payload word, LL128 one per 128 bytes, Simple copies in bulk.
            Line(k.OP_RING_LL, base_us, efficiencies(0.12 * scale, samples)),
            Line(k.OP_RING_LL128, base_us * 1.5, efficiencies(0.4 * scale, samples)),
            Line(k.OP_RING_SIMPLE, base_us + 20.0, efficiencies(0.8 * scale, samples)),
            *(Line(row, 0.5, efficiencies(0.9, part), None) for row, part in gathers),
        ]
        if nvls_us is not None:
            lines.append(Line(k.OP_NVLS, base_us + nvls_us, (0.65,)))
        candidates.append(fit_lines(lines, parts, p, c))
    return best_of(candidates, parts, p)


def refit(rows: Sequence[int], table: pl.DataFrame, p: Any, c: Array, anchor: float) -> Array:
    """A relative's rows moved to few samples: what they do not tell stays the relative's."""
    return fit_lines([line_like(row, c) for row in rows], Samples.of(kc.ALL_REDUCE, table), p, c, anchor)


def fit_exchange(low: int, bulk: int, samples: Samples, p: Any, c: Array) -> Array:
    """A latency line and a bulk line of an all-to-all kind of exchange."""
    base_us = floor_us(samples, 1.0 / (samples.n_ranks.min() - 1.0), p)
    candidates = [
        fit_lines(
            [
                Line(low, base_us, efficiencies(slow, samples)),
                Line(bulk, base_us * 1.5, efficiencies(0.8, samples)),
            ],
            samples,
            p,
            c,
        )
        for slow in (0.1, 0.4)
    ]
    return best_of(candidates, [samples], p)


def fit_engine(table: pl.DataFrame, p: Any, library: Array, kernel_ranks: float) -> Array:
    """Coefficients of an engine: its own kernels up to fitted size limits, then the library as the engine runs it.

    `kernel_ranks`: most ranks its own kernels serve (2 over PCIe). Limits and lines are fitted in turn from several
    starts; the best end counts.
    """
    samples = Samples.of(kc.ALL_REDUCE, table)
    base_us = floor_us(samples, 1.0 / (samples.n_ranks.min() - 1.0), p)
    own_sizes = efficiencies(0.5, samples.at(samples.n_ranks <= kernel_ranks)) if kernel_ranks > 2 else (0.5,)
    lines = [
        Line(k.OP_ONE_SHOT, base_us, own_sizes),
        Line(k.OP_TWO_SHOT, base_us * 1.8, own_sizes),
        *(line_like(row, library) for row in (k.OP_RING_LL, k.OP_RING_LL128, k.OP_RING_SIMPLE)),
    ]
    if reduces_in_switch(samples, p, library):
        nvls = library[k.OP_NVLS]
        lines.append(Line(k.OP_NVLS, float(nvls[k.OVERHEAD_US]), (float(nvls[k.MEMORY_EFFICIENCY]),)))

    def from_limit(first_mib: float) -> Array:
        c = library.copy()
        set_limits(c, [first_mib if ranks <= kernel_ranks else NO_KERNEL for ranks in (2, 4, 8)])
        for _ in range(4):
            before = limits(c)
            c = fit_lines(lines, samples, p, c)
            choose_limits(c, samples, p)
            if limits(c) == before:
                return c
        return fit_lines(lines, samples, p, c)

    return best_of([from_limit(first_mib) for first_mib in (0.5, 8.0, 64.0)], [samples], p)


def fit_kernels(table: pl.DataFrame, p: Any, library: Array, limit_mib: float) -> Array:
    """An engine's own kernels from a few samples within its known size limit; the library as it is."""
    samples = Samples.of(kc.ALL_REDUCE, table)
    base_us = floor_us(samples, 1.0 / (samples.n_ranks.min() - 1.0), p)
    sizes = efficiencies(0.5, samples)
    c = library.copy()
    set_limits(c, [limit_mib] * 3)
    lines = [Line(k.OP_ONE_SHOT, base_us, sizes), Line(k.OP_TWO_SHOT, base_us * 1.8, sizes)]
    return fit_lines(lines, samples, p, c)


def fit_quantized(table: pl.DataFrame, p: Any, c: Array, least_mib: Sequence[float]) -> tuple[Array, Array]:
    """`c` with the 4-bit kernel fitted to samples of it and used from `least_mib` (2, 4, 8 ranks); the samples' errors."""
    asked = p.copy()
    asked["quick_reduce"] = 1.0
    fitted = c.copy()
    columns = [kc.LEAST_PAIR_MIB, kc.LEAST_QUAD_MIB, kc.LEAST_OCT_MIB]
    samples = Samples.of(kc.ALL_REDUCE, table)
    fitted[k.OP_QUANTIZED, columns] = samples.n_bytes.min() / MIB
    line = Line(k.OP_QUANTIZED, float(samples.time_us.min()), (0.5,), step_us=None)
    fitted = fit_lines([line], samples, asked, fitted)
    errors = samples.errors(fitted, asked)
    fitted[k.OP_QUANTIZED, columns] = least_mib
    return fitted, errors


def held_out(
    fit: Callable[[pl.DataFrame], Array],
    samples_of: Callable[[pl.DataFrame], Samples],
    table: pl.DataFrame,
    p: Any,
    folds: int = 4,
) -> Array:
    """log(predicted / measured) of every row by a fit that saw no row of its message size, `folds` sizes apart."""
    sizes = table["bytes"].unique().sort()
    errors = []
    for fold in range(folds):
        out = pl.col("bytes").is_in(sizes.gather_every(folds, fold).to_list())
        errors.append(samples_of(table.filter(out)).errors(fit(table.filter(~out)), p))
    return np.concatenate(errors)
