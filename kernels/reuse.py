"""How much of a trace's prompts a prefix cache of any size would find again.

An LRU cache of C blocks holds a block exactly if fewer than C distinct other blocks were touched since its last use
(its stack distance, Mattson et al. 1970). A prefix hit ends at the first block that is missing, so the distance that
counts is the largest one along the prompt up to the block.
"""

import numpy as np

from kernels.jit import inlined, kernel

NEVER = -1
"""Distance of a block that no cache would have: it, or one before it in the prompt, is seen for the first time."""


@inlined
def _add(tree, position, amount):
    i = position + 1
    while i < tree.size:
        tree[i] += amount
        i += i & -i


@inlined
def _sum_before(tree, position):
    total = 0
    i = position
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@kernel
def reuse_distance(block, block_offset, n_distinct, out):
    """Stack distance along the prompt of every block of every request, NEVER where no cache helps.

    `block` (int64) are dense ids 0..n_distinct-1, rows by `block_offset` in order of arrival; `out` (int64) like
    `block`. A cache of more than out[k] blocks finds block k. A Fenwick tree over touches counts those that are
    their block's latest.
    """
    last = np.full(n_distinct, -1, np.int64)
    tree = np.zeros(block.size + 1, np.int32)
    live = 0
    for r in range(block_offset.size - 1):
        along = 0
        for k in range(block_offset[r], block_offset[r + 1]):
            b = block[k]
            if last[b] < 0:
                along = NEVER
            else:
                if along != NEVER:
                    along = max(along, live - _sum_before(tree, last[b] + 1))
                _add(tree, last[b], -1)
                live -= 1
            out[k] = along
            last[b] = k
            _add(tree, k, 1)
            live += 1
