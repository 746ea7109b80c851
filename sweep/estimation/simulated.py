"""The same deployment request by request, where an open arrival process, a file or a trace asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from kernels.des_layout import REJECTED
from kernels.hostcost import request_us
from kernels.units import NS_PER_US
from sweep.estimation.price import Estimate
from sweep.estimation.rules import Deployment
from sweep.evaluation import evaluate_coded
from sweep.fields import by_key
from sweep.fields.engine import ENGINES
from sweep.fields.workload import LOADS
from sweep.simulate.curves import LoadPoint, in_flight, load_curve, measure
from sweep.simulate.deployment import ROUTES, deployment, served
from sweep.simulate.runner import Outcome, simulate
from sweep.simulate.world import Instance, RunOptions
from sweep.traces.arrivals import Process
from sweep.traces.reader import read
from sweep.traces.requests import Requests
from sweep.traces.synthetic import Traffic, synthesize

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

    def instance(self) -> Instance:
        """One attention-DP rank, as the closed form sees it."""
        return deployment(self.record, self.coefficients).instance()

    def run(self, requests: Requests, log_steps: int = 0) -> Outcome:
        """Replay `requests` on the fleet: every DP rank of every replica behind one router."""
        n_engines = int(self.setting("instances")) * int(self.record[0]["attention_dp"])
        options = RunOptions(
            policy=ROUTES[str(self.setting("routing"))],
            seed=int(self.setting("seed")),
            n_buckets=1,
            log_steps=log_steps,
        )
        return simulate([self.instance() for _ in range(n_engines)], requests, options)

    def point(self, outcome: Outcome, rate_per_s: float) -> LoadPoint:
        """Figures of a finished run, on the client's clock."""
        was = served(outcome)
        p, done = self.record[0], was.finish_ns >= 0
        overhead_us = request_us(in_flight(was) / int(self.setting("instances")), p, self.coefficients)
        isl = np.asarray(outcome.world.req["isl"])
        to_first = (NS_PER_US * (overhead_us + p["tokenize_overhead_us"] * isl)).astype(np.int64)
        after = NS_PER_US * p["detokenize_overhead_us"] * np.maximum(0, was.output_tokens - 1)
        was = replace(
            was,
            first_token_ns=np.where(done, was.first_token_ns + to_first, -1),
            finish_ns=np.where(done, was.finish_ns + to_first + after.astype(np.int64), -1),
        )
        return measure(was, rate_per_s, warmup_share=float(self.setting("warmup_frac")))

    def sustainable_per_s(self) -> float:
        """Requests/s that the fleet serves with as much in flight as memory holds, by the closed form."""
        full = self.record.copy()
        full["load"] = LOADS.index("saturation")
        full["architecture_index"] = 0.0
        table = np.broadcast_to(self.coefficients, (1, 1, len(ENGINES), *self.coefficients.shape)).copy()
        served_per_s = evaluate_coded(full, table).results["requests_per_s"][0]
        return float(served_per_s) * int(self.setting("instances"))

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
        curve = load_curve(simulator.at, simulator.sustainable_per_s(), configured)
    inst = outcome.world.inst
    notes: tuple[str, ...] = ()
    if simulator.setting("kv_blocks"):
        notes = ("--des-kv-blocks: the prefix cache shares the engine's own KV blocks here",)
    return Simulation(
        point=simulator.point(outcome, configured),
        curve=tuple(curve),
        steps=int(inst["n_steps"].sum()),
        preemptions=int(inst["n_preempted"].sum()),
        rejected=int((outcome.world.req["state"] == REJECTED).sum()),
        notes=notes,
    )
