"""Which experts a step reaches: routing skew, measured coverage, imbalance over ranks."""

import numpy as np

from kernels.jit import kernel
from kernels.moe import distinct_experts


@kernel
def zipf_distinct(tokens, experts_per_token, n_experts, skew):
    """Expected distinct experts under Zipf popularity p_i ~ i^-s: sum over i of 1 - (1 - p_i)^(T K).

    The sum over experts is taken at 16 log-spaced ranks (trapezoid in log rank): within 1 % of the exact sum.
    """
    draws = tokens * experts_per_token
    n_points = 17
    harmonic = 0.0
    total = 0.0
    log_last = np.log(n_experts)
    for pass_number in range(2):
        previous_rank = 0.5
        acc = 0.0
        for i in range(n_points):
            rank_end = np.exp(log_last * (i + 1) / n_points)
            rank_end = min(n_experts, max(rank_end, previous_rank + 0.5)) if i < n_points - 1 else n_experts
            width = rank_end - previous_rank + (0.5 if i == n_points - 1 else 0.0)
            if width > 0.0:
                middle = np.sqrt(max(previous_rank, 0.5) * rank_end)
                weight = middle**-skew
                if pass_number == 0:
                    acc += weight * width
                else:
                    acc += width * (1.0 - (1.0 - min(1.0, weight / harmonic)) ** draws)
            previous_rank = max(previous_rank, rank_end)
        if pass_number == 0:
            harmonic = acc
        else:
            total = acc
    return min(total, n_experts, draws)


@kernel
def coverage_at(tokens, p):
    """Measured router coverage at a step's token count: linear in log tokens between the given points, flat outside."""
    points = (
        (1.0, p.coverage_1),
        (4.0, p.coverage_4),
        (16.0, p.coverage_16),
        (64.0, p.coverage_64),
        (256.0, p.coverage_256),
        (1024.0, p.coverage_1024),
    )
    if tokens <= 1.0:
        return p.coverage_1
    position = np.log(tokens) / np.log(4.0)
    if position >= 5.0:
        return p.coverage_1024
    i = int(position)
    low = points[i][1]
    return low + (points[i + 1][1] - low) * (position - i)


@kernel
def touched_experts(tokens, p):
    """Distinct experts that a step of `tokens` tokens reaches, over all ranks: skew first, then coverage."""
    if p.moe_routing_skew > 0.0:
        distinct = zipf_distinct(tokens, p.experts_per_token, p.n_experts, p.moe_routing_skew)
    else:
        distinct = distinct_experts(tokens, p.experts_per_token, p.n_experts)
    return max(min(distinct, 1.0), distinct * coverage_at(tokens, p))


@kernel
def rank_imbalance(p, d):
    """Hottest expert rank over the mean: 1 + (r - 1) E / (E + redundant), and 1 without expert parallelism."""
    if d.moe_ep <= 1.0:
        return 1.0
    return 1.0 + (p.ep_load_balance - 1.0) * p.n_experts / (p.n_experts + p.redundant_experts)
