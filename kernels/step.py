"""Time of one engine step: the one price of work, for the closed form and for the simulator.

A step runs `decode_seqs` sequences of `decode_queries` query tokens each and `prefill_tokens` new prompt tokens
through every layer of one attention-DP rank (all ranks work alike; experts see the tokens of all of them):

    t = sum over layers (GEMM + attention + experts + exposed collectives + element-wise) + head + hops + host

Pipeline stages run the batch one after the other here; `kernels.batching` keeps pp batches in flight.
"""

import numba
import numpy as np
from numba import types

from kernels import once
from kernels.attention import decode_attention_us, linear_attention_us, prefill_attention_us
from kernels.cast import cast_is_given, cast_us
from kernels.coefficients import HOST_MIXED_SCALE, OP_HOST, OP_SCALE
from kernels.collectives import (
    all_gather_us,
    all_reduce_us,
    expert_combine_us,
    expert_dispatch_us,
    point_to_point_us,
    reduce_scatter_us,
)
from kernels.dtypes import WIDTH_BYTES
from kernels.elementwise import elementwise_us
from kernels.experts import rank_imbalance, touched_experts
from kernels.fabric import domain_gpus
from kernels.gemm import gemm_us
from kernels.hostcost import host_us, kernel_floor_us, sampling_passes
from kernels.jit import inlined, kernel
from kernels.layout import (
    DERIVED,
    PART_ATTENTION,
    PART_EP_COMM,
    PART_GEMM,
    PART_HOST,
    PART_MOE,
    PART_OTHER,
    PART_PP_COMM,
    PART_TP_COMM,
)
from kernels.moe import moe_us
from kernels.overlap import (
    BUILTIN_ALL_REDUCE_US,
    BUILTIN_ALL_TO_ALL_US,
    all_reduce_factor,
    all_to_all_factor,
    exposed_share,
)
from kernels.params import window_shape
from kernels.pipeline import hops

BF16 = 1.0


@inlined
def projections_us(
    tokens, prefill_tokens, decode_tokens, prefill_context, n_kv_heads_local, head_dim, v_head_dim, p, d, c
):
    """GEMMs around one attention layer on one rank, us.

    MHA/GQA: fused QKV and output; `v_head_dim` 0 where the key's projection makes the value too. MLA: down-projections replicated, up-projections by heads; prefill expands the
    latent of the whole context (`prefill_context` tokens), decode absorbs it (two batched products per head).
    """
    hidden = p.hidden_size
    heads = d.heads_local
    dtype = d.attn_dtype
    if p.kv_lora_rank > 0.0:
        latent = p.kv_lora_rank + p.qk_rope_dim
        t = gemm_us(tokens, p.q_lora_rank + latent, hidden, dtype, p, c)
        q_rank = p.q_lora_rank if p.q_lora_rank > 0.0 else hidden
        t += gemm_us(tokens, heads * (p.qk_nope_dim + p.qk_rope_dim), q_rank, dtype, p, c)
        t += gemm_us(prefill_context, heads * (p.qk_nope_dim + p.v_head_dim), p.kv_lora_rank, dtype, p, c)
        t += gemm_us(decode_tokens, heads * (p.qk_nope_dim + p.v_head_dim), p.kv_lora_rank, BF16, p, c)
        return t + gemm_us(tokens, hidden, heads * p.v_head_dim, dtype, p, c)
    q_width = heads * head_dim * (2.0 if p.attn_output_gate > 0.0 else 1.0)
    kv_width = n_kv_heads_local * (head_dim + v_head_dim)
    out_width = heads * (v_head_dim if v_head_dim > 0.0 else head_dim)
    return gemm_us(tokens, q_width + kv_width, hidden, dtype, p, c) + gemm_us(
        tokens, hidden, out_width, dtype, p, c
    )


@inlined
def linear_layer_us(decode_seqs, decode_queries, prefill_seqs, prefill_tokens, p, d, c):
    """One linear-attention layer (projections, short convolution, state update) on one rank, us: (gemm, core)."""
    tokens = decode_seqs * decode_queries + prefill_tokens
    k_width = p.linear_k_heads * p.linear_k_dim / p.tp
    v_width = p.linear_v_heads * p.linear_v_dim / p.tp
    gemm = gemm_us(
        tokens,
        2.0 * k_width + 2.0 * v_width + 2.0 * p.linear_v_heads / p.tp,
        p.hidden_size,
        d.attn_dtype,
        p,
        c,
    )
    gemm += gemm_us(tokens, p.hidden_size, v_width, d.attn_dtype, p, c)
    state_width = WIDTH_BYTES[int(p.linear_state_dtype)]
    v_heads = p.linear_v_heads / p.tp
    core = linear_attention_us(
        decode_seqs, decode_queries, v_heads, p.linear_k_dim, p.linear_v_dim, state_width, p, c
    )
    if prefill_seqs > 0.0:
        core += linear_attention_us(
            prefill_seqs,
            prefill_tokens / prefill_seqs,
            v_heads,
            p.linear_k_dim,
            p.linear_v_dim,
            state_width,
            p,
            c,
        )
    core += elementwise_us(2.0 * tokens * (2.0 * k_width + v_width) * d.act_width, p, c)
    return gemm, core


@inlined
def index_share(p):
    """Share of the sparse layers that have an indexer of their own; the others reuse its choice."""
    return min(1.0, p.n_index_layers / p.n_sparse_layers) if p.n_sparse_layers > 0.0 else 0.0


@inlined
def indexer_gemm_us(tokens, p, d, c):
    """Projections of the indexer of a sparse layer, replicated on every rank, us (mean over the sparse layers)."""
    query_in = p.q_lora_rank if p.q_lora_rank > 0.0 else p.hidden_size
    t = gemm_us(tokens, p.index_heads * p.index_head_dim, query_in, d.attn_dtype, p, c)
    t += gemm_us(tokens, p.index_head_dim + p.index_heads, p.hidden_size, BF16, p, c)
    return index_share(p) * t


@inlined
def attention_core_us(
    window,
    sparse,
    kv_heads,
    head_dim,
    v_head_dim,
    decode_seqs,
    decode_context,
    decode_queries,
    prefill_seqs,
    prefill_tokens,
    prefill_prior,
    p,
    d,
    c,
):
    """Attention core of one layer on one rank, us: prefill and decode parts of the step.

    `window` > 0 bounds keys to a window (in decode where p.window_in_decode), `sparse` > 0 bounds them to
    d.sparse_topk after the indexer, which no engine shards, has scored the whole context. Key and value are cached
    both, also where one projection makes them.
    """
    mla = p.kv_lora_rank
    t = 0.0
    if prefill_seqs > 0.0:
        new = prefill_tokens / prefill_seqs / p.cp
        prior = prefill_prior / prefill_seqs
        bound = d.sparse_topk if sparse > 0.0 else window
        kv = d.heads_local if mla > 0.0 else kv_heads
        t += prefill_attention_us(
            prefill_seqs,
            new,
            prior,
            d.heads_local,
            kv,
            head_dim,
            v_head_dim,
            bound,
            d.kv_width,
            mla,
            p,
            c,
        )
        if sparse > 0.0 and p.index_heads > 0.0:
            t += index_share(p) * prefill_attention_us(
                prefill_seqs,
                new,
                prior,
                p.index_heads,
                1.0,
                p.index_head_dim,
                0.0,
                0.0,
                1.0,
                0.0,
                p,
                c,
            )
    if decode_seqs > 0.0:
        mean_context = decode_context / decode_seqs
        read = mean_context
        if sparse > 0.0:
            read = min(read, d.sparse_topk)
        elif window > 0.0 and p.window_in_decode > 0.0:
            read = min(read, window)
        context = decode_seqs * read / p.cp
        if mla > 0.0:
            latent = mla + p.qk_rope_dim
            t += decode_attention_us(
                decode_seqs,
                context,
                decode_queries,
                d.heads_local,
                1.0,
                latent,
                mla,
                latent * d.kv_width,
                mla,
                p,
                c,
            )
        else:
            token_bytes = kv_heads * (head_dim + v_head_dim) * d.kv_width
            t += decode_attention_us(
                decode_seqs,
                context,
                decode_queries,
                d.heads_local,
                kv_heads,
                head_dim,
                v_head_dim,
                token_bytes,
                0.0,
                p,
                c,
            )
        if sparse > 0.0 and p.index_heads > 0.0:
            t += index_share(p) * decode_attention_us(
                decode_seqs,
                decode_context / p.cp,
                decode_queries,
                p.index_heads,
                1.0,
                p.index_head_dim,
                0.0,
                p.index_head_dim,
                0.0,
                p,
                c,
            )
    return t


@inlined
def all_reduce_exposed_us(reduce_us, overlap, compute_us, p):
    """Exposed time of one tensor-parallel all-reduce that takes `reduce_us` by itself, us."""
    if p.tp <= 1.0:
        return 0.0
    if p.comm_model > 0.0:
        return reduce_us + BUILTIN_ALL_REDUCE_US
    t = reduce_us * all_reduce_factor(p)
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
        return all_reduce_exposed_us(reduce_us, overlap, compute_us, p)
    t = all_gather_us(message_bytes, p.tp, p, c) * all_reduce_factor(p)
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
        width = min(2.0, WIDTH_BYTES[int(d.expert_dtype)]) if WIDTH_BYTES[int(d.expert_dtype)] >= 1.0 else 1.0
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
        t = all_gather_us(total_bytes, p.attention_dp, p, c) + reduce_scatter_us(
            total_bytes, p.attention_dp, p, c
        )
        if p.comm_model > 0.0:
            return t + 2.0 * BUILTIN_ALL_TO_ALL_US
        t *= p.ep_a2a_efficiency
    return t * exposed_share(overlap, compute_us, t)


@inlined
def dense_mlp_us(tokens, p, d, c):
    """Dense MLP of one layer on one rank, us: (gemm, element-wise)."""
    up = gemm_us(tokens, (p.mlp_matrices - 1.0) * d.ffn_local, p.hidden_size, d.mlp_dtype, p, c)
    down = gemm_us(tokens, p.hidden_size, d.ffn_local, d.mlp_dtype, p, c)
    return up + down, elementwise_us(p.mlp_matrices * tokens * d.ffn_local * d.act_width, p, c)


@inlined
def moe_layer_us(tokens, p, d, c):
    """Experts of one MoE layer on one rank, us: (router and shared GEMMs, routed experts, element-wise).

    `tokens` are the rank's own; the experts see those of all attention-DP ranks.
    """
    all_tokens = tokens * p.attention_dp
    gemm = gemm_us(tokens, p.n_experts, p.hidden_size, BF16, p, c)
    other = elementwise_us(8.0 * tokens * p.n_experts, p, c)
    if d.shared_ffn_local > 0.0:
        gemm += gemm_us(
            tokens, (p.mlp_matrices - 1.0) * d.shared_ffn_local, p.hidden_size, d.shared_dtype, p, c
        )
        gemm += gemm_us(tokens, p.hidden_size, d.shared_ffn_local, d.shared_dtype, p, c)
        other += elementwise_us(p.mlp_matrices * tokens * d.shared_ffn_local * d.act_width, p, c)
    width = p.hidden_size
    if p.moe_hidden_dim > 0.0:  # latent MoE: projected down before the experts and up after
        width = p.moe_hidden_dim
        gemm += 2.0 * gemm_us(tokens, p.moe_hidden_dim, p.hidden_size, d.shared_dtype, p, c)
    routings = all_tokens * p.experts_per_token / d.moe_ep
    touched = touched_experts(all_tokens, p, c) / d.moe_ep
    touched = min(d.experts_local, max(touched, min(1.0, routings)))
    # An all-to-all hands a rank the pairs of its own experts; otherwise it sorts through those of all tokens
    dispatched = (p.attention_dp > 1.0 and d.moe_ep > 1.0) or sends_to_experts(p, d)
    pairs = routings if dispatched else all_tokens * p.experts_per_token
    experts = moe_us(
        pairs,
        routings,
        touched,
        width,
        d.moe_ffn_local,
        p.mlp_matrices,
        d.expert_dtype,
        rank_imbalance(p, d),
        p,
        c,
    )
    return gemm, experts, other


@inlined
def head_us(rows, tokens, p, d, c):
    """Embedding of `tokens`, LM head, logits gather and sampling of `rows` rows on the last stage, us: (gemm, comm, other)."""
    gemm = gemm_us(rows, d.vocab_local, p.hidden_size, d.head_dtype, p, c)
    comm = all_gather_us(rows * p.vocab_size * 2.0, p.tp, p, c) if p.tp > 1.0 else 0.0
    other = elementwise_us(2.0 * tokens * p.hidden_size * d.act_width, p, c)
    other += elementwise_us(sampling_passes(p) * rows * p.vocab_size * 2.0, p, c) if p.sampling > 0.0 else 0.0
    return gemm, comm, other


@inlined
def fold_communication(parts):
    """comm_model=builtin: communication is part of layer time, without a breakdown."""
    parts[PART_OTHER] += parts[PART_TP_COMM] + parts[PART_EP_COMM] + parts[PART_PP_COMM]
    parts[PART_TP_COMM] = 0.0
    parts[PART_EP_COMM] = 0.0
    parts[PART_PP_COMM] = 0.0


@kernel
def step_us(
    p, d, c, decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, parts
):
    """`step_model` through its symbol."""
    return step_model(
        p,
        d,
        c,
        decode_seqs,
        decode_context,
        decode_queries,
        prefill_seqs,
        prefill_tokens,
        prefill_prior,
        parts,
    )


@once.compiled_once(reads=("c",))
def step_model(
    p, d, c, decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, parts
):
    """Time of one engine step of one attention-DP rank, us; `parts` (float64[N_PARTS]) receives its split.

    `decode_context`: cached tokens of the decoding sequences, summed. `prefill_tokens`: new prompt tokens, summed
    over `prefill_seqs` prompts (a chunk each); `prefill_prior`: their tokens computed before, summed.
    `p` input record, `d` derived record (kernels.resolve), `c` coefficients (N_OPS, N_COEF).
    """
    parts[:] = 0.0
    decode_tokens = decode_seqs * decode_queries
    tokens = decode_tokens + prefill_tokens / p.cp
    if tokens <= 0.0:
        return 0.0
    mixed = prefill_tokens > 0.0
    overlap = p.prefill_comm_overlap if mixed else p.decode_comm_overlap
    scale = c[OP_HOST, HOST_MIXED_SCALE] if mixed else 1.0
    hidden_bytes = tokens * p.hidden_size * d.act_width
    prefill_context = prefill_tokens + prefill_prior
    v_projected = 0.0 if p.k_is_v > 0.0 else p.v_head_dim

    gemm = 0.0
    attention = 0.0
    # Attention layers, by kind
    plain_full = d.full_layers - d.sparse_layers
    if plain_full > 0.0:
        gemm += plain_full * projections_us(
            tokens,
            prefill_tokens,
            decode_tokens,
            prefill_context,
            d.kv_heads_local,
            p.head_dim,
            v_projected,
            p,
            d,
            c,
        )
        attention += plain_full * attention_core_us(
            0.0,
            0.0,
            d.kv_heads_local,
            p.head_dim,
            p.v_head_dim,
            decode_seqs,
            decode_context,
            decode_queries,
            prefill_seqs,
            prefill_tokens,
            prefill_prior,
            p,
            d,
            c,
        )
    if d.sparse_layers > 0.0:
        gemm += d.sparse_layers * indexer_gemm_us(tokens, p, d, c)
        gemm += d.sparse_layers * projections_us(
            tokens,
            prefill_tokens,
            decode_tokens,
            prefill_context,
            d.kv_heads_local,
            p.head_dim,
            v_projected,
            p,
            d,
            c,
        )
        attention += d.sparse_layers * attention_core_us(
            0.0,
            1.0,
            d.kv_heads_local,
            p.head_dim,
            p.v_head_dim,
            decode_seqs,
            decode_context,
            decode_queries,
            prefill_seqs,
            prefill_tokens,
            prefill_prior,
            p,
            d,
            c,
        )
    if d.window_layers > 0.0:
        _, head_dim, v_head_dim = window_shape(p)
        gemm += d.window_layers * projections_us(
            tokens,
            prefill_tokens,
            decode_tokens,
            prefill_context,
            d.window_kv_heads_local,
            head_dim,
            v_head_dim,
            p,
            d,
            c,
        )
        attention += d.window_layers * attention_core_us(
            d.window_tokens,
            0.0,
            d.window_kv_heads_local,
            head_dim,
            v_head_dim,
            decode_seqs,
            decode_context,
            decode_queries,
            prefill_seqs,
            prefill_tokens,
            prefill_prior,
            p,
            d,
            c,
        )
    if d.linear_layers > 0.0:
        linear_gemm, linear_core = linear_layer_us(
            decode_seqs, decode_queries, prefill_seqs, prefill_tokens, p, d, c
        )
        gemm += d.linear_layers * linear_gemm
        attention += d.linear_layers * linear_core
    attention_compute = (gemm + attention) / p.n_layers

    # Norms, residuals and rotary: four reads or writes of the hidden state per norm, two norms per layer
    other = p.n_layers * (2.0 * elementwise_us(4.0 * hidden_bytes, p, c))
    if p.kv_lora_rank <= 0.0:
        other += d.full_layers * elementwise_us(
            2.0 * tokens * (d.heads_local + d.kv_heads_local) * p.head_dim * d.act_width, p, c
        )

    # One message size for all sums over TP ranks: only what hides them differs
    reduce_us = all_reduce_us(hidden_bytes, p.tp, p.tp_allreduce_algo, p, c)
    tp_comm = p.n_layers * all_reduce_exposed_us(reduce_us, overlap, attention_compute, p)
    if d.dense_layers > 0.0:
        mlp_gemm, mlp_other = dense_mlp_us(tokens, p, d, c)
        gemm += d.dense_layers * mlp_gemm
        other += d.dense_layers * mlp_other
        tp_comm += d.dense_layers * all_reduce_exposed_us(reduce_us, overlap, mlp_gemm, p)
    moe = 0.0
    ep_comm = 0.0
    if d.moe_layers > 0.0:
        router_gemm, experts, moe_other = moe_layer_us(tokens, p, d, c)
        gemm += d.moe_layers * router_gemm
        moe = d.moe_layers * experts
        other += d.moe_layers * moe_other
        ep_comm = d.moe_layers * expert_exchange_us(tokens, overlap, experts + router_gemm, p, d, c)
        tp_comm += d.moe_layers * expert_sum_exposed_us(hidden_bytes, reduce_us, overlap, experts, p, d, c)

    if cast_is_given(p):
        routings = tokens * p.attention_dp * p.experts_per_token / d.moe_ep
        other += cast_us(tokens, routings, p, d, c)

    rows = decode_tokens + prefill_seqs
    head_gemm, head_comm, head_other = head_us(rows, tokens, p, d, c)
    pp_comm = 0.0
    if p.pp > 1.0:
        crosses = 1.0 if p.tp * p.attention_dp * p.pp > domain_gpus(p) else 0.0
        pp_comm = hops(p) * point_to_point_us(hidden_bytes / p.tp, crosses, p, c)

    parts[PART_GEMM] = scale * (gemm + head_gemm) * c[OP_SCALE, PART_GEMM]
    parts[PART_ATTENTION] = scale * attention * c[OP_SCALE, PART_ATTENTION]
    parts[PART_MOE] = scale * moe * c[OP_SCALE, PART_MOE]
    parts[PART_OTHER] = scale * (other + head_other) * c[OP_SCALE, PART_OTHER]
    parts[PART_TP_COMM] = (tp_comm + head_comm) * c[OP_SCALE, PART_TP_COMM]
    parts[PART_EP_COMM] = ep_comm * c[OP_SCALE, PART_EP_COMM]
    parts[PART_PP_COMM] = pp_comm * c[OP_SCALE, PART_PP_COMM]
    device = parts.sum()
    if p.comm_model > 0.0:
        fold_communication(parts)
    if mixed and decode_seqs > 0.0:
        penalty = mixed_penalty(p, d)
        parts[PART_OTHER] += penalty * device
        device *= 1.0 + penalty
    floor = kernel_floor_us(mixed, p, d)
    parts[PART_HOST] = max(0.0, floor - device) + host_us(decode_seqs, prefill_seqs, prefill_tokens, p, d, c)
    return parts.sum()


def load_step(input_dtype):
    """Register the step model for input records of `input_dtype`, for callbacks that call it (kernels.once)."""
    once.load(
        __name__,
        step_model.__name__,
        (
            numba.from_dtype(input_dtype),
            numba.from_dtype(DERIVED),
            types.Array(types.float64, 2, "C", readonly=True),
            *(types.float64,) * 6,
            types.Array(types.float64, 1, "C"),
        ),
    )


@inlined
def mixed_penalty(p, d):
    """Extra share of a step that mixes prefill and decode: given, or 0.15 under piecewise graphs, else 0."""
    if not np.isnan(p.mixed_batch_penalty):
        return p.mixed_batch_penalty
    return 0.15 if d.graph_mode == 1.0 else 0.0
