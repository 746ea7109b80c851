"""Which instance of a fleet takes a request, from live figures of every instance.

Each policy is a pure function of arrays with one entry per instance that could take the request, and returns an
index into them. The simulator fills the arrays at the moment of arrival:

    load    requests it has: (4 x waiting + running) / max_num_seqs for `load`, waiting + running for the others
    hits    leading blocks of this prompt that its prefix cache holds now
    busy    KV blocks that it has promised: held by running requests, and asked for by the prompts in its queue

`start` (LOAD, round robin) rotates from call to call: chosen + 1.
"""

import numpy as np

from kernels.jit import inlined

IMBALANCE_REQUESTS = 8.0
"""prefix_aware leaves the cached prefix alone once an instance has this many requests more than the idlest ..."""
IMBALANCE_RATIO = 1.5
"""... and this many times as many (SGLang's router uses the same pair of conditions)."""
OVERLAP_WEIGHT = 1.0
"""kv: one block of prompt to compute counts as much as one block of KV in use (NVIDIA Dynamo's cost)."""


@inlined
def rotating_least(load, start):
    """Least load; ties go to the first in rotation from `start`."""
    best = start % load.size
    for step in range(1, load.size):
        i = (start + step) % load.size
        if load[i] < load[best]:
            best = i
    return best


@inlined
def in_turn(n, start):
    """Round robin."""
    return start % n


@inlined
def at_random(n, uniform):
    """`uniform` is a number in [0, 1)."""
    return min(int(uniform * n), n - 1)


@inlined
def prefix_aware(hits, load, start):
    """Longest cached prefix, ties to the least load; least load alone where the fleet is out of balance or no prefix is held.

    Out of balance: max(load) - min(load) > IMBALANCE_REQUESTS and max(load) > IMBALANCE_RATIO x min(load).
    """
    least, most = load.min(), load.max()
    unbalanced = most - least > IMBALANCE_REQUESTS and most > IMBALANCE_RATIO * least
    if unbalanced or hits.max() == 0:
        return rotating_least(load, start)
    best = -1
    for step in range(load.size):
        i = (start + step) % load.size
        if best < 0 or hits[i] > hits[best] or (hits[i] == hits[best] and load[i] < load[best]):
            best = i
    return best


@inlined
def kv(hits, prompt_blocks, busy, start):
    """Least cost = OVERLAP_WEIGHT x (prompt blocks not held) + blocks in use; ties go round.

    `prompt_blocks` is the request's own; `busy` of each instance.
    """
    best, lowest = -1, np.inf
    for step in range(hits.size):
        i = (start + step) % hits.size
        cost = OVERLAP_WEIGHT * (prompt_blocks - hits[i]) + busy[i]
        if cost < lowest:
            best, lowest = i, cost
    return best
