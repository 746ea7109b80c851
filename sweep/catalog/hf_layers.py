"""Readers of the features a decoder is made of: attention kinds, windows, experts, linear attention.

Each reader takes the keys of a Hugging Face configuration and fills a `Shape`. What differs between
families (which keys, which biases and norms) is in `hf_families`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sweep.catalog.hf_read import Keys
from sweep.errors import UserError

FULL, WINDOW, LINEAR, NONE = "full", "window", "linear", "none"
DENSE, MOE = "dense", "moe"

ATTENTION_KINDS = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": WINDOW,
    "chunked_attention": WINDOW,
    "linear_attention": LINEAR,
    "mamba": LINEAR,
}
MLP_KINDS = {"dense": DENSE, "sparse": MOE, "moe": MOE}


@dataclass
class Block:
    """One layer of the checkpoint: kind of its attention and of its MLP (`NONE` where it has none)."""

    attention: str = FULL
    mlp: str = DENSE


@dataclass
class Shape:
    """What readers find out: values of `model.*` fields, the layers, and parameters of no class."""

    fields: dict[str, object] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    other_params: int = 0

    def number(self, name: str) -> int:
        value = self.fields.get(name, 0)
        return value if isinstance(value, int) else 0

    def count(self, *, attention: str = "", mlp: str = "") -> int:
        """Layers of this kind of attention and of this kind of MLP."""
        return sum(
            (not attention or b.attention == attention) and (not mlp or b.mlp == mlp) for b in self.blocks
        )


def trunk(keys: Keys, shape: Shape) -> None:
    """Widths, heads, vocabulary: what every decoder has. All layers are full attention and dense."""
    hidden = keys.count("hidden_size", "n_embd", "d_model")
    heads = keys.count("num_attention_heads", "n_head", "n_heads")
    listed = keys.get("layers_block_type")
    layers = keys.count(
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        default=len(listed) if isinstance(listed, list) else None,
    )
    if not (hidden and heads and layers):
        raise UserError("hidden size, heads and layers must be positive", field="hidden_size")
    if layers > 1024:
        raise UserError("more layers than any model has", field="num_hidden_layers", value=layers)
    head_dim = keys.count("head_dim", "attention_head_dim", default=hidden // heads)
    shape.fields |= {
        "hidden_size": hidden,
        "n_layers": layers,
        "n_heads": heads,
        "n_kv_heads": keys.count("num_key_value_heads", "n_head_kv", default=heads),
        "head_dim": head_dim,
        "v_head_dim": keys.count("v_head_dim", default=head_dim),
        "vocab_size": keys.count("vocab_size"),
        "max_position": keys.count(
            "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", default=8192
        ),
        "ffn_dim": keys.count(
            "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", default=4 * hidden
        ),
    }
    shape.blocks = [Block() for _ in range(layers)]


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


def layer_kinds(keys: Keys, shape: Shape) -> bool:
    """Attention kinds from `layer_types`, where the configuration lists them."""
    kinds = keys.per_layer("layer_types", len(shape.blocks))
    if kinds is None:
        return False
    for block, kind in zip(shape.blocks, kinds, strict=True):
        if kind not in ATTENTION_KINDS:
            raise UserError(
                "this kind of layer is not modelled",
                field="layer_types",
                value=kind,
                allowed=", ".join(ATTENTION_KINDS),
            )
        block.attention = ATTENTION_KINDS[kind]
    return True


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


def experts(keys: Keys, shape: Shape) -> None:
    """Routed and shared experts, and which layers have them, by any of the usual names."""
    n_experts = keys.count("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
    width = keys.count("moe_intermediate_size", "expert_intermediate_size", default=shape.number("ffn_dim"))
    n_shared = keys.count("n_shared_experts", "num_shared_experts", default=0)
    shared = keys.count(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
        default=n_shared * width,
    )
    shape.fields |= {
        "n_experts": n_experts,
        "experts_per_token": keys.count(
            "num_experts_per_tok",
            "experts_per_token",
            "num_experts_per_token",
            "top_k_experts",
            "moe_top_k",
            "moe_k",
        ),
        "moe_ffn_dim": width,
        "shared_ffn_dim": shared,
        "moe_hidden_dim": keys.count("moe_latent_size", default=0),
    }
    _moe_layers(keys, shape)
    routing_bias = (
        keys.text("topk_method") == "noaux_tc"
        or keys.flag("use_routing_bias")
        or keys.flag("moe_router_enable_expert_bias")
    )
    if routing_bias:
        shape.other_params += shape.count(mlp=MOE) * n_experts


def _moe_layers(keys: Keys, shape: Shape) -> None:
    """MoE layers: a list, or the layers after the leading dense ones, every `step`-th, less exceptions."""
    n = len(shape.blocks)
    listed = keys.per_layer("mlp_layer_types", n)
    frequency = keys.get("moe_layer_freq")
    if listed is not None:
        kinds = [MLP_KINDS.get(str(kind), "") for kind in listed]
        if "" in kinds:
            raise UserError("this kind of MLP is not modelled", field="mlp_layer_types")
    elif isinstance(frequency, list):
        kinds = [MOE if on else DENSE for on in keys.per_layer("moe_layer_freq", n) or []]
    else:
        leading = keys.count("first_k_dense_replace", "moe_layer_start_index", default=0)
        step = keys.count("moe_layer_freq", "decoder_sparse_step", "moe_layer_interval", default=1)
        if step == 0:
            raise UserError("must be positive", field="moe_layer_freq", value=step)
        offset = 1 if keys.get("decoder_sparse_step") is not None else 0
        dense_only = keys.get("mlp_only_layers") or []
        kinds = [
            MOE if i >= leading and (i + offset) % step == 0 and i not in dense_only else DENSE
            for i in range(n)
        ]
    for block, kind in zip(shape.blocks, kinds, strict=True):
        block.mlp = kind


def llama4_experts(keys: Keys, shape: Shape) -> None:
    """Llama 4: `intermediate_size` is the experts' and the one shared expert's, `_mlp` the dense layers'."""
    width = shape.number("ffn_dim")
    step = keys.count("interleave_moe_layer_step", default=1)
    listed = keys.get("moe_layers")
    shape.fields |= {
        "n_experts": keys.count("num_local_experts"),
        "experts_per_token": keys.count("num_experts_per_tok"),
        "moe_ffn_dim": width,
        "shared_ffn_dim": width,
        "ffn_dim": keys.count("intermediate_size_mlp"),
    }
    for i, block in enumerate(shape.blocks):
        is_moe = i in listed if isinstance(listed, list) else step > 0 and (i + 1) % step == 0
        block.mlp = MOE if is_moe else DENSE


def gemma4_experts(keys: Keys, shape: Shape) -> None:
    """Gemma 4 MoE: each layer has a dense MLP and experts side by side; the dense one counts as shared."""
    if not keys.flag("enable_moe_block"):
        keys.get("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
        return
    dense = shape.number("ffn_dim")
    experts(keys, shape)
    shape.fields["shared_ffn_dim"] = dense
    # three more norms; the router's input scale, and a scale per expert
    hidden, n_experts = shape.number("hidden_size"), shape.number("n_experts")
    shape.other_params += len(shape.blocks) * (4 * hidden + n_experts)


def minimax_m3_experts(keys: Keys, shape: Shape) -> None:
    """MiniMax-M3: `intermediate_size` is the experts'; the leading dense layers have their own."""
    experts(keys, shape)
    shape.fields["ffn_dim"] = keys.count("dense_intermediate_size")


def shared_expert_gate(keys: Keys, shape: Shape) -> None:
    """Qwen MoE: a gate of one value scales the shared expert's output."""
    if shape.number("shared_ffn_dim"):
        shape.other_params += shape.count(mlp=MOE) * shape.number("hidden_size")


def gated_delta_net(keys: Keys, shape: Shape) -> None:
    """Qwen3-Next and Qwen3.5: three of four layers are gated delta nets, attention has an output gate."""
    interval = keys.count("full_attention_interval", default=4)
    if not layer_kinds(keys, shape):
        for i, block in enumerate(shape.blocks):
            block.attention = FULL if (i + 1) % interval == 0 else LINEAR
    k_heads, v_heads = keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads")
    k_dim, v_dim = keys.count("linear_key_head_dim"), keys.count("linear_value_head_dim")
    kernel = keys.count("linear_conv_kernel_dim", default=4)
    shape.fields |= {
        "linear_k_heads": k_heads,
        "linear_v_heads": v_heads,
        "linear_k_dim": k_dim,
        "linear_v_dim": v_dim,
        "linear_conv_kernel": kernel,
        # The public configurations keep the recurrent state in the type that this names.
        "linear_state_dtype": keys.text("mamba_ssm_dtype", default="bfloat16"),
        "attn_output_gate": keys.flag("attn_output_gate", default=True),
    }
    # convolution over q, k and v; projections of the two gates per value head; decay and its bias; the norm
    per_layer = (2 * k_heads * k_dim + v_heads * v_dim) * kernel
    per_layer += 2 * v_heads * shape.number("hidden_size") + 2 * v_heads + v_dim
    shape.other_params += shape.count(attention=LINEAR) * per_layer


NEMOTRON_BLOCKS = {
    "M": Block(LINEAR, NONE),
    "*": Block(FULL, NONE),
    "-": Block(NONE, DENSE),
    "E": Block(NONE, MOE),
    "mamba": Block(LINEAR, NONE),
    "attention": Block(FULL, NONE),
    "mlp": Block(NONE, DENSE),
    "moe": Block(NONE, MOE),
}


def nemotron_h_blocks(keys: Keys, shape: Shape) -> None:
    """Nemotron-H: a block is a Mamba-2 mixer, an attention, an MLP or experts; never two of them."""
    kinds = keys.get("hybrid_override_pattern", "layers_block_type")
    if not isinstance(kinds, str | list) or not all(str(k) in NEMOTRON_BLOCKS for k in kinds):
        raise UserError(
            "not a pattern of Mamba, attention, MLP and expert blocks", field="hybrid_override_pattern"
        )
    if keys.count("num_hidden_layers", default=len(kinds)) != len(kinds):
        raise UserError(f"names {len(kinds)} blocks", field="hybrid_override_pattern")
    shape.blocks = [Block(b.attention, b.mlp) for b in (NEMOTRON_BLOCKS[str(k)] for k in kinds)]
    hidden, v_heads = shape.number("hidden_size"), keys.count("mamba_num_heads")
    v_dim, groups, state = keys.count("mamba_head_dim"), keys.count("n_groups"), keys.count("ssm_state_size")
    kernel = keys.count("conv_kernel", default=4)
    shape.fields |= {
        "linear_k_heads": groups,
        "linear_v_heads": v_heads,
        "linear_k_dim": state,
        "linear_v_dim": v_dim,
        "linear_conv_kernel": kernel,
        "linear_state_dtype": keys.text("mamba_ssm_cache_dtype", default="bfloat16"),
    }
    # convolution with its bias; time-step projection; decay, skip and time-step bias; the gated norm
    channels = v_heads * v_dim + 2 * groups * state
    per_layer = channels * (kernel + 1) + hidden * v_heads + 3 * v_heads + v_heads * v_dim
    shape.other_params += shape.count(attention=LINEAR) * per_layer


def nemotron_h_experts(keys: Keys, shape: Shape) -> None:
    """Nemotron-H experts, where its blocks have them; the router has a correction bias."""
    if not shape.count(mlp=MOE):
        return
    blocks = [Block(b.attention, b.mlp) for b in shape.blocks]
    experts(keys, shape)
    shape.blocks = blocks
    shape.other_params += shape.count(mlp=MOE) * shape.number("n_experts")


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
