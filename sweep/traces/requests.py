"""Requests as arrays: what readers and generators return and the simulator takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Hashes = NDArray[np.uint64]

MAX_TOKENS = 100_000_000
"""Longest prompt or output that a file may ask for: beyond any context, and sums still fit 64 bits."""
MAX_NS = 2**62
"""Latest time a file may hold: the year 2116 since 1970."""


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row i is `value[offset[i] : offset[i + 1]]`."""

    offset: Int64s  # (rows + 1,)
    value: NDArray[Any]

    def __len__(self) -> int:
        return len(self.offset) - 1

    def row(self, i: int) -> NDArray[Any]:
        return self.value[self.offset[i] : self.offset[i + 1]]

    @property
    def length(self) -> Int64s:
        """Cells of each row."""
        return np.diff(self.offset)

    def take(self, rows: Int64s) -> Ragged:
        """The given rows in the given order."""
        length = self.length[rows]
        offset = offsets(length)
        cell = np.repeat(self.offset[rows] - offset[:-1], length) + np.arange(offset[-1])
        return Ragged(offset, self.value[cell])


def offsets(length: NDArray[Any]) -> Int64s:
    """Start of each row and the end of the last, from the rows' lengths."""
    out = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=out[1:])
    return out


@dataclass(frozen=True)
class Requests:
    """Requests in order of arrival; later turns of sessions come after all others.

    A turn with `parent[i] >= 0` arrives `tool_ns[i]` after request `parent[i]` has ended; its `arrival_ns` is
    the session's. `blocks` hold one hash per block of `block_tokens` prompt tokens, chained: equal hashes mean equal
    prompts up to that block's end. `tokens` hold prompt and output ids. What a source does not say is None.
    """

    arrival_ns: Int64s  # since `epoch_ns`, or since the start of the trace
    isl: Int32s  # prompt tokens
    osl: Int32s  # output tokens
    parent: Int64s | None = None
    tool_ns: Int64s | None = None
    blocks: Ragged | None = None
    block_tokens: int = 0
    tokens: Ragged | None = None
    model: NDArray[np.int16] | None = None  # index into `models`
    models: tuple[str, ...] = ()
    file_order: Int64s | None = None  # position in the source; None where it is the order here
    epoch_ns: int | None = None  # Unix time of arrival_ns = 0, where the source has dates

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def n_open(self) -> int:
        """Requests that arrive by themselves: all but the later turns of sessions, and the first in order."""
        return len(self) if self.parent is None else int(np.count_nonzero(self.parent < 0))

    def take(self, rows: Int64s) -> Requests:
        """The given requests; a turn whose predecessor is not among them arrives by itself."""
        parent = None
        if self.parent is not None:
            new = np.full(len(self) + 1, -1, np.int64)
            new[rows] = np.arange(len(rows))
            parent = new[self.parent[rows]]
        order = rows if self.file_order is None else self.file_order[rows]
        return replace(
            self,
            arrival_ns=self.arrival_ns[rows],
            isl=self.isl[rows],
            osl=self.osl[rows],
            parent=parent,
            tool_ns=None if self.tool_ns is None else self.tool_ns[rows],
            blocks=None if self.blocks is None else self.blocks.take(rows),
            tokens=None if self.tokens is None else self.tokens.take(rows),
            model=None if self.model is None else self.model[rows],
            file_order=order,
        )

    def of_model(self, name: str) -> Requests:
        """The requests of one model, or all of them where the source names none."""
        if self.model is None:
            return self
        return self.take(np.flatnonzero(self.model == self.models.index(name)))

    def between(self, start_ns: int, stop_ns: int) -> Requests:
        """Requests that arrive in [start, stop), times as they are."""
        return self.take(np.flatnonzero((self.arrival_ns >= start_ns) & (self.arrival_ns < stop_ns)))


def in_order(requests: Requests) -> Requests:
    """The same requests sorted as `Requests` says (stable), untouched where they already are."""
    late = np.zeros(len(requests), bool) if requests.parent is None else requests.parent >= 0
    arrival = requests.arrival_ns
    if not np.any(arrival[1:] < arrival[:-1]) and not np.any(late[:-1] & ~late[1:]):
        return requests
    order = np.argsort(arrival, kind="stable")
    return requests.take(np.concatenate([order[~late[order]], order[late[order]]]) if late.any() else order)
