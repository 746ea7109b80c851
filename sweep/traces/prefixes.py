"""Shared prefixes of synthetic requests: a pool of them, some more popular than others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweep.traces.requests import Int32s, Int64s, Ragged, offsets

_OWN = np.uint64(1 << 63)
"""Top bit of the blocks that one request has for itself."""


def zipf_ranks(rng: np.random.Generator, n: int, pool: int, exponent: float) -> Int64s:
    """`n` prefixes out of `pool`, number r with weight (r + 1)^-exponent; exponent 0 = all alike."""
    weight = np.arange(1, pool + 1, dtype=np.float64) ** -exponent
    edge: NDArray[np.float64] = np.cumsum(weight)
    rank: Int64s = np.searchsorted(edge, rng.random(n) * edge[-1], side="right")
    return np.minimum(rank, pool - 1)


def pool_blocks(prefix: Int64s, isl: Int32s, prefix_tokens: int, block_tokens: int) -> Ragged:
    """Block identities of prompts: the full blocks within the prefix are its own, the others belong to one request.

    A block that the prefix fills only in part is not shared, as in a real prefix cache.
    """
    full = isl.astype(np.int64) // block_tokens
    shared = np.minimum(full, prefix_tokens // block_tokens)
    offset = offsets(full)
    place = np.arange(offset[-1]) - np.repeat(offset[:-1], full)
    in_prefix = place < np.repeat(shared, full)
    name = (np.repeat(prefix, full) << 24) + place
    own = np.arange(offset[-1]).astype(np.uint64) | _OWN
    return Ragged(offset, np.where(in_prefix, name.astype(np.uint64), own))
