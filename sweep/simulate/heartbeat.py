"""Heartbeat lines: throughput, queues and memory at every interval of simulated time (specification 10)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernels.units import MIB
from sweep.simulate.cluster import ClusterConfig
from sweep.simulate.instances import Built
from sweep.simulate.power import Energy
from sweep.simulate.runner import Outcome

STATE = ("running", "waiting", "blocks_used", "hit_tokens", "asked_tokens")


def _carried(values: NDArray[np.int64], touched: NDArray[np.bool_]) -> NDArray[np.int64]:
    """State at the end of each interval: an interval without a step keeps the one before."""
    last = np.maximum.accumulate(np.where(touched, np.arange(len(values)), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)], 0)


def intervals(outcome: Outcome) -> tuple[int, dict[str, NDArray[np.int64]]]:
    """(length in ns, counts of shape (instances, intervals)) up to the last interval with a step."""
    bucket = outcome.world.arrays["bucket"]
    n = int(outcome.world["now"] // outcome.world["bucket_ns"]) + 1
    bucket = bucket[:, : min(n, bucket.shape[1])]
    touched = bucket["busy_ns"] > 0
    out = {name: bucket[name].astype(np.int64) for name in ("prompt_tokens", "generated")}
    for name in STATE:
        out[name] = np.stack([_carried(row, here) for row, here in zip(bucket[name], touched, strict=True)])
    return int(outcome.world["bucket_ns"]), out


def heartbeats(
    outcome: Outcome,
    built: list[Built],
    cluster: ClusterConfig,
    used: Energy | None = None,
) -> Iterator[str]:
    """The lines of a run, one group per interval."""
    length_ns, counts = intervals(outcome)
    seconds = length_ns / 1e9
    n = counts["generated"].shape[1]
    power_w = used.interval_w(length_ns, n) if used is not None else None
    for k in range(n - 1):
        prompt = counts["prompt_tokens"][:, k].sum() / seconds
        generated = counts["generated"][:, k].sum() / seconds
        yield (
            f"[{(k + 1) * seconds:.1f}s] Avg prompt throughput: {prompt:.1f} tokens/s, "
            f"Avg generation throughput: {generated:.1f} tokens/s"
        )
        for i, one in enumerate(built):
            yield _instance_line(i, one, {name: int(counts[name][i, k]) for name in STATE})
        for j, node in enumerate(cluster.nodes):
            yield f"Node[{j}]: Total CPU Memory Usage 0.0 MB (0.0 % of {node.cpu.size:g} GiB Used)"
        if power_w is not None:
            yield f"Avg power consumption: {power_w[k]:.1f} W"


def _instance_line(i: int, one: Built, state: dict[str, int]) -> str:
    settings = one.instance.settings
    npus = settings["tp"] * settings["pp"]
    block_bytes = 2 * one.shape.kv_dim * one.shape.n_layers * one.kv_bytes // npus * settings["block_size"]
    used = one.weights_bytes + state["blocks_used"] * block_bytes
    share = used / (one.config.memory.size * 2**30)
    line = (
        f"Running Instance[{i}]: {state['running']} reqs, Waiting: {state['waiting']} reqs, Total # {npus} NPUs, "
        f"Each NPU Memory Usage {used / MIB:.1f} MB ({share:.1%} Used)".replace("%", " %")
    )
    if state["asked_tokens"]:
        ratio = 100.0 * state["hit_tokens"] / state["asked_tokens"]
        line += f", Prefix Cache Hit ratio {ratio:.2f} %, ({state['hit_tokens']} / {state['asked_tokens']})"
    return line
