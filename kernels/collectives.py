"""Collectives over the scale-up fabric and over NICs.

Ring all-reduce of S bytes over n ranks moves 2 S (n - 1) / n per rank; all-gather and reduce-scatter half of
that; all-to-all S (n - 1) / n. Groups wider than the scale-up domain pay the NIC for the part that leaves it.
"""

import numpy as np

from kernels.coefficients import (
    MEMORY_EFFICIENCY,
    OP_ALL_GATHER,
    OP_ALL_REDUCE_CUSTOM,
    OP_ALL_REDUCE_NCCL,
    OP_ALL_TO_ALL,
    OVERHEAD_US,
)
from kernels.jit import inlined, kernel
from kernels.units import BYTES_PER_US_PER_GB_S

ALGO_AUTO, ALGO_RING, ALGO_ONE_SHOT, ALGO_TWO_SHOT, ALGO_HIERARCHICAL = range(5)
A2A_AUTO, A2A_DIRECT, A2A_SINGLE_SHOT, A2A_HIERARCHICAL = range(4)


@inlined
def exchange_us(per_rank_bytes, n_ranks, hops, op, p, c):
    """Time for every rank to send and receive `per_rank_bytes`, paying `hops` latencies, us."""
    inside = min(n_ranks, p.domain_gpus)
    if n_ranks <= p.domain_gpus:
        return (
            c[op, OVERHEAD_US]
            + hops * p.link_latency_us
            + per_rank_bytes / (p.link_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
        )
    outside_share = (n_ranks - inside) / (n_ranks - 1.0)
    inside_us = (
        per_rank_bytes
        * (1.0 - outside_share)
        / (p.link_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    )
    outside_us = (
        per_rank_bytes * outside_share / (p.nic_gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY])
    )
    return c[op, OVERHEAD_US] + hops * p.nic_latency_us + max(inside_us, outside_us)


@kernel
def all_reduce_us(message_bytes, n_ranks, algorithm, p, c):
    """All-reduce of `message_bytes` (whole message on every rank) over `n_ranks`, us.

    `algorithm` is one of ALGO_*; ALGO_AUTO is the fastest.
    """
    if n_ranks <= 1.0 or message_bytes <= 0.0:
        return 0.0
    n = n_ranks
    ring = exchange_us(2.0 * message_bytes * (n - 1.0) / n, n, 2.0 * (n - 1.0), OP_ALL_REDUCE_NCCL, p, c)
    one_shot = exchange_us(message_bytes * (n - 1.0), n, 1.0, OP_ALL_REDUCE_CUSTOM, p, c)
    two_shot = exchange_us(2.0 * message_bytes * (n - 1.0) / n, n, 2.0, OP_ALL_REDUCE_CUSTOM, p, c)
    domains = np.ceil(n / p.domain_gpus)
    hierarchical = two_shot
    if domains > 1.0:
        inside = p.domain_gpus
        hierarchical = (
            exchange_us(
                2.0 * message_bytes * (inside - 1.0) / inside, inside, 2.0, OP_ALL_REDUCE_CUSTOM, p, c
            )
            + 2.0 * (domains - 1.0) / domains * message_bytes / inside / (p.nic_gb_s * BYTES_PER_US_PER_GB_S)
            + (2.0 * np.ceil(np.log2(domains)) * p.nic_latency_us)
        )
    if algorithm == ALGO_RING:
        return ring
    if algorithm == ALGO_ONE_SHOT:
        return one_shot
    if algorithm == ALGO_TWO_SHOT:
        return two_shot
    if algorithm == ALGO_HIERARCHICAL:
        return hierarchical
    return min(ring, one_shot, two_shot, hierarchical)


@kernel
def all_gather_us(message_bytes, n_ranks, p, c):
    """All-gather to `message_bytes` on every rank, us."""
    if n_ranks <= 1.0 or message_bytes <= 0.0:
        return 0.0
    return exchange_us(message_bytes * (n_ranks - 1.0) / n_ranks, n_ranks, 1.0, OP_ALL_GATHER, p, c)


@kernel
def reduce_scatter_us(message_bytes, n_ranks, p, c):
    """Reduce-scatter of `message_bytes` on every rank, us."""
    return all_gather_us(message_bytes, n_ranks, p, c)


@kernel
def all_to_all_us(message_bytes, n_ranks, algorithm, p, c):
    """All-to-all in which every rank holds `message_bytes` spread evenly over all ranks, us."""
    if n_ranks <= 1.0 or message_bytes <= 0.0:
        return 0.0
    return exchange_us(message_bytes * (n_ranks - 1.0) / n_ranks, n_ranks, 1.0, OP_ALL_TO_ALL, p, c)


@kernel
def point_to_point_us(message_bytes, crosses_domain, p, c):
    """One message between neighbouring pipeline stages, us."""
    if crosses_domain > 0.0:
        return p.nic_latency_us + message_bytes / (p.nic_gb_s * BYTES_PER_US_PER_GB_S)
    return p.link_latency_us + message_bytes / (p.link_gb_s * BYTES_PER_US_PER_GB_S)
