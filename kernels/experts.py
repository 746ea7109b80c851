"""Which experts a step reaches: routing skew, measured coverage, imbalance over ranks."""

import numpy as np

from kernels.auto import given
from kernels.coefficients import HOST_ROUTING_VARIANCE, OP_HOST
from kernels.jit import inlined, kernel
from kernels.moe import distinct_experts

EXACT_RANKS = 16
TAIL_SEGMENTS = 12


@inlined
def popularity_segment(i, n_experts):
    """(experts, rank) of segment i of a popularity law: the first ranks one by one, the tail in log-spaced segments."""
    if i < EXACT_RANKS:
        return (1.0, i + 1.0) if i < n_experts else (0.0, 1.0)
    if n_experts <= EXACT_RANKS:
        return 0.0, 1.0
    start = EXACT_RANKS + 0.5
    growth = np.log((n_experts + 0.5) / start) / TAIL_SEGMENTS
    low = start * np.exp(growth * (i - EXACT_RANKS))
    high = low * np.exp(growth)
    return high - low, np.sqrt(low * high)


@kernel
def zipf_distinct(tokens, experts_per_token, n_experts, skew):
    """Expected distinct experts under Zipf popularity p_i ~ i^-s: sum over i of 1 - (1 - p_i)^(T K)."""
    draws = tokens * experts_per_token
    harmonic = 0.0
    for i in range(EXACT_RANKS + TAIL_SEGMENTS):
        width, rank = popularity_segment(i, n_experts)
        harmonic += width * rank**-skew
    distinct = 0.0
    for i in range(EXACT_RANKS + TAIL_SEGMENTS):
        width, rank = popularity_segment(i, n_experts)
        distinct += width * (1.0 - (1.0 - min(1.0, rank**-skew / harmonic)) ** draws)
    return distinct


@inlined
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


@inlined
def gamma_distinct(tokens, experts_per_token, n_experts, variance):
    """Expected distinct experts where popularity is gamma distributed with mean 1 and this variance.

    The first token reaches K experts; the further T - 1 leave an expert out with probability
    E[exp(-g x)] = (1 + variance x)^(-1 / variance), x = -(T - 1) ln(1 - K / E).
    """
    missed = 1.0 - min(1.0, experts_per_token / n_experts)
    if tokens <= 1.0 or missed <= 0.0 or n_experts <= 0.0:
        return distinct_experts(tokens, experts_per_token, n_experts)
    x = -(tokens - 1.0) * np.log(missed)
    return n_experts * (1.0 - missed * (1.0 + variance * x) ** (-1.0 / variance))


@inlined
def touched_experts(tokens, p, c):
    """Distinct experts that a step of `tokens` tokens reaches, over all ranks: skew first, then coverage.

    A skew that is given (0: even) replaces the fitted spread of the experts' popularity.
    """
    variance = c[OP_HOST, HOST_ROUTING_VARIANCE]
    if given(p.moe_routing_skew) and p.moe_routing_skew > 0.0:
        distinct = zipf_distinct(tokens, p.experts_per_token, p.n_experts, p.moe_routing_skew)
    elif not given(p.moe_routing_skew) and variance > 0.0:
        distinct = gamma_distinct(tokens, p.experts_per_token, p.n_experts, variance)
    else:
        distinct = distinct_experts(tokens, p.experts_per_token, p.n_experts)
    return max(min(distinct, 1.0), distinct * coverage_at(tokens, p))


@inlined
def rank_imbalance(p, d):
    """Hottest expert rank over the mean: 1 + (r - 1) E / (E + redundant), and 1 without expert parallelism."""
    if d.moe_ep <= 1.0:
        return 1.0
    return 1.0 + (p.ep_load_balance - 1.0) * p.n_experts / (p.n_experts + p.redundant_experts)
