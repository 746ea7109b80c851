"""What a step takes for its number of tokens, whatever sequences they belong to.

GEMMs, experts, element-wise kernels and collectives see a batch as so many rows. Full steps have as many as the token
budget holds at every load, so their work is priced once per deployment (kernels.priced).
"""

from kernels.cast import cast_is_given, cast_us
from kernels.collectives import all_reduce_us, point_to_point_us
from kernels.elementwise import elementwise_us
from kernels.exposed import all_reduce_exposed_us, comm_overlap, expert_exchange_us, expert_sum_exposed_us
from kernels.fabric import domain_gpus
from kernels.feed_forward import mlp_us, moe_layer_us
from kernels.jit import inlined
from kernels.pipeline import hops
from kernels.priced import work_at
from kernels.projections import projections_us


@inlined
def streaming_us(tokens, p, d, c):
    """Norms, residuals, rotary embedding and token embedding of the whole model, us.

    Four reads or writes of the hidden state per norm, two norms per layer.
    """
    hidden_bytes = tokens * p.hidden_size * d.act_width
    t = p.n_layers * (2.0 * elementwise_us(4.0 * hidden_bytes, p, c))
    if p.kv_lora_rank <= 0.0:
        heads = d.heads_local + d.kv_heads_local
        t += d.full_layers * elementwise_us(2.0 * tokens * heads * p.head_dim * d.act_width, p, c)
    if cast_is_given(p):
        routings = tokens * p.attention_dp * p.experts_per_token / d.moe_ep
        t += cast_us(tokens, routings, p, d, c)
    return t + elementwise_us(2.0 * hidden_bytes, p, c)


@inlined
def hops_us(tokens, p, d, c):
    """Hidden states from stage to stage of the pipeline, us."""
    if p.pp <= 1.0:
        return 0.0
    crosses = 1.0 if p.tp * p.attention_dp * p.pp > domain_gpus(p) else 0.0
    return hops(p) * point_to_point_us(tokens * p.hidden_size * d.act_width / p.tp, crosses, p, c)


@inlined
def price_work(tokens, mixed, p, d, c, w):
    """Fill the record `w` (TOKEN_WORK) for `tokens` tokens of one rank; `mixed`: prompts are among them."""
    overlap = comm_overlap(mixed, p)
    message_bytes = tokens * p.hidden_size * d.act_width
    w.projections_us = projections_us(tokens, p, d, c)
    w.other_us = streaming_us(tokens, p, d, c)
    w.hops_us = hops_us(tokens, p, d, c)
    # One message size for all sums over TP ranks: only what hides them differs
    reduce_us = all_reduce_us(message_bytes, p.tp, p.tp_allreduce_algo, p, c)
    w.all_reduce_us = reduce_us
    w.ffn_gemm_us = 0.0
    w.ffn_comm_us = 0.0
    w.experts_us = 0.0
    w.ep_comm_us = 0.0
    if d.dense_layers > 0.0:
        gemm, other = mlp_us(tokens, d.ffn_local, d.mlp_dtype, p, d, c)
        w.ffn_gemm_us += d.dense_layers * gemm
        w.other_us += d.dense_layers * other
        w.ffn_comm_us += d.dense_layers * all_reduce_exposed_us(reduce_us, overlap, gemm, p, c)
    if d.moe_layers > 0.0:
        gemm, experts, other = moe_layer_us(tokens, p, d, c)
        exchange = expert_exchange_us(tokens, overlap, experts + gemm, p, d, c)
        summed = expert_sum_exposed_us(message_bytes, reduce_us, overlap, experts, p, d, c)
        w.ffn_gemm_us += d.moe_layers * gemm
        w.other_us += d.moe_layers * other
        w.ffn_comm_us += d.moe_layers * summed
        w.experts_us = d.moe_layers * experts
        w.ep_comm_us = d.moe_layers * exchange


@inlined
def token_work(tokens, mixed, p, d, c, s):
    """The record (TOKEN_WORK) of `tokens` tokens on one rank, priced now or remembered in `s` (PRICED)."""
    w = work_at(tokens, mixed, s)
    if w.deployment != s.deployment or w.tokens != tokens or w.mixed != mixed:
        price_work(tokens, mixed, p, d, c, w)
        w.deployment = s.deployment
        w.tokens = tokens
        w.mixed = mixed
    return w
