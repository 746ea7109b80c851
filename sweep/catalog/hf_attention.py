"""Softmax attention in Hugging Face configurations: heads, latent attention, windows, sparse indexers."""

from __future__ import annotations

from sweep.catalog.hf_read import Keys
from sweep.catalog.hf_shape import FULL, WINDOW, Shape, layer_kinds
from sweep.errors import UserError


def multi_query(keys: Keys, shape: Shape) -> None:
    """One KV head where `multi_query` says so (its default in GPT-BigCode)."""
    if keys.flag("multi_query", default=True):
        shape.fields["n_kv_heads"] = 1


def falcon_heads(keys: Keys, shape: Shape) -> None:
    """Falcon: one KV head, groups in the new decoder, else as many as queries; its norms have biases."""
    heads, hidden, n = shape.number("n_heads"), shape.number("hidden_size"), len(shape.blocks)
    grouped = keys.flag("new_decoder_architecture")
    if keys.flag("alibi") or keys.flag("bias"):
        raise UserError("falcon with ALiBi or biases is not modelled", field="alibi")
    if grouped:
        shape.fields["n_kv_heads"] = keys.count("num_kv_heads", default=heads)
    elif keys.flag("multi_query", default=True):
        shape.fields["n_kv_heads"] = 1
    norms = 2 if grouped or not keys.flag("parallel_attn", default=True) else 1
    shape.other_params += n * norms * 2 * hidden


def learned_positions(keys: Keys, shape: Shape) -> None:
    """A learned vector per position."""
    shape.other_params += shape.number("max_position") * shape.number("hidden_size")


def opt_positions(keys: Keys, shape: Shape) -> None:
    """OPT: learned positions, two more than the context; a projected embedding is not modelled."""
    hidden = shape.number("hidden_size")
    if keys.count("word_embed_proj_dim", default=hidden) != hidden:
        raise UserError("an embedding of another width is not modelled", field="word_embed_proj_dim")
    shape.other_params += (shape.number("max_position") + 2) * hidden


def qkv_bias(keys: Keys, shape: Shape) -> None:
    """Biases of query, key and value where `use_qkv_bias` says so."""
    if keys.flag("use_qkv_bias"):
        width = (shape.number("n_heads") + 2 * shape.number("n_kv_heads")) * shape.number("head_dim")
        shape.other_params += len(shape.blocks) * width


def query_key_norm_per_head(keys: Keys, shape: Shape) -> None:
    """Command R+: norms of queries and keys with weights of their own for each head."""
    if keys.flag("use_qk_norm"):
        heads = shape.number("n_heads") + shape.number("n_kv_heads")
        shape.other_params += len(shape.blocks) * heads * shape.number("head_dim")


def multi_head_latent(keys: Keys, shape: Shape) -> None:
    """DeepSeek's multi-head latent attention."""
    nope, rope = keys.count("qk_nope_head_dim"), keys.count("qk_rope_head_dim")
    kv_rank = keys.count("kv_lora_rank")
    q_rank = keys.count("q_lora_rank", default=0)
    shape.fields |= {
        "n_kv_heads": 1,
        "kv_lora_rank": kv_rank,
        "q_lora_rank": q_rank,
        "qk_nope_dim": nope,
        "qk_rope_dim": rope,
        "head_dim": nope + rope,
        "v_head_dim": keys.count("v_head_dim"),
    }
    shape.other_params += len(shape.blocks) * (kv_rank + q_rank)  # the norms of the two ranks


def sliding_window(keys: Keys, shape: Shape) -> None:
    """A window on the layers that `layer_types` or a pattern names, or on all of them (Mistral 7B v0.1).

    A window as long as the context is none.
    """
    tokens = keys.count("sliding_window", "attention_chunk_size", default=0)
    pattern = keys.count("sliding_window_pattern", "_sliding_window_pattern", default=0)
    first = keys.count("max_window_layers", default=0)
    if not keys.flag("use_sliding_window", default=True):
        tokens = 0
    if not layer_kinds(keys, shape) and 0 < tokens < shape.number("max_position"):
        for i, block in enumerate(shape.blocks):
            every_nth_is_full = pattern > 0 and (i + 1) % pattern == 0
            block.attention = FULL if every_nth_is_full or i < first else WINDOW
    if tokens == 0 or tokens >= shape.number("max_position"):
        for block in shape.blocks:
            block.attention = FULL if block.attention == WINDOW else block.attention
    if shape.count(attention=WINDOW):
        shape.fields["window_tokens"] = tokens


def chunked_attention(keys: Keys, shape: Shape) -> None:
    """Llama 4: every n-th layer has no rotary embedding and sees everything, the others see one chunk."""
    if not layer_kinds(keys, shape):
        rotary = keys.per_layer("no_rope_layers", len(shape.blocks))
        interval = keys.count("no_rope_layer_interval", default=4)
        for i, block in enumerate(shape.blocks):
            chunked = bool(rotary[i]) if rotary else (i + 1) % interval != 0
            block.attention = WINDOW if chunked else FULL
    shape.fields["window_tokens"] = keys.count("attention_chunk_size", default=8192)


def gemma4_attention(keys: Keys, shape: Shape) -> None:
    """Gemma 4: the plain head fields are the window layers', the `global` ones the full layers'."""
    if keys.count("num_kv_shared_layers", default=0) or keys.count("hidden_size_per_layer_input", default=0):
        raise UserError("per-layer embeddings and shared KV layers are not modelled", field="model_type")
    sliding_window(keys, shape)
    local_kv, local_dim = shape.number("n_kv_heads"), shape.number("head_dim")
    full_dim = keys.count("global_head_dim", default=local_dim)
    shape.fields |= {
        "window_n_kv_heads": local_kv,
        "window_head_dim": local_dim,
        "n_kv_heads": keys.count("num_global_key_value_heads", default=local_kv),
        "head_dim": full_dim,
        "v_head_dim": full_dim,
        "k_is_v": keys.flag("attention_k_eq_v"),
    }


def mimo_v2_attention(keys: Keys, shape: Shape) -> None:
    """MiMo-V2: window layers where the pattern says 1, with KV heads of their own and a sink per head."""
    kinds = keys.per_layer("hybrid_layer_pattern", len(shape.blocks))
    if kinds is None:
        raise UserError("missing from the configuration", field="hybrid_layer_pattern")
    for block, windowed in zip(shape.blocks, kinds, strict=True):
        block.attention = WINDOW if windowed else FULL
    for own, plain in (
        ("swa_num_attention_heads", "n_heads"),
        ("swa_head_dim", "head_dim"),
        ("swa_v_head_dim", "v_head_dim"),
    ):
        if keys.count(own, default=shape.number(plain)) != shape.number(plain):
            raise UserError("window layers with other query heads are not modelled", field=own)
    shape.fields["window_n_kv_heads"] = keys.count("swa_num_key_value_heads", default=0)
    shape.fields["window_tokens"] = keys.count("sliding_window", "attention_chunk_size")
    if keys.flag("add_swa_attention_sink_bias"):
        shape.other_params += shape.count(attention=WINDOW) * shape.number("n_heads")
    if keys.flag("add_full_attention_sink_bias"):
        shape.other_params += shape.count(attention=FULL) * shape.number("n_heads")


def dsa_indexer(keys: Keys, shape: Shape) -> None:
    """DeepSeek sparse attention: an indexer picks the top-k tokens; some layers reuse another's choice."""
    n = len(shape.blocks)
    kinds = keys.per_layer("indexer_types", n)
    frequency = keys.count("index_topk_freq", default=1)
    offset = keys.count("index_skip_topk_offset", default=0)
    keys.get("index_topk_pattern")
    if any(kind != "deepseek_sparse_attention" for kind in keys.per_layer("layer_types", n) or []):
        raise UserError("other layers beside sparse attention are not modelled", field="layer_types")
    if kinds is not None:
        own = sum(kind == "full" for kind in kinds)
    elif frequency > 1:
        own = sum(i < offset or (i - offset) % frequency == frequency - 1 for i in range(n))
    else:
        own = n
    dim = keys.count("index_head_dim")
    shape.fields |= {
        "n_sparse_layers": n,
        "sparse_topk": keys.count("index_topk"),
        "n_index_layers": own,
        "index_heads": keys.count("index_n_heads"),
        "index_head_dim": dim,
    }
    shape.other_params += own * 2 * dim  # LayerNorm of the indexer's key


def block_sparse_indexer(keys: Keys, shape: Shape) -> None:
    """MiniMax-M3: an indexer picks blocks of tokens; layers where `sparse_attention_freq` is 0 see all."""
    sparse = keys.get("sparse_attention_config")
    if not isinstance(sparse, dict) or not sparse.get("use_sparse_attention"):
        return
    inner = Keys(sparse, {})
    listed = inner.per_layer("sparse_attention_freq", len(shape.blocks))
    layers = sum(bool(on) for on in listed) if listed else len(shape.blocks)
    dim = inner.count("sparse_index_dim")
    shape.fields |= {
        "n_sparse_layers": layers,
        "sparse_topk": inner.count("sparse_topk_blocks") * inner.count("sparse_block_size"),
        "n_index_layers": layers,
        "index_heads": inner.count("sparse_num_index_heads"),
        "index_head_dim": dim,
    }
    shape.other_params += layers * 2 * dim  # norms of the indexer's query and key
