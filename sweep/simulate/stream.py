"""Simulations whose memory grows with the requests that are open, not with all that ever arrive.

Requests come in blocks. A block enters free places of the request table, the loop runs until the last of them has
arrived, what has ended is handed to a sink, and its places are free for the next block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.des_layout import FINISHED, NEVER, REJECTED
from kernels.des_loop import run as run_loop
from sweep.errors import UserError
from sweep.simulate.runner import (
    PERCENTILES,
    TURNS_PER_SLICE,
    engine_counts,
    gap_percentiles,
)
from sweep.simulate.world import Instance, RunOptions, World, build, request_records
from sweep.traces.requests import Requests

BLOCK = 1 << 16
"""Requests that enter at once: the table is scanned once per block."""
Sink = Callable[[NDArray[np.int64], NDArray[Any]], None]
"""Receives requests that ended: their numbers in order of arrival, and their records (kernels.des_layout.REQUEST)."""


def can_stream(requests: Requests, options: RunOptions) -> bool:
    """Whether requests need nothing but their own record: no identity of blocks, no sessions, no list of token times."""
    plain = requests.parent is None and requests.blocks is None and requests.tokens is None
    return plain and not options.record_tokens and not options.closed_loop and not options.compat


def in_blocks(requests: Requests, size: int = BLOCK) -> Iterator[Requests]:
    """Requests that are there already, in slices."""
    for start in range(0, len(requests), size):
        rows = slice(start, start + size)
        yield Requests(requests.arrival_ns[rows], requests.isl[rows], requests.osl[rows])


class Slots:
    """Places of the request table, and which request holds each (-1: none)."""

    def __init__(self, world: World, n: int) -> None:
        self.world = world
        self.number = np.arange(n)
        self.arrived = n

    def drain(self, sink: Sink) -> None:
        """Hand over what has ended. A place stays taken while a batch that may name it is still in flight."""
        req, batch = self.world.req, self.world.arrays["batch"]
        live = batch["start"][batch["live"] == 1]
        oldest = int(live.min()) if len(live) else int(NEVER)
        ended = ((req["state"] == FINISHED) | (req["state"] == REJECTED)) & (req["finish"] <= oldest)
        places = np.flatnonzero(ended & (self.number >= 0))
        if len(places):
            sink(self.number[places], req[places])
            self.number[places] = -1

    def enter(self, block: Requests, options: RunOptions) -> None:
        """Put a block of requests into free places, more of them where too few are free."""
        free = np.flatnonzero(self.number < 0)
        if len(free) < len(block):
            self._grow(len(block) - len(free))
            free = np.flatnonzero(self.number < 0)
        places = free[: len(block)]
        self.world.req[places] = request_records(block, options)
        self.number[places] = self.arrived + np.arange(len(block))
        self.arrived += len(block)
        self.world.add(order=places.astype(np.int64))
        first = self.world.record[0]
        first["next_arrival"], first["n_static"] = 0, len(block)

    def _grow(self, more: int) -> None:
        more = max(more, len(self.number) // 2)
        req, heap = self.world.req, self.world.arrays["heap"]
        self.number = np.concatenate([self.number, np.full(more, -1, np.int64)])
        self.world.add(
            req=np.concatenate([req, np.zeros(more, req.dtype)]),
            heap=np.concatenate([heap, np.zeros((more, 2), heap.dtype)]),
        )


def simulate_stream(
    instances: list[Instance],
    blocks: Iterable[Requests],
    options: RunOptions,
    sink: Sink,
    progress: Callable[[int], None] | None = None,
) -> World:
    """Simulate blocks of requests in order of arrival; `sink` receives them as they end.

    `progress` is told how many have ended. Raises UserError where there are none.
    """
    coming = iter(blocks)
    first = next(coming, None)
    if first is None:
        raise UserError("there are no requests")
    world = build(instances, first, options, streamed=True)
    slots = Slots(world, len(first))
    following = next(coming, None)
    world.record[0]["more"] = int(following is not None)
    while True:
        before = (int(world["n_events"]), int(world["next_arrival"]))
        done = bool(run_loop(world.record, TURNS_PER_SLICE))
        if progress is not None:
            progress(int(world["n_done"]))
        if following is not None and world["next_arrival"] == world["n_static"]:
            slots.drain(sink)
            slots.enter(following, options)
            following = next(coming, None)
            world.record[0]["more"] = int(following is not None)
        elif done or before == (int(world["n_events"]), int(world["next_arrival"])):
            break
    slots.drain(sink)
    return world


BINS_PER_E = 1000.0
N_BINS = 30_000
FIRST_NS = 1_000.0


@dataclass
class Latencies:
    """Distribution of one latency over any number of requests: exact mean, percentiles within 0.05 %."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(N_BINS, np.int64))
    total_ns: float = 0.0

    def add(self, values_ns: NDArray[np.int64]) -> None:
        """Count these latencies."""
        bins = np.log(np.maximum(values_ns, FIRST_NS) / FIRST_NS) * BINS_PER_E
        self.counts += np.bincount(np.minimum(bins.astype(np.int64), N_BINS - 1), minlength=N_BINS)
        self.total_ns += float(values_ns.sum())

    def mean_ms(self) -> float:
        return self.total_ns / max(1, int(self.counts.sum())) / 1e6

    def percentile_ms(self, q: float) -> float:
        """The latency below which `q` percent lie."""
        seen = np.cumsum(self.counts)
        k = int(np.searchsorted(seen, q / 100.0 * seen[-1]))
        return FIRST_NS * float(np.exp((k + 0.5) / BINS_PER_E)) / 1e6


@dataclass
class Totals:
    """What a stream of ended requests adds up to; a sink of `simulate_stream`."""

    finished: int = 0
    rejected: int = 0
    output_tokens: int = 0
    prompt_tokens: int = 0
    first_arrival_ns: int = int(NEVER)
    last_finish_ns: int = 0
    latencies: dict[str, Latencies] = field(
        default_factory=lambda: {name: Latencies() for name in ("ttft", "tpot", "e2e")}
    )

    def __call__(self, numbers: NDArray[np.int64], ended: NDArray[Any]) -> None:
        """Add requests that ended."""
        self.first_arrival_ns = min(self.first_arrival_ns, int(ended["arrival"].min()))
        done = ended[ended["state"] == FINISHED]
        self.finished += len(done)
        self.rejected += len(ended) - len(done)
        if not len(done):
            return
        self.output_tokens += int(done["generated"].sum())
        self.prompt_tokens += int(done["isl"].sum())
        self.last_finish_ns = max(self.last_finish_ns, int(done["finish"].max()))
        ttft, e2e = (
            done["first_token"] - done["arrival"],
            done["finish"] - done["arrival"],
        )
        several = done["generated"] > 1
        self.latencies["ttft"].add(ttft)
        self.latencies["e2e"].add(e2e)
        self.latencies["tpot"].add((e2e - ttft)[several] // (done["generated"][several] - 1))

    def summary(self, world: World, wall_s: float) -> dict[str, Any]:
        """The summary of a run (`sweep.simulate.runner.summary`) from what was added up."""
        seconds = max(1e-9, (self.last_finish_ns - self.first_arrival_ns) / 1e9)
        asked = int(world["n_done"])
        out: dict[str, Any] = {
            "requests": asked,
            "finished": self.finished,
            "rejected": self.rejected,
            "unfinished": asked - self.finished - self.rejected,
            "makespan_ns": self.last_finish_ns,
            **engine_counts(world),
            "request_throughput_per_s": self.finished / seconds,
            "output_throughput_tok_s": self.output_tokens / seconds,
            "total_throughput_tok_s": (self.output_tokens + self.prompt_tokens) / seconds,
            "wall_s": wall_s,
        }
        for name, latency in self.latencies.items():
            if latency.counts.any():
                out[f"{name}_ms_mean"] = latency.mean_ms()
                out |= {f"{name}_ms_p{q}": latency.percentile_ms(q) for q in PERCENTILES}
        return out | gap_percentiles(world)
