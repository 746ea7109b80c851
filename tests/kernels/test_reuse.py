"""Reuse distances against an LRU cache simulated at every size."""

import itertools
from collections import OrderedDict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.reuse import NEVER, reuse_distance
from sweep.traces.requests import offsets


def lru_hits(rows, capacity):
    """Leading hits of every request in a cache that touches block after block."""
    cache = OrderedDict()
    hits = []
    for row in rows:
        leading = True
        count = 0
        for block in row:
            leading = leading and block in cache
            count += leading
            cache.pop(block, None)
            cache[block] = None
            if len(cache) > capacity:
                cache.popitem(last=False)
        hits.append(count)
    return hits


@settings(max_examples=200, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 9), max_size=6, unique=True), min_size=1, max_size=25))
def test_a_cache_of_any_size_finds_exactly_the_blocks_within_its_distance(rows):
    offset = offsets(np.array([len(row) for row in rows]))
    block = np.array([b for row in rows for b in row], np.int64)
    out = np.zeros(block.size, np.int64)
    reuse_distance(block, offset, 10, out)
    for capacity in range(1, 12):
        found = (out != NEVER) & (out < capacity)
        assert [int(found[a:b].sum()) for a, b in itertools.pairwise(offset)] == lru_hits(rows, capacity)
