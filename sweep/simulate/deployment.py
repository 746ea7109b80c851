"""A deployment of the closed form, request by request: from an input record to a simulation and its figures.

One DP rank is simulated: ranks are alike and the step kernel prices what they share. Lengths, number of requests and
clients are those of the closed form, so that the two can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernels.auto import default_to
from kernels.batching import is_exclusive
from kernels.des_layout import (
    FINISHED,
    MIXED,
    PRICE_STEP,
    ROUTE_KV,
    ROUTE_PREFIX,
    ROUTE_RAND,
    ROUTE_RR,
)
from kernels.evaluate import LOAD_CLOSED, LOAD_RATE, REQUESTS_PER_CLIENT
from kernels.hostcost import loop_front_us
from kernels.layout import DERIVED, RESULT
from kernels.operating import host_latency
from kernels.reasons import OK, TEXT
from kernels.resolve import resolve
from kernels.units import NS_PER_US
from sweep.errors import UserError
from sweep.fields.workload import ARRIVALS
from sweep.simulate.curves import LoadAt, LoadPoint, Served, Slo, in_flight, measure
from sweep.simulate.runner import Outcome, simulate
from sweep.simulate.world import Instance, RunOptions
from sweep.traces.lengths import Distribution
from sweep.traces.requests import MAX_TOKENS, Requests
from sweep.traces.synthetic import Traffic, synthesize

MOST_REQUESTS = 20_000
"""Requests of one simulation: enough for a mean within a percent, few enough for seconds."""
RATE_REQUESTS = 2_000
RUN_LENGTHS = 20.0
"""An offered rate is simulated for this many times the mean time of a request, so that the steady state outweighs
the start, the end, and the share `RATE_WARMUP` that is left out."""
RATE_WARMUP = 0.1


@dataclass(frozen=True)
class Shape:
    """What a simulation is told beyond the record: fields of the groups `workload` and `des` without a column."""

    lengths: Distribution = "uniform"
    isl_sigma: float = 1.0
    osl_sigma: float = 1.0
    length_correlation: float = 0.0
    longest_tokens: int | None = None
    pulse_requests: int = 10
    pulse_delay_s: float = 60.0
    instances: int = 1
    routing: str = "round_robin"

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Hydra key of each."""
        fleet = ("instances", "routing")
        return {name: f"{'des' if name in fleet else 'workload'}.{name}" for name in cls.__dataclass_fields__}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Shape:
        """From a run's settings by Hydra key. Raises UserError for lengths that need a trace."""
        given = {name: settings.get(key) for name, key in cls.keys().items()}
        shape = cls(**{name: value for name, value in given.items() if value is not None})
        if shape.lengths == "empirical":
            raise UserError(
                "only the planner draws lengths from a trace", field="workload.lengths", value=shape.lengths
            )
        return shape


PLAIN = Shape()
ROUTES = {"round_robin": ROUTE_RR, "random": ROUTE_RAND, "prefix_aware": ROUTE_PREFIX, "kv": ROUTE_KV}
"""Policies of `des.routing`."""


class Twin(Protocol):
    """What a simulation of a deployment needs: `engines` of one unit, `ranks` such units and `gpus` in the deployment."""

    @property
    def coefficients(self) -> NDArray[np.float64]: ...
    @property
    def p(self) -> Any: ...
    @property
    def ranks(self) -> float: ...
    @property
    def gpus(self) -> float: ...
    def engines(self, copies: int) -> list[Instance]: ...


@dataclass(frozen=True)
class Deployment:
    """A legal deployment: input and derived records and coefficients of its accelerator and engine."""

    record: NDArray[Any]  # (1,) record_dtype
    derived: NDArray[Any]  # (1,) DERIVED
    coefficients: NDArray[np.float64]  # (N_OPS, N_COEF)

    @property
    def p(self) -> Any:
        return self.record[0]

    @property
    def d(self) -> Any:
        return self.derived[0]

    @property
    def ranks(self) -> float:
        """Attention-DP ranks, each an engine of its own."""
        return float(self.p["attention_dp"])

    @property
    def gpus(self) -> float:
        """GPUs of the whole deployment."""
        return float(self.d["gpus"])

    def engines(self, copies: int) -> list[Instance]:
        """`copies` alike ranks."""
        return [self.instance() for _ in range(copies)]

    @property
    def kv_tokens(self) -> float:
        """Tokens that one rank holds of requests of the mean length.

        Where a request costs bytes of its own (windows, states), they count for its tokens as in the closed form.
        """
        p, d = self.p, self.d
        tokens = float(d["kv_capacity_tokens"])
        mean = 0.5 * (1.0 + float(p["length_range"])) * (float(p["isl"]) + 0.5 * float(p["osl"]))
        if d["kv_bytes_per_request"] > 0.0:
            tokens = float(d["kv_pool_bytes"]) / (d["kv_bytes_per_token"] + d["kv_bytes_per_request"] / mean)
        if p["enforce_memory"] <= 0.0:
            tokens = max(tokens, float(p["concurrency"]) * float(p["isl"] + p["osl"]))
        return tokens

    def instance(self) -> Instance:
        """One DP rank as an instance of the simulator."""
        p, d = self.p, self.d
        block_size = int(p["block_size"]) if p["block_size"] >= 1 else 1
        settings: dict[str, Any] = {
            "max_seqs": max(1, int(d["max_seqs"])),
            "budget": max(1, int(min(d["token_budget"], 2**40))),
            "chunked": int(p["chunked_prefill"] != 0),
            "reserve": 1,
            "block_size": block_size,
            "caching": 1,
            "n_blocks": max(1, int(self.kv_tokens) // block_size),
            "max_len": 0,
            "role": MIXED,
            "group": -1,
            "pp": int(p["pp"]),
            "tp": 1,
            "ep_total": 1,
            "local_ep": 1,
            "stream_interval": 1,
            "pricer": PRICE_STEP,
            "micro_batch": int(default_to(float(p["micro_batch_size"]), -1.0)),
            "exclusive_prefill": int(is_exclusive(p)),
            "threshold": int(p["chunked_prefill_size"]),
            "max_prefill_seqs": int(p["max_prefill_seqs"]),
            "kv_pool_tokens": int(default_to(float(p["kv_cache_tokens"]), 0.0)),
            "spec_tokens": int(p["speculative_num_tokens"]),
            "spec_acceptance": float(p["speculative_acceptance_rate"]),
            "draft_cost": float(p["speculative_draft_cost_factor"]),
        }
        return Instance(settings, record=self.record, derived=self.derived, coefficients=self.coefficients)


def deployment(record: NDArray[Any], coefficients: NDArray[np.float64]) -> Deployment:
    """Resolve an input record, shape (1,). Raises UserError where it is illegal, does not fit, or splits its pools."""
    own = record.reshape(1).copy()
    derived = np.zeros(1, DERIVED)
    resolve(own[0], derived[0])
    reason = int(derived[0]["reason"])
    if reason != OK:
        raise UserError(TEXT[reason])
    if own[0]["disaggregate"] > 0:
        raise UserError("its prefill and decode are split: sweep.simulate.pools")
    return Deployment(own, derived, np.ascontiguousarray(coefficients))


def client_traffic(one: Twin, seed: int = 0, shape: Shape = PLAIN) -> tuple[Traffic, int]:
    """Requests that one rank of every instance gets together, and how many clients send them (0: a rate is offered)."""
    p = one.p
    mean_isl = max(1.0, float(p["isl"]) * 0.5 * (1.0 + float(p["length_range"])))
    prefix_tokens = int(mean_isl * p["prefix_hit_rate"])
    traffic = Traffic(
        isl=float(p["isl"]),
        osl=float(p["osl"]),
        length_range=float(p["length_range"]),
        n_prefixes=1 if prefix_tokens else 0,
        prefix_tokens=prefix_tokens,
        block_tokens=int(max(1, p["block_size"])),
        seed=seed,
        isl_sigma=shape.isl_sigma,
        osl_sigma=shape.osl_sigma,
        length_correlation=shape.length_correlation,
    )
    if shape.lengths == "lognormal":
        mean_osl = max(1.0, float(p["osl"]) * 0.5 * (1.0 + float(p["length_range"])))
        longest = shape.longest_tokens or MAX_TOKENS
        traffic = replace(traffic, distribution="lognormal", isl=mean_isl, osl=mean_osl, max_tokens=longest)
    if p["load"] == LOAD_RATE:
        total = min(MOST_REQUESTS, default_to(float(p["num_prompts"]), RATE_REQUESTS))
        rate = float(p["request_rate"]) / one.ranks * shape.instances
        traffic = replace(traffic, n_requests=int(total), rate_per_s=rate)
        process = ARRIVALS[int(p["arrival"])]
        if process == "pulse":
            traffic = replace(traffic, pulse_requests=shape.pulse_requests, pulse_delay_s=shape.pulse_delay_s)
            return replace(traffic, process="pulse"), 0
        if process == "deterministic":
            return replace(traffic, process="deterministic"), 0
        return replace(traffic, process="gamma", burstiness=float(p["burstiness"])), 0
    if p["load"] != LOAD_CLOSED:
        raise UserError("only closed loops and offered rates are simulated", field="workload.load")
    if p["disaggregate"] <= 0 and not is_exclusive(p):
        traffic = replace(traffic, output_spread=float(p["decode_spread"]))
    clients = max(1, round(float(p["concurrency"]) / one.ranks)) * shape.instances
    total = default_to(float(p["num_prompts"]), REQUESTS_PER_CLIENT * float(p["concurrency"])) / one.ranks
    total *= shape.instances
    return replace(traffic, n_requests=max(clients, min(MOST_REQUESTS, round(total)))), clients


def run(
    one: Twin,
    requests: Requests,
    clients: int,
    seed: int = 0,
    replicas: int = 1,
    policy: int = 0,
    front_us: float = 0.0,
) -> Outcome:
    """Simulate `replicas` units (ranks; whole deployments with split pools); `clients` > 0 is a closed loop over all.

    `front_us`: time from a request's arrival until it can be scheduled.
    """
    options = RunOptions(
        policy=policy, closed_loop=clients, seed=seed, request_overhead_ns=int(front_us * NS_PER_US)
    )
    return simulate(one.engines(replicas), requests, options)


def served(outcome: Outcome) -> Served:
    """What curves measure, from a finished simulation."""
    req, inst = outcome.world.req, outcome.world.inst
    done = req["state"] == FINISHED
    end = max(1, int(req["finish"].max()))
    return Served(
        arrival_ns=np.asarray(req["arrival"]),
        started_ns=np.asarray(req["started"]),
        first_token_ns=np.where(done, req["first_token"], -1),
        finish_ns=np.where(done, req["finish"], -1),
        output_tokens=np.asarray(req["generated"]),
        max_running=float(inst["max_seqs"].sum()),
        busy_share=float(inst["busy_ns"].sum()) / end / len(inst),
    )


def simulate_deployment(one: Twin, seed: int = 0, shape: Shape = PLAIN) -> dict[str, float]:
    """Figures of one deployment under its own load, in the closed form's units and definitions.

    With several instances, as many deployments under as many times the load behind a router; rates are per deployment.

    Means over all requests of a closed loop, its opening burst included, and over the steady part of an offered rate;
    percentiles beside them.
    """
    traffic, clients = client_traffic(one, seed, shape)
    told, front_us = _in_loop(one) if clients else (one.p, 0.0)

    def simulated(asked: Traffic) -> Outcome:
        return run(one, synthesize(asked), clients, seed, shape.instances, ROUTES[shape.routing], front_us)

    outcome = simulated(traffic)
    was = served(outcome)
    while (
        clients == 0
        and np.isnan(one.p["num_prompts"])
        and traffic.n_requests < _steady_requests(was, traffic)
    ):
        traffic = replace(traffic, n_requests=_steady_requests(was, traffic))
        outcome = simulated(traffic)
        was = served(outcome)
    point = measure(was, traffic.rate_per_s, warmup_share=0.0 if clients else RATE_WARMUP)
    o = np.zeros(1, RESULT)
    mean = point.latency_ms
    if "ttft_mean" not in mean:
        return {"requests": float(point.n_finished)}
    host_latency(
        1e3 * mean["ttft_mean"],
        1e3 * mean.get("tpot_mean", 0.0),
        1e3 * mean.get("tpot_p50", 0.0),
        in_flight(was) * one.ranks,
        float(traffic.isl),
        float(was.output_tokens.mean()),
        told,
        one.coefficients,
        o[0],
    )
    host_ms = float(o[0]["ttft_ms"]) - mean["ttft_mean"]
    out = {name: float(o[0][name]) for name in ("ttft_ms", "tpot_ms", "e2e_ms")}
    out |= {f"ttft_p{q}_ms": mean[f"ttft_p{q}"] + host_ms for q in (50, 90, 99)}
    out |= {f"tpot_p{q}_ms": mean[f"tpot_p{q}"] for q in (50, 90, 99) if f"tpot_p{q}" in mean}
    out |= {f"e2e_p{q}_ms": mean[f"e2e_p{q}"] + host_ms for q in (50, 90, 99)}
    return out | {
        "output_tok_s_per_gpu": point.output_tok_s * one.ranks / one.gpus / shape.instances,
        "requests_per_s": point.achieved_per_s * one.ranks / shape.instances,
        "requests": float(point.n_finished),
        "preemptions": float(outcome.world.inst["n_preempted"].sum()),
        "busy_share": was.busy_share,
        "steps": float(outcome.world.inst["n_steps"].sum()),
    }


def _in_loop(one: Twin) -> tuple[Any, float]:
    """The record as it is charged afterwards, and what replacements wait in the front end, us: that decides who meets whom."""
    told = one.p.copy()
    mean_isl = max(1.0, float(told["isl"]) * 0.5 * (1.0 + float(told["length_range"])))
    front_us = float(loop_front_us(float(told["concurrency"]), mean_isl, one.p, one.coefficients))
    if front_us > 0.0:
        told["request_overhead_ms"] = told["tokenize_overhead_us"] = 0.0
    return told, front_us


def _steady_requests(was: Served, traffic: Traffic) -> int:
    """Requests of a run that is long beside the time that a request takes."""
    in_flight = traffic.rate_per_s * float((was.finish_ns - was.arrival_ns).mean()) / 1e9
    return min(MOST_REQUESTS, math.ceil(RUN_LENGTHS * in_flight))


def load_at(
    one: Deployment,
    traffic: Traffic,
    slo: Slo,
    *,
    replicas: int = 1,
    policy: int = 0,
    warmup_share: float = 0.1,
) -> LoadAt:
    """A function that simulates an offered rate (requests/s) on `replicas` of this deployment: `curves.LoadAt`."""

    def at(rate_per_s: float) -> LoadPoint:
        requests = synthesize(replace(traffic, rate_per_s=rate_per_s))
        outcome = run(one, requests, 0, traffic.seed, replicas, policy)
        return measure(served(outcome), rate_per_s, slo=slo, warmup_share=warmup_share)

    return at
