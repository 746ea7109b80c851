"""The same deployment request by request, where an open arrival process, a file or a trace asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from kernels.des_layout import FINISHED, REJECTED, ROUTE_LOAD, ROUTE_RAND, ROUTE_RR
from kernels.units import NS_PER_US
from sweep.errors import UserError
from sweep.estimation.price import Estimate
from sweep.estimation.rules import Deployment
from sweep.fields import by_key
from sweep.simulate.api import derived_of, instance_of, request_overhead_ns
from sweep.simulate.curves import LoadPoint, Served, load_curve, measure
from sweep.simulate.runner import Outcome
from sweep.simulate.runner import simulate as run_outcome
from sweep.simulate.world import RunOptions
from sweep.traces.arrivals import Process
from sweep.traces.reader import read
from sweep.traces.requests import Requests
from sweep.traces.synthetic import Traffic, synthesize

ROUTES = {"round_robin": ROUTE_RR, "random": ROUTE_RAND}
"""Routers that a fleet of one kind has here; the others see the live load."""
NS_PER_S = 1e9
MOST_LOGGED_STEPS = 5_000_000


@dataclass(frozen=True)
class Simulation:
    """Percentiles at the configured load, a curve of loads where asked for, and what happened on the way."""

    point: LoadPoint
    curve: tuple[LoadPoint, ...]
    steps: int
    preemptions: int
    rejected: int
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        counts = {"steps": self.steps, "preemptions": self.preemptions, "rejected": self.rejected}
        return {**self.point.as_dict(), **counts, "load_curve": [point.as_dict() for point in self.curve]}


@dataclass(frozen=True)
class Simulator:
    """A deployment ready to replay requests: `record` of shape (1,), `coefficients` (N_OPS, N_COEF)."""

    asked: Deployment
    record: npt.NDArray[Any]
    coefficients: npt.NDArray[np.float64]

    def setting(self, name: str) -> Any:
        """A knob of the simulator: as given, else its default."""
        key = f"des.{name}"
        return self.asked.values.get(key, by_key()[key].default)

    def requests(self, rate_per_s: float) -> Requests:
        """Synthetic requests at a rate, or those of the file or trace. Raises UserError for a bad file."""
        for name in ("workload_file", "mooncake_trace"):
            if self.setting(name):
                return read(self.setting(name)).requests
        p = self.record[0]
        prefix = self.setting("prefix_len")
        return synthesize(
            Traffic(
                n_requests=int(self.setting("num_requests")),
                rate_per_s=rate_per_s,
                process=_process(self.asked.values.get("workload.arrival")),
                burstiness=float(p["burstiness"]),
                isl=float(p["isl"]),
                osl=float(p["osl"]),
                length_range=float(p["length_range"]),
                n_prefixes=int(self.setting("num_prefixes")),
                prefix_tokens=None if prefix is None else int(prefix),
                prefix_zipf=float(self.setting("prefix_zipf")),
                block_tokens=int(self.setting("prefix_block_size")),
                seed=int(self.setting("seed")),
            )
        )

    def run(self, requests: Requests, log_steps: int = 0) -> Outcome:
        """Replay `requests` on the fleet."""
        derived = derived_of(self.record)
        ranks = int(self.record[0]["attention_dp"])
        grouped = ranks > 1 and self.record[0]["n_moe_layers"] > 0
        instances = [
            instance_of(self.record, derived, self.coefficients, group=replica * ranks if grouped else -1)
            for replica in range(int(self.setting("instances")))
            for _ in range(ranks)
        ]
        options = RunOptions(
            policy=ROUTES.get(str(self.setting("routing")), ROUTE_LOAD),
            seed=int(self.setting("seed")),
            n_buckets=1,
            log_steps=log_steps,
            request_overhead_ns=request_overhead_ns(self.record, self.coefficients),
        )
        return run_outcome(instances, requests, options)

    def point(self, outcome: Outcome, rate_per_s: float) -> LoadPoint:
        """Figures of a finished run, on the client's clock."""
        world, p = outcome.world, self.record[0]
        req, inst = world.req, world.inst
        done = req["state"] == FINISHED
        tokenize = (float(p["tokenize_overhead_us"]) * NS_PER_US * req["isl"]).astype(np.int64)
        detokenize = float(p["detokenize_overhead_us"]) * NS_PER_US * np.maximum(0, req["generated"] - 1)
        served = Served(
            arrival_ns=req["arrival"],
            started_ns=req["started"],
            first_token_ns=np.where(done, req["first_token"] + tokenize, -1),
            finish_ns=np.where(done, req["finish"] + tokenize + detokenize.astype(np.int64), -1),
            output_tokens=req["generated"],
            max_running=float(inst["max_seqs"].sum()),
            busy_share=float(inst["busy_ns"].sum()) / max(1.0, float(req["finish"].max()) * len(inst)),
        )
        return measure(served, rate_per_s, warmup_share=float(self.setting("warmup_frac")))

    def at(self, rate_per_s: float) -> LoadPoint:
        """A synthetic load at a rate."""
        return self.point(self.run(self.requests(rate_per_s)), rate_per_s)


def _process(arrival: Any) -> Process:
    for process in get_args(Process):
        if process == arrival:
            return process  # type: ignore[no-any-return]
    return "poisson"


def simulation(asked: Deployment, estimate: Estimate, coefficients: npt.NDArray[np.float64]) -> Simulation:
    """Simulate an estimated deployment under its offered load. `coefficients` has shape (N_OPS, N_COEF).

    Raises UserError for split pools, a deployment that cannot run, or a file that cannot be read.
    """
    if estimate.record["disaggregate"][0] > 0.0:
        raise UserError("split pools are simulated by servesweep simulate, from a cluster configuration")
    simulator = Simulator(asked, estimate.record, coefficients)
    dump = simulator.setting("dump_steps")
    configured = float(estimate.record["request_rate"][0])
    requests = simulator.requests(configured)
    if configured <= 0.0:
        span_s = max(1e-9, float(requests.arrival_ns.max() - requests.arrival_ns.min()) / NS_PER_S)
        configured = len(requests) / span_s
    outcome = simulator.run(requests, MOST_LOGGED_STEPS if dump else 0)
    if dump:
        from sweep.simulate.outputs import write_steps

        write_steps(outcome, Path(str(dump)))
    curve: list[LoadPoint] = []
    if simulator.setting("load_curve"):
        curve = load_curve(simulator.at, estimate.results["requests_per_s"], configured)
    inst = outcome.world.inst
    return Simulation(
        point=simulator.point(outcome, configured),
        curve=tuple(curve),
        steps=int(inst["n_steps"].sum()),
        preemptions=int(inst["n_preempted"].sum()),
        rejected=int((outcome.world.req["state"] == REJECTED).sum()),
        notes=_notes(simulator),
    )


def _notes(simulator: Simulator) -> tuple[str, ...]:
    notes = []
    if simulator.setting("routing") not in ROUTES:
        notes.append(f"routing {simulator.setting('routing')}: simulated by live load")
    if simulator.setting("kv_blocks"):
        notes.append("--des-kv-blocks: the prefix cache shares the engine's own KV blocks here")
    return tuple(notes)
