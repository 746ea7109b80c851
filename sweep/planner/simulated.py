"""A plan in the simulator: its working replicas behind a router, at an offered rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.auto import default_to
from kernels.des_layout import DECODE, MIXED, PREFILL, ROUTE_LOAD
from kernels.disagg import transfer_us
from kernels.hostcost import request_us
from kernels.units import NS_PER_US
from sweep.errors import UserError
from sweep.fidelity import coefficients_of
from sweep.fields.workload import ARRIVALS
from sweep.planner.plans import Part, Plan
from sweep.planner.question import Question
from sweep.simulate.curves import NS_PER_MS, LoadPoint, Served, Slo, measure, scored
from sweep.simulate.deployment import Deployment, client_traffic, deployment, run, served
from sweep.simulate.heartbeat import intervals
from sweep.simulate.runner import Outcome, request_frame, simulate
from sweep.simulate.world import Instance, RunOptions
from sweep.traces.requests import Requests
from sweep.traces.synthetic import Traffic, synthesize

MOST_REPLICAS = 12
"""Working replicas that are simulated: a larger fleet is simulated in part, at its share of the load."""
FEWEST_REQUESTS, MOST_REQUESTS = 600, 12_000
TURNS_IN_FLIGHT = 6.0
"""Requests of a run over requests in flight: the first quarter fills the fleet and is not scored."""
WARM_UP = 0.25
SHARED_PROMPTS = 8
"""Distinct prefixes behind a prefix hit rate: few enough to stay in the caches, as the hit rate says they do."""
ROLES = {"replica": MIXED, "prefill": PREFILL, "decode": DECODE}


@dataclass(frozen=True)
class Timeline:
    """A simulated fleet over time: one figure per interval, `seconds` at its end; counts of all replicas together."""

    seconds: npt.NDArray[np.float64]
    prompt_tok_s: npt.NDArray[np.float64]
    output_tok_s: npt.NDArray[np.float64]
    running: npt.NDArray[np.int64]
    waiting: npt.NDArray[np.int64]
    kv_share: npt.NDArray[np.float64]
    replicas: int


class Fleet:
    """The working part of `plan` as simulator instances: one per attention-DP rank."""

    def __init__(self, plan: Plan, question: Question, e2e_ms: float) -> None:
        self.question = question
        self.parts, self.share = scaled(plan)
        self.planned_per_s = plan.rate_per_s
        self.e2e_s = max(e2e_ms, 1.0) / 1e3
        self.records = question.candidates.records

    @cached_property
    def instances(self) -> list[Instance]:
        found: list[Instance] = []
        for part in self.parts:
            found += self._workers(part)
        return found

    @cached_property
    def request_overhead_ns(self) -> int:
        servers = sum(part.count for part in self.parts if part.role != "prefill")
        streams = self.planned_per_s * self.share * self.e2e_s / servers
        return max(request_overhead_ns(_deployment(self.question, part.row), streams) for part in self.parts)

    def _workers(self, part: Part) -> list[Instance]:
        ranks = int(self.records["attention_dp"][part.row])
        one = instance(self.question, part)
        return [
            Instance(dict(one.settings), None, one.record, one.derived, one.coefficients)
            for _ in range(part.count * ranks)
        ]

    def load_at(self, rate_per_s: float) -> LoadPoint:
        """The whole plan at `rate_per_s`, simulated in part; rates of the result are of the simulated part."""
        outcome, rate = self._run(rate_per_s)
        return self._scored(self._seen_by_clients(outcome), rate, WARM_UP)

    def replayed(self, requests: Requests, warm_up: float) -> tuple[LoadPoint, Served]:
        """Recorded arrivals, given at this part's share of the load; the first `warm_up` share is not scored."""
        span_s = max(float(requests.arrival_ns[-1] - requests.arrival_ns[0]) / 1e9, 1.0)
        seen = self._seen_by_clients(self._simulated(requests, 0))
        return self._scored(seen, len(requests) / span_s, warm_up), seen

    def timeline_at(self, rate_per_s: float) -> Timeline:
        """The simulated part over time, its pools together, at `rate_per_s` for the whole plan."""
        outcome, _ = self._run(rate_per_s)
        length_ns, counts = intervals(outcome)
        seconds = length_ns / 1e9
        total = {name: counts[name].sum(axis=0)[:-1] for name in counts}
        capacity = max(1, int(outcome.world.inst["n_blocks"].sum()))
        return Timeline(
            seconds=np.arange(1, total["generated"].size + 1) * seconds,
            prompt_tok_s=total["prompt_tokens"] / seconds,
            output_tok_s=total["generated"] / seconds,
            running=total["running"],
            waiting=total["waiting"],
            kv_share=total["blocks_used"] / capacity,
            replicas=sum(part.count for part in self.parts),
        )

    def _scored(self, seen: Served, rate_per_s: float, warm_up: float) -> LoadPoint:
        limits = self.question.limits
        slo = Slo(
            ttft_ms=_or_none(limits.ttft_ms),
            tpot_ms=_or_none(limits.tpot_ms),
            e2e_ms=_or_none(limits.e2e_ms),
            percentile=limits.percentile,
        )
        point = measure(seen, rate_per_s, slo=slo, warmup_share=warm_up)
        return replace(point, goodput_per_s=point.achieved_per_s * share_within(seen, slo, warm_up))

    def _run(self, rate_per_s: float) -> tuple[Outcome, float]:
        """The simulation, and the rate that it was offered (0 for a closed loop)."""
        rate = rate_per_s * self.share
        in_flight = self._in_flight(rate_per_s)
        asked = TURNS_IN_FLIGHT * (in_flight or rate * self.e2e_s)
        n = int(np.clip(asked, FEWEST_REQUESTS, MOST_REQUESTS))
        offered = 0.0 if in_flight else rate
        return self._simulated(traffic(self.question, offered, n), in_flight), offered

    def _simulated(self, requests: Requests, in_flight: int) -> Outcome:
        options = RunOptions(
            policy=ROUTE_LOAD,
            closed_loop=in_flight,
            seed=int(self.question.setting("seed")),
            request_overhead_ns=self.request_overhead_ns,
        )
        return simulate(self.instances, requests, options)

    def _seen_by_clients(self, outcome: Outcome) -> Served:
        """What was served, and how many requests the instances can run."""
        return replace(served(outcome), max_running=float(outcome.world.inst["running_cap"].sum()))

    def _in_flight(self, rate_per_s: float) -> int:
        """Requests in flight of the simulated part where the demand is given so; 0 where it is a rate."""
        demand = self.question.demand
        if demand.by_rate or self.planned_per_s <= 0.0:
            return 0
        return max(1, round(demand.planned * self.share * rate_per_s / self.planned_per_s))


def share_within(seen: Served, slo: Slo, warm_up: float = WARM_UP) -> float:
    """Share of the scored requests that meet every limit; unfinished ones do not."""
    done = np.flatnonzero(seen.finish_ns >= 0)
    if not len(done):
        return 0.0
    rows = done[scored(seen.finish_ns[done], warm_up)]
    first, finish = seen.first_token_ns[rows], seen.finish_ns[rows]
    ns = {
        "ttft": first - seen.arrival_ns[rows],
        "tpot": (finish - first) / np.maximum(seen.output_tokens[rows] - 1, 1),
        "e2e": finish - seen.arrival_ns[rows],
    }
    met = np.ones(len(rows), bool)
    for name, limit in slo.limits.items():
        met &= ns[name] <= limit * NS_PER_MS
    return float(met.mean()) * len(done) / len(seen.finish_ns)


def _or_none(limit: float) -> float | None:
    return limit if math.isfinite(limit) else None


def requests_frame(question: Question) -> pl.DataFrame:
    """The one deployment of `question` under its workload: a row per request of one DP rank, times in ns.

    Closed loops keep `workload.concurrency` requests in flight, `load=rate` offers `workload.request_rate`.
    Raises UserError for a grid of several deployments, and for split pools, which `servesweep simulate` takes.
    """
    if len(question.candidates) != 1:
        raise UserError(
            f"{len(question.candidates):,} deployments; one is simulated at a time", field="simulate"
        )
    one, seed = _deployment(question, 0), int(question.setting("seed"))
    asked, clients = client_traffic(one, seed)
    outcome = run(one, synthesize(asked) if question.trace is None else question.trace, clients, seed)
    return request_frame(outcome, [str(question.candidates.labels["model"][0])])


def scaled(plan: Plan) -> tuple[tuple[Part, ...], float]:
    """The working parts, cut in proportion where they are many, and the share of the load that they carry."""
    working = plan.working
    total = sum(part.count for part in working)
    if total <= MOST_REPLICAS:
        return working, 1.0
    cut = tuple(
        Part(p.row, p.role, max(1, round(p.count * MOST_REPLICAS / total)), p.rate_per_s, p.saturated_per_s)
        for p in working
    )
    if plan.kind == "split":
        return cut, min(c.count / p.count for c, p in zip(cut, working, strict=True))
    carried = sum(c.count * c.rate_per_s for c in cut)
    return cut, carried / sum(p.count * p.rate_per_s for p in working)


def traffic(question: Question, rate_per_s: float, n: int) -> Requests:
    """`n` requests at `rate_per_s` with the lengths of the question's trace or workload."""
    record = question.candidates.records[0]
    settings = question.grid.settings
    hit = float(record["prefix_hit_rate"])
    shape: dict[str, Any] = {
        name: settings[f"workload.{name}"] for name in ("isl_sigma", "osl_sigma", "length_correlation")
    }
    if settings["workload.longest_tokens"] is not None:
        shape["max_tokens"] = settings["workload.longest_tokens"]
    process = ARRIVALS[int(record["arrival"])]
    asked = Traffic(
        n_requests=n,
        rate_per_s=rate_per_s,
        process="gamma" if process == "pulse" else process,  # type: ignore[arg-type]
        burstiness=float(record["burstiness"]),
        distribution="empirical" if question.trace is not None else settings["workload.lengths"],
        isl=float(record["isl"]),
        osl=float(record["osl"]),
        length_range=float(record["length_range"]),
        n_prefixes=SHARED_PROMPTS if hit > 0.0 else 0,
        prefix_tokens=int(hit * record["isl"]) if hit > 0.0 else None,
        block_tokens=int(default_to(record["block_size"], 16.0)),
        seed=int(question.setting("seed")),
        **shape,
    )
    return synthesize(asked, sample=question.trace)


def instance(question: Question, part: Part) -> Instance:
    """One attention-DP rank of a worker, priced by the step kernel."""
    one = _deployment(question, part.row)
    engine = one.instance()
    return replace(engine, settings=engine.settings | _speculation(one.p) | _role(one, part))


def _deployment(question: Question, row: int) -> Deployment:
    candidates = question.candidates
    record = candidates.records[row : row + 1]
    return deployment(record, coefficients_of(candidates.fitted, record))


def _speculation(p: Any) -> dict[str, Any]:
    return {
        "spec_tokens": int(p["speculative_num_tokens"]),
        "spec_acceptance": float(p["speculative_acceptance_rate"]),
        "draft_cost": float(p["speculative_draft_cost_factor"]),
    }


def request_overhead_ns(one: Deployment, streams: float) -> int:
    """Host time of a request before its prefill, ns, while its server streams `streams` responses."""
    return int(request_us(streams, one.p, one.coefficients) * NS_PER_US)


def _role(one: Deployment, part: Part) -> dict[str, Any]:
    """What the instance does, and the hand-over of a prompt's KV cache where pools split the work."""
    p, d = one.p, one.d
    settings: dict[str, Any] = {"role": ROLES[part.role]}
    if part.role == "replica":
        return settings
    n_bytes = max(1.0, float(d["kv_bytes_per_token"]))
    hop_ns = max(1.0, float(transfer_us(p["isl"], p, d)) * NS_PER_US)
    return settings | {
        "transfer_bytes_per_token": int(n_bytes),
        "pd_bytes_per_ns": float(p["isl"]) * n_bytes / hop_ns,
    }
