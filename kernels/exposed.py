"""Collectives of a layer as a step feels them: what stays of their time beside the compute that hides them."""

from kernels.collectives import (
    all_gather_us,
    expert_combine_us,
    expert_dispatch_us,
    has_quantized,
    reduce_scatter_us,
)
from kernels.dtypes import WIDTH_BYTES
from kernels.jit import inlined
from kernels.overlap import (
    BUILTIN_ALL_REDUCE_US,
    BUILTIN_ALL_TO_ALL_US,
    all_reduce_factor,
    all_to_all_factor,
    exposed_share,
)


@inlined
def comm_overlap(mixed, p):
    """Most of a collective that compute may hide, in steps with prefill (`mixed`) or of decode alone."""
    return p.prefill_comm_overlap if mixed else p.decode_comm_overlap


@inlined
def all_reduce_exposed_us(reduce_us, overlap, compute_us, p, c):
    """Exposed time of one tensor-parallel all-reduce that takes `reduce_us` by itself, us."""
    if p.tp <= 1.0:
        return 0.0
    if p.comm_model > 0.0:
        return reduce_us + BUILTIN_ALL_REDUCE_US
    t = reduce_us * all_reduce_factor(p, has_quantized(c))
    return t * exposed_share(overlap, compute_us, t)


@inlined
def sends_to_experts(p, d):
    """Whether tokens travel all-to-all to the ranks of their experts and back."""
    asked = p.enable_deepep > 0.0 or p.sync_free_stage > 0.0 or p.ep_a2a_algo > 0.0
    return asked and d.moe_ep > 1.0


@inlined
def expert_sum_exposed_us(message_bytes, reduce_us, overlap, compute_us, p, d, c):
    """Exposed time of the collective that ends a MoE layer, us: partial sums of the TP ranks meet in an all-reduce.

    After an all-to-all each rank has finished outputs of its share of the tokens: they are only gathered.
    """
    if not sends_to_experts(p, d) or p.comm_model > 0.0:
        return all_reduce_exposed_us(reduce_us, overlap, compute_us, p, c)
    t = all_gather_us(message_bytes, p.tp, p, c) * all_reduce_factor(p, has_quantized(c))
    return t * exposed_share(overlap, compute_us, t)


@inlined
def expert_exchange_us(tokens, overlap, compute_us, p, d, c):
    """Exposed time of moving tokens to their experts and back in one MoE layer, us.

    Without attention DP every rank of the group already has all tokens: partial sums meet in the all-reduce that
    follows. Under attention DP tokens are gathered and scattered over the DP ranks. Where the user asks for an
    all-to-all (DeepEP, SyncFree, a forced algorithm), each rank sends its share of the tokens to the ranks that hold
    their experts (dispatch 1 byte per element where experts are fp8, combine 16 bit).
    """
    if sends_to_experts(p, d):
        # Distinct ranks among K uniform draws: a token goes to each of its ranks once.
        reached = d.moe_ep * (1.0 - (1.0 - 1.0 / d.moe_ep) ** p.experts_per_token)
        width = min(2.0, max(1.0, WIDTH_BYTES[int(d.expert_dtype)]))
        elements = tokens * reached * p.hidden_size / p.tp
        t = expert_dispatch_us(elements * width, d.moe_ep, p.ep_a2a_algo, p, c)
        t += expert_combine_us(elements * 2.0, d.moe_ep, p.ep_a2a_algo, p, c)
        if p.comm_model > 0.0:
            return t + 2.0 * BUILTIN_ALL_TO_ALL_US
        t *= all_to_all_factor(p)
    elif p.attention_dp <= 1.0:
        return 0.0
    else:
        total_bytes = tokens * p.attention_dp * p.hidden_size * d.act_width
        t = all_gather_us(total_bytes, p.attention_dp, p, c)
        t += reduce_scatter_us(total_bytes, p.attention_dp, p, c)
        if p.comm_model > 0.0:
            return t + 2.0 * BUILTIN_ALL_TO_ALL_US
        t *= p.ep_a2a_efficiency
    return t * exposed_share(overlap, compute_us, t)
