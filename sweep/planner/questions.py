"""Questions about an answer: what would change it, at which load, and whether the winner is told from the second."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import NormalDist

import numpy as np

from sweep.catalog.engine_layer import Interval, interval
from sweep.fields.engine import ENGINES
from sweep.intervals import is_inside
from sweep.planner.candidates import Candidates
from sweep.planner.demand import LATENCIES, Demand, Limits
from sweep.planner.designs import Costs, Design, changed, costs_of
from sweep.planner.plans import Role

SWING = 0.2
"""How far the tornado moves each input, as a share of its value."""
DRAFT_TOKENS = 3.0
"""Speculation depth that is asked about where the run has none."""
TOLD_APART = 0.9
LOADS = np.geomspace(1.0 / 16.0, 16.0, 65)
"""Loads at which the winner is asked for, as shares of the planned one."""
FLICKER = 0.05
SHORTEST = 3
"""Consecutive loads at which a design must win to be told: 1.3 times the load from end to end."""
ESTIMATE = "latencies, p10 to p90"
"""Name of the swing that comes from the estimate's own interval."""

TFLOPS = ("tflops_fp32", "tflops_bf16", "tflops_fp8", "tflops_int8", "tflops_fp4")


@dataclass(frozen=True)
class Swing:
    """Cost of the winner, sized again, with one input lower and higher; whether another design then wins."""

    name: str
    low_usd_per_hour: float
    high_usd_per_hour: float
    low_winner: int
    high_winner: int

    @property
    def width(self) -> float:
        ends = [x for x in (self.low_usd_per_hour, self.high_usd_per_hour) if math.isfinite(x)]
        return max(ends) - min(ends) if len(ends) == 2 else math.inf


Variation = Callable[[Candidates, Demand, Limits, float], tuple[Candidates, Demand, Limits]]


def _column(*names: str) -> Variation:
    def vary(c: Candidates, d: Demand, x: Limits, f: float) -> tuple[Candidates, Demand, Limits]:
        return changed(c, {name: c.records[name] * f for name in names}), d, x

    return vary


def _whole(name: str) -> Variation:
    def vary(c: Candidates, d: Demand, x: Limits, f: float) -> tuple[Candidates, Demand, Limits]:
        return changed(c, {name: np.maximum(1.0, np.round(c.records[name] * f))}), d, x

    return vary


def _price_of_winner(c: Candidates, d: Demand, x: Limits, f: float) -> tuple[Candidates, Demand, Limits]:
    """The price of the first deployment's accelerator; the others keep theirs."""
    same = c.records["hardware_index"] == c.records["hardware_index"][0]
    return changed(c, {"usd_per_gpu_hour": c.usd_per_gpu_hour * np.where(same, f, 1.0)}), d, x


INPUTS: tuple[tuple[str, Variation], ...] = (
    ("load", lambda c, d, x, f: (c, d.times(f), x)),
    ("prompt length", _whole("isl")),
    ("output length", _whole("osl")),
    ("memory bandwidth", _column("hbm_gb_s")),
    ("memory size", _column("hbm_gib")),
    ("peak compute", _column(*TFLOPS)),
    ("link bandwidth", _column("link_gb_s", "nic_gb_s")),
    ("price of the winner's GPU", _price_of_winner),
    ("TTFT limit", lambda c, d, x, f: (c, d, replace(x, ttft_ms=x.ttft_ms * f))),
    ("TPOT limit", lambda c, d, x, f: (c, d, replace(x, tpot_ms=x.tpot_ms * f))),
)
"""The ten inputs that decide most plans, and how each is moved by a factor."""


def tornado(candidates: Candidates, designs: list[Design], demand: Demand, limits: Limits) -> list[Swing]:
    """Swings of the first design's cost, widest first. The first deployment of `candidates` is the winner's."""
    swings = []
    for name, vary in INPUTS:
        ends = [
            _winner(*vary(candidates, demand, limits, factor), designs)
            for factor in (1.0 - SWING, 1.0 + SWING)
        ]
        swings.append(Swing(name, ends[0][0], ends[1][0], ends[0][1], ends[1][1]))
    swings.append(_swing_of_error(candidates, designs, demand, limits))
    return sorted(swings, key=lambda s: -s.width)


def _swing_of_error(candidates: Candidates, designs: list[Design], demand: Demand, limits: Limits) -> Swing:
    """The winner's cost where its latencies are really at the p10 or the p90 of their estimate, the others as estimated.

    A fleet whose every latency is f times as long carries the load r within limits x as the estimated one does f r
    within x / f: the same fleet on a clock that is f times as fast.
    """
    error = math.exp(design_error(candidates, designs[0]) * NormalDist().inv_cdf(0.9))
    others = costs_of(candidates, designs, limits)
    usd = [others.usd_per_hour(design, demand) for design in designs[1:]]
    ends = []
    for factor in (1.0 / error, error):
        tighter = replace(limits, **{name: getattr(limits, name) / factor for name in LATENCIES})
        own = costs_of(candidates, designs[:1], tighter)
        longer = demand.times(factor) if demand.by_rate else demand
        whole = own.usd_per_hour(designs[0], longer)
        ends.append((own.usd_per_hour(designs[0], longer, whole=False), int(np.argmin([whole, *usd]))))
    return Swing(ESTIMATE, ends[0][0], ends[1][0], ends[0][1], ends[1][1])


def _winner(
    candidates: Candidates, demand: Demand, limits: Limits, designs: list[Design]
) -> tuple[float, int]:
    """Cost of the first design with fractional replicas, and the design that is cheapest with whole ones."""
    costs = costs_of(candidates, designs, limits)
    whole = [costs.usd_per_hour(design, demand) for design in designs]
    return costs.usd_per_hour(designs[0], demand, whole=False), int(np.argmin(whole))


@dataclass(frozen=True)
class BreakEven:
    """What would make the second design as cheap as the first; None where nothing within reach does.

    `price`: $/GPU-h of its accelerator. `bandwidth`: factor on its memory bandwidth. `acceptance`: share of drafted
    tokens accepted with `draft_tokens` per step. The last two compare with fractional replicas.
    """

    price_usd_per_gpu_hour: float | None
    bandwidth_factor: float | None
    acceptance: float | None
    draft_tokens: int


def break_even(
    candidates: Candidates, first: Design, second: Design, gpus_of_second: int, demand: Demand, limits: Limits
) -> BreakEven:
    """What makes `second` beat `first`, each input by itself."""
    now = costs_of(candidates, [first, second], limits)
    whole = now.usd_per_hour(first, demand)
    goal = now.usd_per_hour(first, demand, whole=False)
    rows = np.zeros(len(candidates), bool)
    rows[list(second.rows)] = True
    drafts = float(max(DRAFT_TOKENS, np.max(candidates.records["speculative_num_tokens"])))

    def cost(columns: dict[str, np.ndarray]) -> float:
        return costs_of(changed(candidates, columns), [second], limits).usd_per_hour(
            second, demand, whole=False
        )

    def with_bandwidth(factor: float) -> float:
        return cost({"hbm_gb_s": candidates.records["hbm_gb_s"] * np.where(rows, factor, 1.0)})

    def with_acceptance(share: float) -> float:
        before = candidates.records
        return cost(
            {
                "speculative_num_tokens": np.where(rows, drafts, before["speculative_num_tokens"]),
                "speculative_acceptance_rate": np.where(rows, share, before["speculative_acceptance_rate"]),
            }
        )

    return BreakEven(
        whole / gpus_of_second if math.isfinite(whole) else None,
        crossing(with_bandwidth, goal, 1.0, 8.0),
        crossing(with_acceptance, goal, 0.0, 1.0),
        int(drafts),
    )


def crossing(cost: Callable[[float], float], goal: float, low: float, high: float) -> float | None:
    """Smallest x in [low, high] with cost(x) <= goal for a falling cost, to 1/256 of the span; None where none."""
    if not cost(high) <= goal:
        return None
    for _ in range(8):
        middle = 0.5 * (low + high)
        if cost(middle) <= goal:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class Stretch:
    """Loads (from, to) over which one design of a list is cheapest."""

    design: int
    low: float
    high: float


def by_load(costs: Costs, designs: list[Design], demand: Demand) -> list[Stretch]:
    """Which design wins at which load, from 1/16 to 16 times the planned one.

    Whole replicas make winners flicker: a design keeps its stretch until another is cheaper by more than 5 % at three
    loads in a row.
    """
    winners: list[int] = []
    for share in LOADS:
        asked = demand.times(float(share))
        usd = [costs.usd_per_hour(design, asked) for design in designs]
        best = int(np.argmin(usd))
        if winners and usd[winners[-1]] * (1.0 - FLICKER) <= usd[best]:
            best = winners[-1]
        winners.append(best)
    stretches: list[Stretch] = []
    for winner, share in zip(steadied(winners), LOADS, strict=True):
        load = demand.times(float(share)).planned
        if stretches and stretches[-1].design == winner:
            stretches[-1] = replace(stretches[-1], high=load)
        else:
            stretches.append(Stretch(winner, load, load))
    return stretches


def steadied(winners: list[int]) -> list[int]:
    """Winners by load without those that win at fewer than `SHORTEST` loads in a row: the winner before them stays."""
    runs = [(design, len(list(same))) for design, same in groupby(winners)]
    out: list[int] = []
    for design, n in runs:
        stays = n >= SHORTEST or not out
        out += [design if stays else out[-1]] * n
    return out


def speed_error(candidates: Candidates, row: int, role: Role = "replica") -> float:
    """Standard deviation of ln(speed) of a deployment, from the interval of its estimate: half of p10 to p90 in ln, over 1.28.

    Prefill workers are as fast as their TTFT, the others as their TPOT.
    """
    found = estimate_interval(candidates, row)
    low, high = (found.ttft_p10, found.ttft_p90) if role == "prefill" else (found.tpot_p10, found.tpot_p90)
    return math.log(high / low) / (2.0 * NormalDist().inv_cdf(0.9))


def estimate_interval(candidates: Candidates, row: int) -> Interval:
    """The interval of a deployment's estimate, from held-out residuals of its model, accelerator and engine."""
    record = candidates.records[row]
    hardware = candidates.hardware[int(record["hardware_index"])]
    doublings = candidates.take(np.array([row])).results()["doublings_from_measured"][0]
    model, engine = str(candidates.labels["model"][row]), ENGINES[int(record["engine"])]
    return interval(model, hardware, engine, bool(record["disaggregate"] > 0.0), bool(is_inside(doublings)))


def design_error(candidates: Candidates, design: Design) -> float:
    """The error of a design: the mean of its parts', which one engine and one accelerator share."""
    roles: list[Role] = ["prefill", "decode"] if design.kind == "split" else ["replica" for _ in design.rows]
    errors = [speed_error(candidates, row, role) for row, role in zip(design.rows, roles, strict=True)]
    return float(np.mean(errors))


def chance_of_first(
    candidates: Candidates, first: Design, second: Design, usd_first: float, usd_second: float
) -> float:
    """Probability that the first design really is the cheaper one.

    Cost goes as 1 / speed; the errors of two accelerators are independent, those of one are shared and cancel:
    P = Phi(ln(usd_second / usd_first) / sqrt(s_first^2 + s_second^2)).
    """
    if not (math.isfinite(usd_first) and math.isfinite(usd_second)):
        return 1.0
    gap = math.log(usd_second / usd_first)
    kinds = [candidates.records["hardware_index"][design.rows[0]] for design in (first, second)]
    if kinds[0] == kinds[1] and first.kind == second.kind:
        return 1.0 if gap > 0.0 else 0.5
    errors = [design_error(candidates, design) for design in (first, second)]
    return NormalDist().cdf(gap / math.hypot(*errors))
