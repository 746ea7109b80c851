"""A plan in the simulator: its working replicas behind a router, at an offered rate."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.auto import default_to
from kernels.coefficients import HOST_REQUEST_US, OP_HOST
from kernels.des_layout import DECODE, MIXED, PREFILL, PRICE_STEP, ROUTE_LOAD
from kernels.disagg import transfer_us
from kernels.layout import DERIVED
from kernels.resolve import resolve
from kernels.units import NS_PER_US, US_PER_MS
from sweep.errors import UserError
from sweep.fields.workload import ARRIVALS, LOADS
from sweep.planner.plans import Part, Plan
from sweep.planner.question import Question
from sweep.simulate.curves import LoadPoint, Served, Slo, measure
from sweep.simulate.runner import request_frame, simulate
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

    def _workers(self, part: Part) -> list[Instance]:
        ranks = int(self.records["attention_dp"][part.row])
        one = instance(self.question, part)
        return [
            Instance(dict(one.settings), None, one.record, one.derived, one.coefficients)
            for _ in range(part.count * ranks)
        ]

    def load_at(self, rate_per_s: float) -> LoadPoint:
        """The whole plan at `rate_per_s`, simulated in part; rates of the result are of the simulated part."""
        limits = self.question.limits
        slo = Slo(
            ttft_ms=_or_none(limits.ttft_ms),
            tpot_ms=_or_none(limits.tpot_ms),
            e2e_ms=_or_none(limits.e2e_ms),
            percentile=limits.percentile,
        )
        rate = rate_per_s * self.share
        in_flight = self._in_flight(rate_per_s)
        asked = TURNS_IN_FLIGHT * (in_flight or rate * self.e2e_s)
        n = int(np.clip(asked, FEWEST_REQUESTS, MOST_REQUESTS))
        requests = traffic(self.question, 0.0 if in_flight else rate, n)
        options = RunOptions(
            policy=ROUTE_LOAD, closed_loop=in_flight, seed=int(self.question.setting("seed"))
        )
        outcome = simulate(self.instances, requests, options)
        inst, req = outcome.world.inst, outcome.world.req
        overhead_ns = int(inst["request_overhead_ns"].max())
        first, finish = (np.where(req[k] >= 0, req[k] + overhead_ns, -1) for k in ("first_token", "finish"))
        span = max(1, int(req["finish"].max()) - int(req["arrival"].min()))
        served = Served(
            req["arrival"].copy(),
            req["started"].copy(),
            first,
            finish,
            req["generated"].copy(),
            float(inst["running_cap"].sum()),
            float(inst["busy_ns"].sum() / span / len(inst)),
        )
        return measure(served, 0.0 if in_flight else rate, slo=slo, warmup_share=WARM_UP)

    def _in_flight(self, rate_per_s: float) -> int:
        """Requests in flight of the simulated part where the demand is given so; 0 where it is a rate."""
        demand = self.question.demand
        if demand.by_rate or self.planned_per_s <= 0.0:
            return 0
        return max(1, round(demand.planned * self.share * rate_per_s / self.planned_per_s))


def _or_none(limit: float) -> float | None:
    return limit if math.isfinite(limit) else None


def requests_frame(question: Question) -> pl.DataFrame:
    """The one deployment of `question` under its workload: a row per request, times in ns.

    Closed loops keep `workload.concurrency` requests in flight, `load=rate` offers `workload.request_rate`.
    Raises UserError for a grid of several deployments, and for split pools, which `servesweep simulate` takes.
    """
    record = question.candidates.records[0]
    if len(question.candidates) != 1:
        raise UserError(
            f"{len(question.candidates):,} deployments; one is simulated at a time", field="simulate"
        )
    if record["disaggregate"] > 0.0:
        raise UserError("needs a cluster file: servesweep simulate", field="disagg.disaggregate")
    is_open = int(record["load"]) == LOADS.index("rate")
    clients = int(record["concurrency"])
    n = int(default_to(record["num_prompts"], 10.0 * clients))
    requests = traffic(question, float(record["request_rate"]) if is_open else 0.0, n)
    options = RunOptions(
        policy=ROUTE_LOAD, closed_loop=0 if is_open else clients, seed=int(question.setting("seed"))
    )
    one = instance(question, Part(0, "replica", 1, 0.0, 0.0))
    instances = [replace(one, settings=dict(one.settings)) for _ in range(int(record["attention_dp"]))]
    outcome = simulate(instances, requests, options)
    return request_frame(outcome, [str(question.candidates.labels["model"][0])] * len(instances))


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
    candidates = question.candidates
    record = candidates.records[part.row : part.row + 1].copy()
    derived = np.zeros(1, DERIVED)
    resolve(record[0], derived[0])
    fitted = np.asarray(candidates.fitted[int(record[0]["hardware_index"]), int(record[0]["engine"])])
    return Instance(
        _settings(record[0], derived[0], fitted, part), record=record, derived=derived, coefficients=fitted
    )


def _settings(p: Any, d: Any, c: npt.NDArray[np.float64], part: Part) -> dict[str, Any]:
    block = int(default_to(p["block_size"], 16.0))
    hop_us = transfer_us(p["isl"], p, d) if part.role != "replica" else 0.0
    bytes_sent = max(1.0, float(p["isl"] * d["kv_bytes_per_token"]))
    return {
        "max_seqs": int(d["max_seqs"]),
        "budget": int(d["token_budget"]),
        "chunked": 1,
        "reserve": 1,
        "block_size": block,
        "caching": int(p["prefix_hit_rate"] > 0.0),
        "n_blocks": max(1, int(d["kv_capacity_tokens"]) // block),
        "max_len": int(d["max_model_len"]),
        "role": ROLES[part.role],
        "group": -1,
        "pp": int(p["pp"]),
        "tp": int(p["tp"]),
        "ep_total": 1,
        "local_ep": 1,
        "stream_interval": 1,
        "pricer": PRICE_STEP,
        "spec_tokens": int(p["speculative_num_tokens"]),
        "spec_acceptance": float(p["speculative_acceptance_rate"]),
        "draft_cost": float(p["speculative_draft_cost_factor"]),
        "transfer_bytes_per_token": int(max(1.0, d["kv_bytes_per_token"])),
        "pd_bytes_per_ns": bytes_sent / max(1.0, hop_us * NS_PER_US),
        "request_overhead_ns": float(
            default_to(p["request_overhead_ms"] * US_PER_MS, c[OP_HOST, HOST_REQUEST_US]) * NS_PER_US
        ),
    }
