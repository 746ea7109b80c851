"""Parameters of a model by weight class, from its architecture alone.

Per layer, with h hidden width, nh query heads, kv KV heads, q and v the widths of a query/key and a
value head (counted from the modelling code of each family; a test holds the totals to the published ones):

    attention (MHA/GQA)  h nh q (1 + gate) + h kv (q + v) + nh v h
    attention (MLA)      h rq + rq nh q + h (rkv + rope) + rkv nh (nope + v) + nh v h
    linear attention     h (2 K + 2 V) + V h,  K = k_heads k_dim, V = v_heads v_dim
    indexer              rq ih id + h id + h ih
    MLP, shared experts  matrices h f
    one routed expert    matrices l f,  l = moe_hidden_dim (then the layer's h l projections to and from it
                         count as shared) or h

Norms, biases, convolutions, sinks, per-head gates and the like are `other_params`, an input.
"""

from kernels.jit import inlined, kernel


@inlined
def attention_layers(p):
    """Layers with softmax attention (full, windowed or sparse)."""
    return p.n_layers - p.n_linear_layers


@inlined
def dense_mlp_layers(p):
    """Layers with a dense MLP."""
    return p.n_layers - p.n_moe_layers - p.n_mlp_free_layers


@inlined
def window_shape(p):
    """(KV heads, query/key head width, value head width) of a window layer."""
    kv_heads = p.window_n_kv_heads if p.window_n_kv_heads > 0.0 else p.n_kv_heads
    head_dim = p.window_head_dim if p.window_head_dim > 0.0 else p.head_dim
    v_head_dim = p.window_head_dim if p.window_head_dim > 0.0 else p.v_head_dim
    return kv_heads, head_dim, v_head_dim


@inlined
def query_output_params(heads, head_dim, v_head_dim, p):
    """Query and output projection of one MHA/GQA layer, output gate included."""
    return p.hidden_size * heads * (head_dim * (1.0 + p.attn_output_gate) + v_head_dim)


@inlined
def mla_params(p):
    """Projections of one multi-head latent attention layer."""
    q_width = p.n_heads * (p.qk_nope_dim + p.qk_rope_dim)
    query = p.hidden_size * q_width
    if p.q_lora_rank > 0.0:
        query = p.q_lora_rank * (p.hidden_size + q_width)
    compress = p.hidden_size * (p.kv_lora_rank + p.qk_rope_dim)
    expand = p.kv_lora_rank * p.n_heads * (p.qk_nope_dim + p.v_head_dim)
    gate = p.attn_output_gate * p.hidden_size * p.n_heads * p.v_head_dim
    return query + compress + expand + gate + p.n_heads * p.v_head_dim * p.hidden_size


@inlined
def linear_attention_params(p):
    """Projections of one linear-attention layer: q, k, v, output gate, out (Mamba-2: C, B, x, z, out)."""
    k_width = p.linear_k_heads * p.linear_k_dim
    v_width = p.linear_v_heads * p.linear_v_dim
    return p.hidden_size * (2.0 * k_width + 3.0 * v_width)


@inlined
def indexer_params(p):
    """Projections of one sparse-attention indexer: queries, key, head weights."""
    query_in = p.q_lora_rank if p.q_lora_rank > 0.0 else p.hidden_size
    return query_in * p.index_heads * p.index_head_dim + p.hidden_size * (p.index_head_dim + p.index_heads)


@inlined
def attention_params(p):
    """Attention projections of the whole model: full, windowed, linear, indexers."""
    layers = attention_layers(p)
    window_layers = min(p.n_window_layers, layers)
    full_layers = layers - window_layers
    # Layers that reuse an earlier layer's cache have no key and value projections. They repeat the
    # model's own pattern of full and window layers, hence the proportion.
    owning = 1.0
    if layers > 0.0:
        owning = 1.0 - min(p.n_kv_shared_layers, layers) / layers
    w_kv, w_qk, w_v = window_shape(p)
    window = query_output_params(p.n_heads, w_qk, w_v, p) + owning * p.hidden_size * w_kv * (w_qk + w_v)
    if p.kv_lora_rank > 0.0:
        full = mla_params(p)
    else:
        kv_width = p.head_dim if p.k_is_v > 0.0 else p.head_dim + p.v_head_dim
        full = query_output_params(p.n_heads, p.head_dim, p.v_head_dim, p)
        full += owning * p.hidden_size * p.n_kv_heads * kv_width
    return (
        full_layers * full
        + window_layers * window
        + p.n_linear_layers * linear_attention_params(p)
        + p.n_index_layers * indexer_params(p)
    )


@kernel
def parameter_counts(p, d):
    """Fill the `params_*` fields of the derived record `d` from the input record `p`.

    A tied LM head is counted once, in `params_embed`. Multi-token-prediction layers are left out.
    `params_active` are the parameters that one token is multiplied with: all but the experts it does
    not visit and the embedding's rows, the LM head included even where it is tied.
    """
    h = p.hidden_size
    vocab = p.vocab_size * h
    d.params_attn = attention_params(p)
    d.params_mlp = dense_mlp_layers(p) * p.mlp_matrices * h * p.ffn_dim
    expert_in = p.moe_hidden_dim if p.moe_hidden_dim > 0.0 else h
    d.params_experts = p.n_moe_layers * p.n_experts * p.mlp_matrices * expert_in * p.moe_ffn_dim
    d.params_shared = p.n_moe_layers * h * (p.mlp_matrices * p.shared_ffn_dim + 2.0 * p.moe_hidden_dim)
    d.params_router = p.n_moe_layers * h * p.n_experts
    d.params_embed = vocab
    d.params_head = 0.0 if p.tied_embeddings > 0.0 else vocab
    d.params_other = p.other_params
    without_vocab = d.params_attn + d.params_mlp + d.params_shared + d.params_router + d.params_other
    d.params_total = without_vocab + d.params_experts + d.params_embed + d.params_head
    visited = 0.0
    if p.n_experts > 0.0:
        visited = d.params_experts * p.experts_per_token / p.n_experts
    d.params_active = without_vocab + visited + vocab
