"""One page of a simulation: timelines above, distributions below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
import polars as pl
from matplotlib import pyplot as plt

from sweep.accelerator_style import COLOURS
from sweep.errors import UserError
from sweep.simulate.heartbeat import intervals
from sweep.simulate.outputs import write_atomically
from sweep.simulate.runner import Outcome

MOST_EVENTS = 20_000
"""Arrivals, starts and ends that a curve shows; of more, every so-many-th."""
FEW_INTERVALS = 5
"""Fewer than these are drawn as dots: a line would be too short to see."""


def _timelines(axes: Any, outcome: Outcome, done: pl.DataFrame) -> None:
    length_ns, counts = intervals(outcome)
    seconds = (np.arange(counts["generated"].shape[1]) + 1) * length_ns / 1e9
    marker = "o" if len(seconds) < FEW_INTERVALS else ""
    for name, label, colour in (
        ("generated", "generated", COLOURS[0]),
        ("prompt_tokens", "prompt", COLOURS[1]),
    ):
        rate = counts[name].sum(axis=0) / (length_ns / 1e9)
        axes[0].plot(seconds, rate, marker=marker, color=colour, label=label)
    axes[0].set_ylabel(f"tokens/s, over {length_ns / 1e9:g} s each")
    _in_flight(axes[1], done)
    axes[1].set_ylabel("requests")
    capacity = max(1, int(outcome.world.inst["n_blocks"].sum()))
    used = 100.0 * counts["blocks_used"].sum(axis=0) / capacity
    axes[2].plot(seconds, used, marker=marker, color=COLOURS[0], label="KV blocks")
    axes[2].set_ylabel("% of the KV pool")
    for axis in axes:
        axis.set_xlabel("simulated time, s")
        axis.legend(frameon=False)
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)


def _in_flight(axis: Any, done: pl.DataFrame) -> None:
    """Requests that run and that wait, from each one's arrival, start and end."""
    arrival, end = done["arrival"].to_numpy(), done["end_time"].to_numpy()
    start = arrival + done["queue_wait_ns"].to_numpy()
    for label, begin, stop, colour in (
        ("running", start, end, COLOURS[0]),
        ("waiting", arrival, start, COLOURS[1]),
    ):
        times = np.concatenate([begin, stop])
        order = np.argsort(times, kind="stable")
        count = np.cumsum(np.repeat([1, -1], len(begin))[order])
        every = max(1, len(times) // MOST_EVENTS)
        axis.step(times[order][::every] / 1e9, count[::every], where="post", color=colour, label=label)


def _distribution(axis: Any, values_ms: np.ndarray[Any, Any], title: str) -> None:
    ordered = np.sort(values_ms)
    axis.plot(ordered, (np.arange(len(ordered)) + 1) / max(1, len(ordered)), color=COLOURS[0])
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
    _timelines(axes[0], outcome, done)
    for axis, column, title in zip(
        axes[1], ("TTFT", "TPOT", "latency"), ("TTFT", "TPOT", "latency"), strict=True
    ):
        _distribution(axis, done[column].to_numpy() / 1e6, title)
    figure.suptitle(f"{done.height:,} of {frame.height:,} requests finished")
    write_atomically(path, lambda stream: figure.savefig(stream, format=kind, dpi=120), "wb")
    plt.close(figure)
