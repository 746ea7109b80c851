"""One page of a simulation: timelines above, distributions below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
import polars as pl
from matplotlib import pyplot as plt

from sweep.errors import UserError
from sweep.simulate.heartbeat import intervals
from sweep.simulate.outputs import write_atomically
from sweep.simulate.runner import Outcome


def _timelines(axes: Any, outcome: Outcome) -> None:
    length_ns, counts = intervals(outcome)
    seconds = (np.arange(counts["generated"].shape[1]) + 1) * length_ns / 1e9
    axes[0].plot(seconds, counts["generated"].sum(axis=0) / (length_ns / 1e9), label="generated")
    axes[0].plot(seconds, counts["prompt_tokens"].sum(axis=0) / (length_ns / 1e9), label="prompt")
    axes[0].set_ylabel("tokens/s")
    axes[1].plot(seconds, counts["running"].sum(axis=0), label="running")
    axes[1].plot(seconds, counts["waiting"].sum(axis=0), label="waiting")
    axes[1].set_ylabel("requests")
    capacity = max(1, int(outcome.world.inst["n_blocks"].sum()))
    axes[2].plot(seconds, 100.0 * counts["blocks_used"].sum(axis=0) / capacity, label="KV blocks")
    axes[2].set_ylabel("% of the KV pool")
    for axis in axes:
        axis.set_xlabel("simulated time, s")
        axis.legend(frameon=False)
        axis.set_ylim(bottom=0)


def _distribution(axis: Any, values_ms: np.ndarray[Any, Any], title: str) -> None:
    ordered = np.sort(values_ms)
    axis.plot(ordered, (np.arange(len(ordered)) + 1) / max(1, len(ordered)))
    axis.set_xlabel(f"{title}, ms")
    axis.set_ylabel("share of requests")
    axis.set_ylim(0, 1)


def write_page(outcome: Outcome, frame: pl.DataFrame, path: Path) -> None:
    """Throughput, queues and KV occupancy over time; distributions of TTFT, TPOT and end-to-end latency."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "pdf", "svg"):
        raise UserError("unknown kind of picture", field="--plot", value=path, allowed=".png, .pdf, .svg")
    done = frame.filter(pl.col("status") == "finished")
    figure, axes = plt.subplots(2, 3, figsize=(14, 7), layout="constrained")
    _timelines(axes[0], outcome)
    for axis, column, title in zip(
        axes[1], ("TTFT", "TPOT", "latency"), ("TTFT", "TPOT", "latency"), strict=True
    ):
        _distribution(axis, done[column].to_numpy() / 1e6, title)
    figure.suptitle(f"{done.height:,} of {frame.height:,} requests finished")
    write_atomically(path, lambda stream: figure.savefig(stream, format=kind, dpi=120), "wb")
    plt.close(figure)
