"""How many tokens and experts one expert-parallel rank works on."""

import numpy as np

from kernels.des_layout import EXPERTS_BALANCED, EXPERTS_RR
from kernels.hashing import mix
from kernels.jit import internal

SEED = 42


@internal
def owner_of(expert, ep, n_experts):
    """Rank that holds an expert: contiguous equal groups."""
    return min(expert * ep // n_experts, ep - 1)


@internal
def draw(k, n):
    """The k-th number of a fixed random sequence, in [0, n)."""
    x = mix(np.uint64(SEED + k) * np.uint64(0x9E3779B97F4A7C15))
    return np.int64(x % np.uint64(n))


@internal
def sampled_load(inst, n_tokens, rank, is_random):
    """Walk all tokens: (tokens with at least one expert on `rank`, distinct experts of `rank` hit).

    Round robin sends token t to experts t, t + 1, ..., t + k - 1 (modulo E); random draws k distinct ones.
    """
    n_experts, k = inst.n_experts, inst.experts_per_token
    hit = np.zeros(n_experts, np.bool_)
    picked = np.full(n_experts, -1, np.int64)
    rows = 0
    for t in range(n_tokens):
        here = False
        for j in range(k):
            expert = (t + j) % n_experts
            if is_random:
                expert = draw(t * k + j, n_experts)
                while picked[expert] == t:
                    expert = (expert + 1) % n_experts
                picked[expert] = t
            if owner_of(expert, inst.ep_total, n_experts) == rank:
                here = True
                hit[expert] = True
        rows += here
    return rows, hit.sum()


@internal
def expert_load(w, inst, n_tokens, rank):
    """(tokens, activated experts) of expert-parallel rank `rank` for `n_tokens` tokens that visit k experts each.

    Balanced: activated = min(round(T k / ep), E / ep), tokens = round(T (1 - ((ep - 1) / ep)^k)). In `compat`
    mode round robin reproduces its reference, where every token picks experts 0 to k - 1.
    """
    ep, k = inst.ep_total, inst.experts_per_token
    if inst.expert_policy == EXPERTS_BALANCED:
        activated = min(int(np.rint(n_tokens * k / ep)), inst.n_experts // ep)
        rows = int(np.rint(n_tokens * (1.0 - ((ep - 1.0) / ep) ** k)))
        return rows, activated
    if inst.expert_policy == EXPERTS_RR and w.compat == 1:
        mine = 0
        for expert in range(k):
            mine += owner_of(expert, ep, inst.n_experts) == rank
        return (n_tokens if mine > 0 else 0), mine
    return sampled_load(inst, n_tokens, rank, inst.expert_policy != EXPERTS_RR)
