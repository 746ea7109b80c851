"""Architecture of the served model (group `model`).

A catalogue YAML sets these, a Hugging Face config.json can (`model.path`), and each of them
can be swept on its own ("what if the model had half the KV heads?").
"""

from __future__ import annotations

from kernels.dtypes import NAMES as DTYPES
from sweep.fields.columns import EVERYTHING, FIT, SPEED
from sweep.fields.spec import Field

_Q = "Which model?"


def _count(key: str, doc: str, default: int = 0, *, low: float = 0, unit: str = "") -> Field:
    return Field(
        key=f"model.{key}",
        doc=doc,
        kind="int",
        default=default,
        low=low,
        unit=unit,
        question=_Q,
        moves=EVERYTHING,
    )


def _width(key: str, of: str) -> Field:
    return Field(
        key=f"model.{key}",
        doc=f"Bytes per parameter of the {of} as stored, scales included, where the class mixes formats or "
        "groups; holds while the class keeps the checkpoint's format.",
        kind="float",
        low=0,
        unit="bytes",
        auto="the format's own width",
        question=_Q,
        moves=(*FIT, *SPEED),
    )


def _checkpoint(key: str, doc: str) -> Field:
    return Field(
        key=f"model.{key}",
        doc=doc,
        kind="choice",
        default="bfloat16",
        choices=DTYPES,
        question=_Q,
        moves=EVERYTHING,
    )


FIELDS = (
    Field(
        key="model.name",
        doc="Name of the model as results show it. Moves nothing: a label.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="model.model_family",
        doc="Model family, to group results. Moves nothing: a label.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="model.path",
        doc="A Hugging Face config.json to read the architecture from.",
        kind="path",
        question=_Q,
        column=False,
        auto="the catalogue entry",
        moves=EVERYTHING,
    ),
    Field(
        key="model.source",
        doc="Where the architecture's figures come from. Moves nothing: provenance.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="model.hf_ids",
        doc="Hugging Face ids of checkpoints with this architecture in these formats, separated by commas. Moves nothing: names.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    _count("hidden_size", "Width of the residual stream.", low=1, default=4096),
    _count("n_layers", "Transformer layers.", low=1, default=32),
    _count("n_heads", "Query heads of an attention layer.", low=1, default=32),
    _count("n_kv_heads", "Key/value heads of a full-attention layer; 1 for MLA.", low=1, default=8),
    _count("head_dim", "Width of a query/key head (MLA: nope + rope part).", low=1, default=128),
    _count("v_head_dim", "Width of a value head.", low=1, default=128),
    _count("vocab_size", "Rows of the embedding and of the LM head.", low=1, default=128256),
    _count("max_position", "Longest context the checkpoint supports.", low=1, default=131072, unit="tokens"),
    _count("ffn_dim", "Width of the MLP of a dense layer.", default=14336),
    _count(
        "mlp_matrices", "Matrices of an MLP: 3 for a gated MLP (SwiGLU, GeGLU), else 2.", default=3, low=2
    ),
    Field(
        key="model.tied_embeddings",
        doc="Whether the LM head shares the embedding's matrix.",
        kind="bool",
        default=False,
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    Field(
        key="model.attn_output_gate",
        doc="Whether the query projection also makes an output gate (twice the width).",
        kind="bool",
        default=False,
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    # Mixture of experts
    _count("n_moe_layers", "Layers whose MLP is a mixture of experts; the others are dense."),
    _count("n_experts", "Routed experts of a MoE layer."),
    _count("experts_per_token", "Routed experts that a token visits."),
    _count("moe_ffn_dim", "Width of one routed expert."),
    _count(
        "shared_ffn_dim",
        "Total width of what every token visits in a MoE layer: shared experts, or a dense MLP beside the experts.",
    ),
    _count(
        "moe_hidden_dim",
        "Width that routed experts read and write where projections narrow it first (latent MoE); 0 = hidden_size.",
    ),
    _count(
        "n_mlp_free_layers", "Layers with attention but no MLP (Nemotron-H); neither dense nor MoE layers."
    ),
    # Multi-head latent attention
    _count("kv_lora_rank", "MLA: rank of the compressed KV; 0 for MHA/GQA."),
    _count("q_lora_rank", "MLA: rank of the compressed query; 0 where the query is not compressed."),
    _count("qk_rope_dim", "MLA: rotary part of a query/key head."),
    _count("qk_nope_dim", "MLA: part of a query/key head without rotary embedding."),
    # Windows
    _count("n_window_layers", "Attention layers bounded by a sliding (or chunked) window."),
    _count("window_tokens", "Length of that window; 0 for none.", unit="tokens"),
    _count("window_n_kv_heads", "KV heads of window layers where they differ; 0 = n_kv_heads."),
    _count("window_head_dim", "Head width of window layers where it differs; 0 = head_dim."),
    _count("n_kv_shared_layers", "Last layers that reuse an earlier layer's KV cache (Gemma 3n/4)."),
    Field(
        key="model.k_is_v",
        doc="Whether full-attention layers use one projection for key and value (Gemma 4); both are cached.",
        kind="bool",
        default=False,
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    # Linear attention (gated delta net, lightning attention, Mamba-like)
    _count(
        "n_linear_layers", "Layers with linear attention: a fixed state per request instead of a KV cache."
    ),
    _count("linear_k_heads", "Linear attention: key heads."),
    _count("linear_v_heads", "Linear attention: value heads."),
    _count("linear_k_dim", "Linear attention: width of a key head."),
    _count("linear_v_dim", "Linear attention: width of a value head."),
    _count("linear_conv_kernel", "Linear attention: length of the short convolution; 0 for none."),
    Field(
        key="model.linear_state_dtype",
        doc="Format of the linear-attention state in the cache.",
        kind="choice",
        default="bfloat16",
        choices=DTYPES,
        question=_Q,
        moves=(*FIT, *SPEED, "kv_transfer_ms"),
    ),
    # Sparse attention with an indexer (DeepSeek-V3.2, GLM-5)
    _count("n_sparse_layers", "Layers whose attention reads only the top-k tokens that an indexer picks."),
    _count("sparse_topk", "Tokens that sparse attention reads per query.", unit="tokens"),
    _count(
        "n_index_layers",
        "Layers with an indexer of their own; other sparse layers reuse its choice (GLM-5.2).",
    ),
    _count("index_heads", "Heads of the indexer."),
    _count("index_head_dim", "Width of an indexer head (one cached vector per token)."),
    _count(
        "n_mtp_layers",
        "Multi-token-prediction layers in the checkpoint; engines load them only to speculate.",
    ),
    Field(
        key="model.other_params",
        doc="Parameters in no other class (norms, biases, convolution, sinks), whole model.",
        kind="float",
        default=0.0,
        low=0,
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    Field(
        key="model.encoder_params",
        doc="Parameters of a vision or audio encoder that engines load beside the text model (16 bit); memory only.",
        kind="float",
        default=0.0,
        low=0,
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    Field(
        key="model.published_params",
        doc="Total parameters as published, to check the count against. Moves nothing: a check.",
        kind="float",
        default=None,
        auto="not published",
        low=0,
        high=1e15,
        question=_Q,
        column=False,
    ),
    # How the checkpoint stores each weight class ("auto" precision means these)
    _checkpoint("checkpoint_attn", "Format of the attention projections in the checkpoint."),
    _checkpoint("checkpoint_mlp", "Format of dense MLPs in the checkpoint."),
    _checkpoint("checkpoint_experts", "Format of the routed experts in the checkpoint."),
    _checkpoint("checkpoint_shared", "Format of the shared experts in the checkpoint."),
    _checkpoint("checkpoint_router", "Format of the router in the checkpoint."),
    _checkpoint("checkpoint_embed", "Format of the embedding in the checkpoint."),
    _checkpoint("checkpoint_head", "Format of the LM head in the checkpoint."),
    _width("checkpoint_attn_width", "attention projections"),
    _width("checkpoint_mlp_width", "dense MLPs"),
    _width("checkpoint_experts_width", "routed experts"),
    _width("checkpoint_shared_width", "shared experts"),
    _checkpoint(
        "checkpoint_kv", "KV cache format that the checkpoint asks for (bfloat16 where it says nothing)."
    ),
)
