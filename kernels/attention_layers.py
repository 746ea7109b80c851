"""Attention cores of one engine step, by kind of layer, on one rank.

    t = sum over kinds of layers x (prefill core of the step's prompts + decode core of its sequences)

plus the indexer's scores in sparse layers and, apart, layers with a linear recurrence.
"""

from kernels.attention import decode_attention_us, linear_attention_us, prefill_attention_us
from kernels.dtypes import WIDTH_BYTES
from kernels.elementwise import elementwise_us
from kernels.gemm import gemm_us
from kernels.jit import inlined, kernel
from kernels.params import window_shape

FULL, SPARSE, WINDOW = range(3)
N_KINDS = 3
"""Kinds of attention layers: all keys; the top-k that an indexer chose; a window."""


@inlined
def layers_of(kind, d):
    """Attention layers of one kind, whole model."""
    if kind == FULL:
        return d.full_layers - d.sparse_layers
    return d.sparse_layers if kind == SPARSE else d.window_layers


@inlined
def shape_of(kind, p, d):
    """(KV heads of this rank, query/key head width, value head width) of one kind of layer."""
    if kind == WINDOW:
        _, head_dim, v_head_dim = window_shape(p)
        return d.window_kv_heads_local, head_dim, v_head_dim
    return d.kv_heads_local, p.head_dim, p.v_head_dim


@inlined
def index_share(p):
    """Share of the sparse layers that have an indexer of their own; the others reuse its choice."""
    return min(1.0, p.n_index_layers / p.n_sparse_layers) if p.n_sparse_layers > 0.0 else 0.0


@inlined
def prefill_core_us(kind, n_seqs, tokens, prior, p, d, c):
    """One layer's attention of `tokens` new tokens of `n_seqs` prompts after `prior` computed ones (both summed), us.

    A window or a top-k bounds the keys; the indexer, which no engine shards, has scored the whole context before.
    """
    mla = p.kv_lora_rank
    new = tokens / n_seqs / p.cp
    before = prior / n_seqs
    kv_heads, head_dim, v_head_dim = shape_of(kind, p, d)
    kv_heads = d.heads_local if mla > 0.0 else kv_heads
    bound = 0.0
    if kind == SPARSE:
        bound = d.sparse_topk
    elif kind == WINDOW:
        bound = d.window_tokens
    t = prefill_attention_us(
        n_seqs, new, before, d.heads_local, kv_heads, head_dim, v_head_dim, bound, d.kv_width, mla, p, c
    )
    if kind == SPARSE and p.index_heads > 0.0:
        t += index_share(p) * prefill_attention_us(
            n_seqs, new, before, p.index_heads, 1.0, p.index_head_dim, 0.0, 0.0, 1.0, 0.0, p, c
        )
    return t


@inlined
def decode_core_us(kind, n_seqs, context, queries, p, d, c):
    """One layer's attention of `n_seqs` sequences with `queries` query tokens each over `context` cached ones (summed), us.

    A window bounds what is read where p.window_in_decode. Key and value are cached both, also where one projection
    makes them; latent attention is absorbed: one KV head that holds the latent.
    """
    mla = p.kv_lora_rank
    kv_heads, head_dim, v_head_dim = shape_of(kind, p, d)
    width = kv_heads * (head_dim + v_head_dim)
    if mla > 0.0:
        kv_heads, head_dim, v_head_dim = 1.0, mla + p.qk_rope_dim, mla
        width = head_dim
    read = context / n_seqs
    if kind == SPARSE:
        read = min(read, d.sparse_topk)
    elif kind == WINDOW and p.window_in_decode > 0.0:
        read = min(read, d.window_tokens)
    t = decode_attention_us(
        n_seqs,
        n_seqs * read / p.cp,
        queries,
        d.heads_local,
        kv_heads,
        head_dim,
        v_head_dim,
        width * d.kv_width,
        mla,
        p,
        c,
    )
    if kind == SPARSE and p.index_heads > 0.0:
        t += index_share(p) * decode_attention_us(
            n_seqs,
            context / p.cp,
            queries,
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
def attention_us(
    decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, p, d, c
):
    """Attention cores of all layers but linear ones, us: prompts and decoding sequences of a step (kernels.step)."""
    t = 0.0
    for kind in range(N_KINDS):
        layers = layers_of(kind, d)
        if layers <= 0.0:
            continue
        core = 0.0
        if prefill_seqs > 0.0:
            core += prefill_core_us(kind, prefill_seqs, prefill_tokens, prefill_prior, p, d, c)
        if decode_seqs > 0.0:
            core += decode_core_us(kind, decode_seqs, decode_context, decode_queries, p, d, c)
        t += layers * core
    return t


@kernel
def linear_layer_us(decode_seqs, decode_queries, prefill_seqs, prefill_tokens, p, d, c):
    """One linear-attention layer (projections, short convolution, state update) on one rank, us: (gemm, core)."""
    tokens = decode_seqs * decode_queries + prefill_tokens
    k_width = p.linear_k_heads * p.linear_k_dim / p.tp
    v_heads = p.linear_v_heads / p.tp
    v_width = v_heads * p.linear_v_dim
    in_width = 2.0 * k_width + 2.0 * v_width + 2.0 * v_heads
    gemm = gemm_us(tokens, in_width, p.hidden_size, d.attn_dtype, p, c)
    gemm += gemm_us(tokens, p.hidden_size, v_width, d.attn_dtype, p, c)
    k_dim, v_dim = p.linear_k_dim, p.linear_v_dim
    state_width = WIDTH_BYTES[int(p.linear_state_dtype)]
    core = linear_attention_us(decode_seqs, decode_queries, v_heads, k_dim, v_dim, state_width, p, c)
    if prefill_seqs > 0.0:
        new = prefill_tokens / prefill_seqs
        core += linear_attention_us(prefill_seqs, new, v_heads, k_dim, v_dim, state_width, p, c)
    core += elementwise_us(2.0 * tokens * (2.0 * k_width + v_width) * d.act_width, p, c)
    return gemm, core
