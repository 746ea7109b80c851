"""Runs the compiled event loop in slices and reads what it counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kernels.des_layout import FINISHED, REJECTED, REJECTION_TEXT
from kernels.des_loop import run as run_loop
from sweep.compilation import LAUNCH, STEP, announced
from sweep.simulate.custom import Custom, answer
from sweep.simulate.world import Instance, RunOptions, World, build
from sweep.traces.requests import Requests

TURNS_PER_SLICE = 50_000
PERCENTILES = (50, 90, 95, 99)


@dataclass
class Outcome:
    """A finished run: its arrays, and how long the loop took on this machine."""

    world: World
    requests: Requests
    wall_s: float
    finished: bool

    @property
    def order(self) -> NDArray[np.int64]:
        """Number of each request as outputs show it: its place in the source."""
        order = self.requests.file_order
        return np.arange(len(self.requests)) if order is None else order


def simulate(
    instances: list[Instance],
    requests: Requests,
    options: RunOptions,
    progress: Callable[[int, int], None] | None = None,
    custom: Custom | None = None,
) -> Outcome:
    """Build the arrays and run until nothing is left to happen; `progress(done, total)` is called between slices."""
    with announced(LAUNCH, STEP):
        world = build(instances, requests, options)
        run_loop(world.record, 0)
    start = time.perf_counter()
    done = False
    while not done:
        before = (int(world["n_events"]), int(world["now"]))
        done = bool(run_loop(world.record, TURNS_PER_SLICE))
        if progress is not None:
            progress(int(world["n_done"]), len(requests))
        if world["asked"] >= 0 and custom is not None:
            answer(world, custom)
        elif not done and (int(world["n_events"]), int(world["now"])) == before:
            break
    wall_s = time.perf_counter() - start
    return Outcome(world, requests, wall_s, int(world["n_done"]) == len(requests))


def request_frame(outcome: Outcome, model_names: list[str]) -> pl.DataFrame:
    """One row per request, grouped by instance in order of completion; integer nanoseconds, -1 where never reached.

    TTFT is the end of the step that completes the prompt minus the arrival, latency the end of the last step
    minus the arrival, TPOT = (latency - TTFT) // (output - 1).
    """
    req = outcome.world.req
    interval = outcome.world.inst["stream_interval"]
    generated = req["generated"]
    finished = req["state"] == FINISHED
    first = _client_first_token(outcome, interval)
    ttft = np.where(req["first_token"] >= 0, first - req["arrival"], -1)
    latency = np.where(finished, req["finish"] - req["arrival"], -1)
    tpot = np.where(finished & (generated > 1), (latency - ttft) // np.maximum(1, generated - 1), 0)
    status = np.where(finished, "finished", np.where(req["state"] == REJECTED, "rejected", "unfinished"))
    frame = pl.DataFrame(
        {
            "instance id": req["instance"],
            "request id": outcome.order,
            "model": [model_names[k] if k >= 0 else "" for k in req["instance"]],
            "input": req["isl"],
            "output": generated,
            "arrival": req["arrival"],
            "end_time": req["finish"],
            "latency": latency,
            "queuing_delay": req["queued"],
            "TTFT": ttft,
            "TPOT": tpot,
            "status": status,
            "reason": [REJECTION_TEXT[k] for k in req["reason"]],
            "requested_output": req["osl"],
            "queue_wait_ns": np.where(req["started"] >= 0, req["started"] - req["arrival"], -1),
            "cached_tokens": req["cached"],
            "preemptions": req["preemptions"],
            "recomputed_tokens": req["recomputed"],
            "prefill_instance": req["prefill_instance"],
            "row": np.arange(len(req)),
        }
    )
    return frame.sort("instance id", "end_time", "request id", maintain_order=True)


def _client_first_token(outcome: Outcome, interval: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the client sees its first token: with the first flush where tokens are streamed in groups."""
    req = outcome.world.req
    first: NDArray[np.int64] = req["first_token"].copy()
    tokens = outcome.world.arrays["token_ns"]
    if len(tokens) and (interval > 1).any():
        wait = np.minimum(interval[req["instance"]], req["generated"]) - 1
        grouped = wait > 0
        first[grouped] = tokens[req["token0"][grouped] + wait[grouped]]
    return first


def inter_token_ns(outcome: Outcome, row: int) -> NDArray[np.int64]:
    """Gaps between the output tokens of the request in `row`."""
    req = outcome.world.req[row]
    start = int(req["token0"])
    return np.diff(outcome.world.arrays["token_ns"][start : start + int(req["generated"])])


def engine_counts(world: World) -> dict[str, int]:
    """What the engines of a run counted."""
    inst = world.inst
    named = {
        "steps": "n_steps",
        "mixed_steps": "mixed_steps",
        "preemptions": "n_preempted",
        "recomputed_tokens": "recomputed",
        "prefix_hit_tokens": "hit_tokens",
        "prefix_recalled_tokens": "recalled_tokens",
        "prefix_asked_tokens": "asked_tokens",
    }
    return {name: int(inst[field].sum()) for name, field in named.items()}


def gap_percentiles(world: World) -> dict[str, float]:
    """Percentiles of the gaps between tokens, ms, from their histogram."""
    from kernels.des_metrics import gap_percentile

    gaps = world.arrays["gaps"].sum(axis=0)
    found = {f"itl_ms_p{q}": float(gap_percentile(gaps, q / 100)) / 1e6 for q in PERCENTILES}
    return {name: value for name, value in found.items() if np.isfinite(value)}


def summary(outcome: Outcome, frame: pl.DataFrame, slo: dict[str, float] | None = None) -> dict[str, Any]:
    """Counts, throughput and percentiles (ms) of a run; goodput where an SLO (ms) is given."""
    done = frame.filter(pl.col("status") == "finished")
    start = int(frame["arrival"].min() or 0)  # type: ignore[arg-type]
    end = int(done["end_time"].max() or 0) if done.height else 0  # type: ignore[arg-type]
    seconds = max(1e-9, (end - start) / 1e9)
    out: dict[str, Any] = {
        "requests": frame.height,
        "finished": done.height,
        "rejected": int((frame["status"] == "rejected").sum()),
        "unfinished": int((frame["status"] == "unfinished").sum()),
        "makespan_ns": end,
        **engine_counts(outcome.world),
        "request_throughput_per_s": done.height / seconds,
        "output_throughput_tok_s": int(done["output"].sum()) / seconds,
        "total_throughput_tok_s": int((done["output"] + done["input"]).sum()) / seconds,
        "wall_s": outcome.wall_s,
    }
    several = done.filter(pl.col("output") > 1)
    for name, column, rows in (("ttft", "TTFT", done), ("tpot", "TPOT", several), ("e2e", "latency", done)):
        if rows.height:
            out[f"{name}_ms_mean"] = float(rows[column].mean()) / 1e6  # type: ignore[arg-type]
            for q in PERCENTILES:
                out[f"{name}_ms_p{q}"] = float(rows[column].quantile(q / 100, "linear")) / 1e6  # type: ignore[arg-type]
    out |= gap_percentiles(outcome.world)
    if slo:
        met = done
        for column, name in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("latency", "e2e_ms")):
            if slo.get(name) is not None:
                met = met.filter(pl.col(column) <= slo[name] * 1e6)
        out["goodput_per_s"] = met.height / seconds
        out["slo_attainment"] = met.height / max(1, frame.height)
    return out
