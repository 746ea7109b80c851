"""Collectives over the scale-up fabric and over NICs.

Every algorithm is one line of the alpha-beta kind, with its row of coefficients:

    t = overhead + step (n - 2) + hops * latency + volume (1 + slowdown(n)) / (bandwidth * efficiency)

`volume` is what the busiest link direction carries of S message bytes over n ranks: 2 S (n - 1) / n for a ring or a
two-shot all-reduce, S (n - 1) for a one-shot, S (n + 1) / n with reduction in the switch (NVLS), S (n - 1) / n for
all-gather, reduce-scatter and all-to-all. NCCL's three protocols (LL, LL128, Simple) are three lines with rising
overhead and efficiency; the library takes the cheapest. A fitted line is never faster than its volume over the
datasheet bandwidth: efficiencies are at most 1 and overheads at least 0.

Groups wider than the scale-up domain pay the NICs for the part that leaves it.
"""

import numpy as np

from kernels.coefficients import (
    MEMORY_EFFICIENCY,
    OP_ALL_GATHER,
    OP_ALL_TO_ALL,
    OP_ALL_TO_ALL_LL,
    OP_COMBINE,
    OP_COMBINE_LL,
    OP_DISPATCH,
    OP_DISPATCH_LL,
    OP_NIC,
    OP_NVLS,
    OP_ONE_SHOT,
    OP_QUANTIZED,
    OP_REDUCE_SCATTER,
    OP_RING_LL,
    OP_RING_LL128,
    OP_RING_SIMPLE,
    OP_TWO_SHOT,
    OVERHEAD_US,
)
from kernels.fabric import domain_gpus, reduces_in_switch, scale_up_gb_s
from kernels.jit import inlined, kernel
from kernels.units import BYTES_PER_US_PER_GB_S, MIB

ALGO_AUTO, ALGO_RING, ALGO_ONE_SHOT, ALGO_TWO_SHOT, ALGO_HIERARCHICAL, ALGO_NVLS = range(6)
A2A_AUTO, A2A_DIRECT, A2A_SINGLE_SHOT, A2A_HIERARCHICAL = range(4)
"""Codes of the fields tp_allreduce_algo (ALGO_NVLS is not one of its choices) and ep_a2a_algo."""

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, POINT_TO_POINT, DISPATCH, COMBINE = range(7)
"""Primitives of `collective`."""

STEP_US, PAIR_SLOWDOWN, QUAD_SLOWDOWN = 3, 4, 5
"""Columns of every collective row: overhead per rank beyond two, and how much longer than 8 or more ranks a group of
two (of four) takes per byte: 0 = as fast, 0.2 = 20 % longer; negative where few ranks are faster (PCIe)."""
LIMIT_PAIR_MIB, LIMIT_QUAD_MIB = 6, 7
"""Row OP_ONE_SHOT: largest message that the engine's own kernel takes, for 2 and for up to 4 ranks. 0 for every limit
means an ideal machine (always the fastest algorithm); negative, that the engine has no such kernel."""
LIMIT_OCT_MIB = 6
"""Row OP_TWO_SHOT: the same limit for more than 4 ranks."""
MIN_RANKS = 6
"""Row OP_NVLS: fewest ranks for which the library reduces in the switch."""
LEAST_PAIR_MIB, LEAST_QUAD_MIB, LEAST_OCT_MIB = 6, 7, 8
"""Row OP_QUANTIZED: smallest message that goes over the links in 4 bits, for 2, up to 4 and more ranks; 0: no such kernel."""
BY_DEFAULT = 9
"""Row OP_QUANTIZED: whether the engine runs that kernel unless told otherwise."""
INT4_SHARE = 4.5 / 16.0
"""Bytes on the link over those of a 16-bit message: 4 bits each, one 16-bit scale for 32 of them (vllm#16804)."""


@inlined
def slowdown(op, n_ranks, c):
    """Extra time per byte against 8 or more ranks; between 2, 4 and 8 ranks linear in log2(n)."""
    if n_ranks <= 2.0:
        return c[op, PAIR_SLOWDOWN]
    if n_ranks < 4.0:
        x = np.log2(n_ranks) - 1.0
        return (1.0 - x) * c[op, PAIR_SLOWDOWN] + x * c[op, QUAD_SLOWDOWN]
    if n_ranks == 4.0:
        return c[op, QUAD_SLOWDOWN]
    if n_ranks < 8.0:
        return (3.0 - np.log2(n_ranks)) * c[op, QUAD_SLOWDOWN]
    return 0.0


@inlined
def line_us(op, volume_bytes, n_ranks, hops, gb_s, p, c):
    """The module's equation for one algorithm inside a domain, us."""
    alpha_us = c[op, OVERHEAD_US] + c[op, STEP_US] * (n_ranks - 2.0) + hops * p.link_latency_us
    return alpha_us + volume_bytes * (1.0 + slowdown(op, n_ranks, c)) / (
        gb_s * BYTES_PER_US_PER_GB_S * c[op, MEMORY_EFFICIENCY]
    )


@inlined
def nic_us(volume_bytes, hops, p, c):
    """Time for every GPU to move `volume_bytes` through its NIC, paying `hops` network latencies, us."""
    return (
        c[OP_NIC, OVERHEAD_US]
        + hops * (p.nic_latency_us + c[OP_NIC, STEP_US])
        + volume_bytes / (p.nic_gb_s * BYTES_PER_US_PER_GB_S * c[OP_NIC, MEMORY_EFFICIENCY])
    )


@inlined
def protocol_us(op, volume_bytes, n_ranks, hops, gb_s, p, c):
    """One protocol of a ring that takes `hops` steps; STEP_US is that of an all-reduce, 2 (n - 1) steps, us."""
    overpaid_us = c[op, STEP_US] * (n_ranks - 2.0) * (1.0 - 0.5 * hops / (n_ranks - 1.0))
    return line_us(op, volume_bytes, n_ranks, hops, gb_s, p, c) - overpaid_us


@inlined
def ring_us(volume_bytes, n_ranks, hops, gb_s, p, c):
    """Ring collective of `hops` steps over `n_ranks` of one domain in the cheapest of NCCL's protocols, us."""
    return min(
        protocol_us(OP_RING_LL, volume_bytes, n_ranks, hops, gb_s, p, c),
        protocol_us(OP_RING_LL128, volume_bytes, n_ranks, hops, gb_s, p, c),
        protocol_us(OP_RING_SIMPLE, volume_bytes, n_ranks, hops, gb_s, p, c),
    )


@inlined
def one_shot_us(message_bytes, n_ranks, p, c):
    """Every rank reads the whole message of every other and reduces it by itself, us."""
    volume = message_bytes * (n_ranks - 1.0)
    return line_us(OP_ONE_SHOT, volume, n_ranks, 1.0, scale_up_gb_s(n_ranks, p), p, c)


@inlined
def two_shot_us(message_bytes, n_ranks, p, c):
    """Every rank reduces its 1/n of the message, then all gather the parts, us."""
    volume = 2.0 * message_bytes * (n_ranks - 1.0) / n_ranks
    return line_us(OP_TWO_SHOT, volume, n_ranks, 2.0, scale_up_gb_s(n_ranks, p), p, c)


@inlined
def has_quantized(c):
    """Whether a quantising all-reduce was measured for this accelerator and engine."""
    return c[OP_QUANTIZED, LEAST_PAIR_MIB] > 0.0


@inlined
def least_quantized_bytes(n_ranks, p, c):
    """Smallest message that the engine quantises; infinite where it does not (no kernel, or `quick_reduce` off)."""
    off = c[OP_QUANTIZED, BY_DEFAULT] <= 0.0 if np.isnan(p.quick_reduce) else p.quick_reduce <= 0.0
    if off or not has_quantized(c):
        return np.inf
    if n_ranks <= 2.0:
        return c[OP_QUANTIZED, LEAST_PAIR_MIB] * MIB
    if n_ranks <= 4.0:
        return c[OP_QUANTIZED, LEAST_QUAD_MIB] * MIB
    return c[OP_QUANTIZED, LEAST_OCT_MIB] * MIB


@inlined
def quantized_us(message_bytes, n_ranks, p, c):
    """A two-shot whose messages are packed into 4 bits on the way (QuickReduce), us."""
    volume = 2.0 * INT4_SHARE * message_bytes * (n_ranks - 1.0) / n_ranks
    return line_us(OP_QUANTIZED, volume, n_ranks, 2.0, scale_up_gb_s(n_ranks, p), p, c)


@inlined
def ring_all_reduce_us(message_bytes, n_ranks, p, c):
    """Reduce-scatter and all-gather around a ring, us."""
    volume = 2.0 * message_bytes * (n_ranks - 1.0) / n_ranks
    return ring_us(volume, n_ranks, 2.0 * (n_ranks - 1.0), scale_up_gb_s(n_ranks, p), p, c)


@inlined
def nvls_us(message_bytes, n_ranks, p, c):
    """The switch reduces (S read of every GPU) and multicasts (S / n written by each), us."""
    return line_us(
        OP_NVLS, message_bytes * (n_ranks + 1.0) / n_ranks, n_ranks, 2.0, scale_up_gb_s(n_ranks, p), p, c
    )


@inlined
def library_all_reduce(message_bytes, n_ranks, p, c):
    """NCCL (RCCL): ring, or reduction in the switch where it has that and uses it. (us, ALGO_*)."""
    t = ring_all_reduce_us(message_bytes, n_ranks, p, c)
    if reduces_in_switch(p) and n_ranks >= c[OP_NVLS, MIN_RANKS]:
        in_switch = nvls_us(message_bytes, n_ranks, p, c)
        if in_switch < t:
            return in_switch, ALGO_NVLS
    return t, ALGO_RING


@inlined
def custom_all_reduce(message_bytes, n_ranks, p, c):
    """The engine's own kernel: one shot or two. (us, ALGO_*)."""
    one = one_shot_us(message_bytes, n_ranks, p, c)
    two = two_shot_us(message_bytes, n_ranks, p, c)
    return (one, ALGO_ONE_SHOT) if one <= two else (two, ALGO_TWO_SHOT)


@inlined
def custom_limit_mib(n_ranks, c):
    """Largest message that the engine gives to its own kernel, MiB; 0 = no limit (ideal machine)."""
    if n_ranks <= 2.0:
        return c[OP_ONE_SHOT, LIMIT_PAIR_MIB]
    if n_ranks <= 4.0:
        return c[OP_ONE_SHOT, LIMIT_QUAD_MIB]
    return c[OP_TWO_SHOT, LIMIT_OCT_MIB]


@inlined
def scale_up_all_reduce(message_bytes, n_ranks, algorithm, p, c):
    """All-reduce inside one domain: (us, ALGO_* that priced it)."""
    if algorithm == ALGO_RING:
        return ring_all_reduce_us(message_bytes, n_ranks, p, c), ALGO_RING
    if algorithm == ALGO_ONE_SHOT:
        return one_shot_us(message_bytes, n_ranks, p, c), ALGO_ONE_SHOT
    if algorithm in (ALGO_TWO_SHOT, ALGO_HIERARCHICAL):
        return two_shot_us(message_bytes, n_ranks, p, c), ALGO_TWO_SHOT
    if algorithm == ALGO_NVLS:
        return nvls_us(message_bytes, n_ranks, p, c), ALGO_NVLS
    limit_bytes = custom_limit_mib(n_ranks, c) * MIB
    if limit_bytes < 0.0:
        return library_all_reduce(message_bytes, n_ranks, p, c)
    least_bytes = least_quantized_bytes(n_ranks, p, c)
    if message_bytes >= least_bytes:
        # More bytes never take less time, here too
        unpacked_us, _ = custom_all_reduce(least_bytes, n_ranks, p, c)
        return max(quantized_us(message_bytes, n_ranks, p, c), unpacked_us), ALGO_TWO_SHOT
    custom_us, custom_algo = custom_all_reduce(message_bytes, n_ranks, p, c)
    if 0.0 < message_bytes <= limit_bytes:
        return custom_us, custom_algo
    library_us, library_algo = library_all_reduce(message_bytes, n_ranks, p, c)
    if limit_bytes == 0.0:
        return (custom_us, custom_algo) if custom_us < library_us else (library_us, library_algo)
    # More bytes never take less time: engines set the limit where the library becomes as fast.
    at_limit_us, _ = custom_all_reduce(limit_bytes, n_ranks, p, c)
    return max(library_us, at_limit_us), library_algo


@inlined
def scale_out_one_shot_us(message_bytes, n_ranks, p, c):
    """One-shot over several domains: every GPU reads all messages from elsewhere through its own NIC, us."""
    inside = domain_gpus(p)
    t = nic_us(message_bytes * (n_ranks - inside), 1.0, p, c)
    if inside > 1.0:
        t = max(t, one_shot_us(message_bytes, inside, p, c))
    return t


@inlined
def scale_out_two_shot_us(message_bytes, n_ranks, p, c):
    """Two-shot over several domains: 1/n of the message to and from every GPU elsewhere, us."""
    inside = domain_gpus(p)
    t = nic_us(2.0 * message_bytes * (n_ranks - inside) / n_ranks, 2.0, p, c)
    if inside > 1.0:
        t = max(t, two_shot_us(message_bytes * inside / n_ranks, inside, p, c))
    return t


@inlined
def scale_out_ring_us(message_bytes, n_ranks, p, c):
    """Flat ring through all domains, us; its cut between two domains is spread over the NICs of a domain."""
    inside = domain_gpus(p)
    domains = np.ceil(n_ranks / inside)
    volume = 2.0 * message_bytes * (n_ranks - 1.0) / n_ranks
    t = nic_us(volume / inside, 2.0 * domains, p, c)
    if inside > 1.0:
        hops = 2.0 * (n_ranks - domains)
        t += hops * p.link_latency_us
        t = max(t, ring_us(volume, inside, hops, scale_up_gb_s(inside, p), p, c))
    return t


@inlined
def scale_out_hierarchical_us(message_bytes, n_ranks, p, c):
    """Reduce-scatter inside, all-reduce of each shard between domains, all-gather inside, us."""
    inside = domain_gpus(p)
    domains = np.ceil(n_ranks / inside)
    shard_volume = 2.0 * message_bytes / inside * (domains - 1.0) / domains
    t = nic_us(shard_volume, 2.0 * (domains - 1.0), p, c)
    if inside > 1.0:
        t += ring_all_reduce_us(message_bytes, inside, p, c)
    return t


@inlined
def scale_out_all_reduce(message_bytes, n_ranks, algorithm, p, c):
    """All-reduce over several domains: (us, ALGO_* that priced it).

    auto: libraries know ring and hierarchical there; an ideal machine takes the fastest of all.
    """
    if algorithm == ALGO_ONE_SHOT:
        return scale_out_one_shot_us(message_bytes, n_ranks, p, c), ALGO_ONE_SHOT
    if algorithm == ALGO_TWO_SHOT:
        return scale_out_two_shot_us(message_bytes, n_ranks, p, c), ALGO_TWO_SHOT
    best, chosen = scale_out_ring_us(message_bytes, n_ranks, p, c), ALGO_RING
    if algorithm == ALGO_RING:
        return best, chosen
    hierarchical = scale_out_hierarchical_us(message_bytes, n_ranks, p, c)
    if algorithm == ALGO_HIERARCHICAL or hierarchical <= best:
        best, chosen = hierarchical, ALGO_HIERARCHICAL
    if algorithm == ALGO_HIERARCHICAL or custom_limit_mib(n_ranks, c) != 0.0:
        return best, chosen
    one_shot = scale_out_one_shot_us(message_bytes, n_ranks, p, c)
    two_shot = scale_out_two_shot_us(message_bytes, n_ranks, p, c)
    if min(one_shot, two_shot) < best:
        return (one_shot, ALGO_ONE_SHOT) if one_shot <= two_shot else (two_shot, ALGO_TWO_SHOT)
    return best, chosen


@inlined
def all_reduce_choice(message_bytes, n_ranks, algorithm, p, c):
    """All-reduce of `message_bytes` (whole message on every rank) over `n_ranks`: (us, ALGO_* that priced it).

    `algorithm` is one of ALGO_* and really priced by that algorithm. ALGO_AUTO is the fastest under
    `roofline_coefficients()`, and the engine's own choice (its kernel up to its size limit, then NCCL with or
    without NVLS) under fitted ones.
    """
    if n_ranks <= 1.0 or message_bytes <= 0.0:
        return 0.0, ALGO_AUTO
    if n_ranks > domain_gpus(p):
        return scale_out_all_reduce(message_bytes, n_ranks, algorithm, p, c)
    return scale_up_all_reduce(message_bytes, n_ranks, algorithm, p, c)


@inlined
def all_reduce_us(message_bytes, n_ranks, algorithm, p, c):
    """`all_reduce_choice` without the choice, us."""
    t, _ = all_reduce_choice(message_bytes, n_ranks, algorithm, p, c)
    return t


@inlined
def one_pass_us(op, message_bytes, n_ranks, p, c):
    """Half of a ring all-reduce: all-gather or reduce-scatter, us.

    Row `op` holds what differs from the all-reduce: an added overhead and a bandwidth ratio by group size.
    """
    if n_ranks <= 1.0 or message_bytes <= 0.0:
        return 0.0
    volume = message_bytes * (n_ranks - 1.0) / n_ranks
    inside = min(n_ranks, domain_gpus(p))
    t = 0.0
    if inside > 1.0:
        gb_s = scale_up_gb_s(inside, p) * c[op, MEMORY_EFFICIENCY] / (1.0 + slowdown(op, inside, c))
        t = c[op, OVERHEAD_US] + ring_us(volume, inside, inside - 1.0, gb_s, p, c)
    if n_ranks > inside:
        # Each NIC brings its share of what the domain lacks; all of it then passes over the fabric.
        t = max(t, nic_us(volume / inside, np.ceil(n_ranks / inside) - 1.0, p, c))
    return t


@inlined
def all_gather_us(message_bytes, n_ranks, p, c):
    """All-gather to `message_bytes` on every rank, us."""
    return one_pass_us(OP_ALL_GATHER, message_bytes, n_ranks, p, c)


@kernel
def reduce_scatter_us(message_bytes, n_ranks, p, c):
    """Reduce-scatter of `message_bytes` on every rank, us."""
    return one_pass_us(OP_REDUCE_SCATTER, message_bytes, n_ranks, p, c)


@inlined
def exchange_us(low_latency, bulk, message_bytes, n_ranks, nic_hops, relayed_share, p, c):
    """Every rank sends 1/n of `message_bytes` to each rank, by the cheaper of two rows, us.

    `relayed_share` of what leaves the domain crosses the fabric once more on its way to the right NIC.
    """
    inside = min(n_ranks, domain_gpus(p))
    outside_bytes = message_bytes * (n_ranks - inside) / n_ranks
    inside_bytes = message_bytes * (inside - 1.0) / n_ranks + relayed_share * outside_bytes
    gb_s = scale_up_gb_s(inside, p)
    t = 0.0
    if inside > 1.0:
        t = min(
            line_us(low_latency, inside_bytes, inside, 1.0, gb_s, p, c),
            line_us(bulk, inside_bytes, inside, 1.0, gb_s, p, c),
        )
    if n_ranks > inside:
        t = max(t, nic_us(outside_bytes, nic_hops, p, c))
    return t


@inlined
def token_exchange(low_latency, bulk, message_bytes, n_ranks, algorithm, p, c):
    """All-to-all with rows `low_latency` and `bulk` of the single-shot kernel: (us, A2A_* that priced it).

    direct: the library's send and receive pairs, one network message per GPU elsewhere. single_shot: one kernel that
    writes to all peers at once. hierarchical: that kernel inside the domain, one network message per domain.
    auto: the fastest of those.
    """
    if n_ranks <= 1.0 or message_bytes <= 0.0:
        return 0.0, A2A_AUTO
    inside = min(n_ranks, domain_gpus(p))
    domains = np.ceil(n_ranks / inside)
    direct = exchange_us(OP_ALL_TO_ALL_LL, OP_ALL_TO_ALL, message_bytes, n_ranks, n_ranks - inside, 0.0, p, c)
    if algorithm == A2A_DIRECT:
        return direct, A2A_DIRECT
    single_shot = exchange_us(low_latency, bulk, message_bytes, n_ranks, 1.0, 0.0, p, c)
    if algorithm == A2A_SINGLE_SHOT:
        return single_shot, A2A_SINGLE_SHOT
    hierarchical = exchange_us(low_latency, bulk, message_bytes, n_ranks, domains - 1.0, 1.0, p, c)
    if algorithm == A2A_HIERARCHICAL:
        return hierarchical, A2A_HIERARCHICAL
    if direct <= min(single_shot, hierarchical):
        return direct, A2A_DIRECT
    return (single_shot, A2A_SINGLE_SHOT) if single_shot <= hierarchical else (hierarchical, A2A_HIERARCHICAL)


@kernel
def all_to_all_choice(message_bytes, n_ranks, algorithm, p, c):
    """All-to-all in which every rank holds `message_bytes` spread evenly over all ranks: (us, A2A_* that priced it)."""
    return token_exchange(OP_DISPATCH_LL, OP_DISPATCH, message_bytes, n_ranks, algorithm, p, c)


@kernel
def all_to_all_us(message_bytes, n_ranks, algorithm, p, c):
    """`all_to_all_choice` without the choice, us."""
    t, _ = all_to_all_choice(message_bytes, n_ranks, algorithm, p, c)
    return t


@kernel
def combine_choice(message_bytes, n_ranks, algorithm, p, c):
    """Expert outputs back to their tokens' ranks, bytes as in dispatch: (us, A2A_* that priced it)."""
    return token_exchange(OP_COMBINE_LL, OP_COMBINE, message_bytes, n_ranks, algorithm, p, c)


@kernel
def expert_dispatch_us(message_bytes, n_ranks, algorithm, p, c):
    """Tokens to the ranks of their experts, us.

    `message_bytes` of one rank: tokens x distinct ranks they go to (its own included) x bytes of a hidden state.
    """
    t, _ = all_to_all_choice(message_bytes, n_ranks, algorithm, p, c)
    return t


@kernel
def expert_combine_us(message_bytes, n_ranks, algorithm, p, c):
    """`combine_choice` without the choice, us."""
    t, _ = combine_choice(message_bytes, n_ranks, algorithm, p, c)
    return t


@kernel
def point_to_point_us(message_bytes, crosses_domain, p, c):
    """One message between neighbouring pipeline stages, us."""
    if message_bytes <= 0.0:
        return 0.0
    if crosses_domain > 0.0:
        return nic_us(message_bytes, 1.0, p, c)
    gb_s = scale_up_gb_s(2.0, p)
    return min(
        line_us(OP_ALL_TO_ALL_LL, message_bytes, 2.0, 1.0, gb_s, p, c),
        line_us(OP_ALL_TO_ALL, message_bytes, 2.0, 1.0, gb_s, p, c),
    )


@kernel
def collective(primitive, message_bytes, n_ranks, algorithm, p, c):
    """Any primitive: (us, ALGO_* or A2A_* that priced it; 0 where there is only one)."""
    if primitive == ALL_REDUCE:
        return all_reduce_choice(message_bytes, n_ranks, algorithm, p, c)
    if primitive in (ALL_TO_ALL, DISPATCH):
        return all_to_all_choice(message_bytes, n_ranks, algorithm, p, c)
    if primitive == ALL_GATHER:
        return all_gather_us(message_bytes, n_ranks, p, c), 0
    if primitive == REDUCE_SCATTER:
        return reduce_scatter_us(message_bytes, n_ranks, p, c), 0
    if primitive == COMBINE:
        return combine_choice(message_bytes, n_ranks, algorithm, p, c)
    crosses = 1.0 if n_ranks > domain_gpus(p) else 0.0
    return point_to_point_us(message_bytes, crosses, p, c), 0


@kernel
def collective_times(primitive, message_bytes, n_ranks, algorithm, p, c):
    """`collective` for arrays of message sizes and group sizes: float64[rows] us."""
    out = np.empty(message_bytes.size)
    for i in range(message_bytes.size):
        out[i], _ = collective(primitive, message_bytes[i], n_ranks[i], algorithm, p, c)
    return out
