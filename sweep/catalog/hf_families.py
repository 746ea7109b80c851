"""Which features each Hugging Face `model_type` has, and the small parameters that no matrix shows.

A type that is not here is refused by name. Counts of norms and biases were read off the modelling
code of each family; the catalogue's test holds the totals to the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.catalog import hf_attention as attention
from sweep.catalog import hf_experts as moe
from sweep.catalog import hf_linear as linear
from sweep.catalog.hf_read import Keys
from sweep.catalog.hf_shape import Shape

Reader = Callable[[Keys, Shape], None]


@dataclass(frozen=True)
class Names:
    """Where a layer keeps its modules, as quantisation lists name them."""

    attention: str = "self_attn"
    linear: str = "linear_attn"
    mlp: str = "mlp"
    experts: str = "mlp.experts"
    shared: str = "mlp.shared_experts"
    router: str = "mlp.gate"


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type`.

    `norms` counts norm vectors of hidden width per layer; `qk_norm` is "head" (one head wide, shared),
    "width" (as wide as the projection) or "". `attention_bias` says which projections have one: "qkv",
    "qkvo", "" or "config" (the key `attention_bias` decides, for all four).
    """

    label: str
    readers: tuple[Reader, ...] = ()
    norms: float = 2.0
    layer_norm: bool = False
    qk_norm: str = ""
    attention_bias: str = "config"
    mlp_bias: bool = False
    expert_bias: bool = False
    head_bias: bool = False
    attention_sinks: bool = False
    mlp_matrices: int = 3
    tied: bool = False
    names: Names = field(default_factory=Names)
    defaults: Mapping[str, Any] = field(default_factory=dict)


BLOCK_SPARSE = Names(
    experts="block_sparse_moe.experts",
    shared="block_sparse_moe.shared_experts",
    router="block_sparse_moe.gate",
)
ONE_SHARED = Names(shared="mlp.shared_expert")

_QWEN_MOE = (attention.sliding_window, moe.experts, moe.shared_expert_gate)
_QWEN3_HYBRID = (linear.gated_delta_net,)
_DEEPSEEK = (attention.multi_head_latent, moe.experts)

FAMILIES: dict[str, Family] = {
    # plain decoders
    "llama": Family(label="llama", readers=(attention.sliding_window,)),
    "mistral": Family(label="mistral", readers=(attention.sliding_window,)),
    "granite": Family(label="granite"),
    "mimo": Family(
        label="mimo",
        readers=(attention.sliding_window,),
        attention_bias="qkv",
        defaults={"use_sliding_window": False},
    ),
    "qwen2": Family(
        label="qwen",
        readers=(attention.sliding_window,),
        attention_bias="qkv",
        defaults={"use_sliding_window": False},
    ),
    "qwen2_5_vl_text": Family(
        label="qwen",
        readers=(attention.sliding_window,),
        attention_bias="qkv",
        defaults={"use_sliding_window": False},
    ),
    "qwen3": Family(
        label="qwen",
        readers=(attention.sliding_window,),
        qk_norm="head",
        defaults={"use_sliding_window": False},
    ),
    "qwen3_vl_text": Family(label="qwen", qk_norm="head"),
    "seed_oss": Family(label="seed", attention_bias="qkv"),
    "smollm3": Family(label="smollm", readers=(attention.sliding_window,)),
    "olmo2": Family(label="olmo", qk_norm="width"),
    "phi": Family(
        label="phi",
        norms=1,
        layer_norm=True,
        attention_bias="qkvo",
        mlp_bias=True,
        head_bias=True,
        mlp_matrices=2,
    ),
    "phi3": Family(label="phi", readers=(attention.sliding_window,)),
    "gemma": Family(label="gemma", tied=True),
    "gemma2": Family(
        label="gemma",
        readers=(attention.sliding_window,),
        norms=4,
        tied=True,
        defaults={"sliding_window_pattern": 2},
    ),
    "gemma3_text": Family(
        label="gemma",
        readers=(attention.sliding_window,),
        norms=4,
        qk_norm="head",
        tied=True,
        # what google/gemma-3-*-it leave to the library's defaults
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 262208,
            "max_position_embeddings": 131072,
            "sliding_window_pattern": 6,
        },
    ),
    "gemma4_text": Family(
        label="gemma",
        readers=(attention.gemma4_attention, moe.gemma4_experts),
        norms=4,
        qk_norm="head",
        tied=True,
        names=Names(experts="experts", shared="mlp", router="router"),
    ),
    "starcoder2": Family(
        label="starcoder",
        readers=(attention.sliding_window,),
        layer_norm=True,
        attention_bias="qkvo",
        mlp_bias=True,
        mlp_matrices=2,
        tied=True,
    ),
    "stablelm": Family(label="stablelm", layer_norm=True, readers=(attention.qkv_bias,)),
    "internlm2": Family(label="internlm"),
    "cohere": Family(label="cohere", norms=1, tied=True, readers=(attention.query_key_norm_per_head,)),
    "cohere2": Family(
        label="cohere",
        norms=1,
        tied=True,
        readers=(attention.sliding_window,),
        defaults={"sliding_window_pattern": 4},
    ),
    "falcon": Family(
        label="falcon", readers=(attention.falcon_heads,), norms=0, layer_norm=True, mlp_matrices=2, tied=True
    ),
    "gpt_neox": Family(
        label="gpt_neox", layer_norm=True, attention_bias="qkvo", mlp_bias=True, mlp_matrices=2
    ),
    "gpt2": Family(
        label="gpt2",
        readers=(attention.learned_positions,),
        layer_norm=True,
        attention_bias="qkvo",
        mlp_bias=True,
        mlp_matrices=2,
        tied=True,
    ),
    "gpt_bigcode": Family(
        label="starcoder",
        readers=(attention.multi_query, attention.learned_positions),
        layer_norm=True,
        attention_bias="qkvo",
        mlp_bias=True,
        mlp_matrices=2,
        tied=True,
    ),
    "opt": Family(
        label="opt",
        readers=(attention.opt_positions,),
        layer_norm=True,
        attention_bias="qkvo",
        mlp_bias=True,
        mlp_matrices=2,
        tied=True,
    ),
    # mixtures of experts
    "mixtral": Family(label="mistral", readers=(attention.sliding_window, moe.experts), names=BLOCK_SPARSE),
    "phimoe": Family(
        label="phi",
        readers=(attention.sliding_window, moe.experts),
        layer_norm=True,
        attention_bias="config",
        head_bias=True,
        names=BLOCK_SPARSE,
    ),
    "granitemoe": Family(label="granite", readers=(moe.experts,), names=BLOCK_SPARSE),
    "olmoe": Family(label="olmo", readers=(moe.experts,), qk_norm="width"),
    "qwen2_moe": Family(
        label="qwen",
        readers=_QWEN_MOE,
        attention_bias="qkv",
        names=ONE_SHARED,
        defaults={"use_sliding_window": False},
    ),
    "qwen3_moe": Family(
        label="qwen",
        readers=(attention.sliding_window, moe.experts),
        qk_norm="head",
        defaults={"use_sliding_window": False},
    ),
    "qwen3_vl_moe_text": Family(label="qwen", readers=(moe.experts,), qk_norm="head"),
    "glm4_moe": Family(
        label="glm",
        readers=(moe.experts,),
        attention_bias="qkv",
        defaults={"topk_method": "noaux_tc"},
    ),
    "minimax_m2": Family(label="minimax", readers=(moe.experts,), qk_norm="width", names=BLOCK_SPARSE),
    "minimax_m3": Family(
        label="minimax",
        readers=(moe.minimax_m3_experts, attention.block_sparse_indexer),
        qk_norm="head",
        names=BLOCK_SPARSE,
    ),
    "gpt_oss": Family(
        label="gpt_oss",
        readers=(attention.sliding_window, moe.experts),
        attention_bias="qkvo",
        expert_bias=True,
        attention_sinks=True,
        names=Names(router="mlp.router"),
    ),
    "llama4_text": Family(
        label="llama",
        readers=(attention.chunked_attention, moe.llama4_experts),
        names=Names(
            mlp="feed_forward",
            experts="feed_forward.experts",
            shared="feed_forward.shared_expert",
            router="feed_forward.router",
        ),
    ),
    "mimo_v2_flash": Family(label="mimo", readers=(attention.mimo_v2_attention, moe.experts)),
    # latent attention
    "deepseek_v2": Family(label="deepseek", readers=_DEEPSEEK),
    "deepseek_v3": Family(label="deepseek", readers=_DEEPSEEK),
    "glm4_moe_lite": Family(label="glm", readers=_DEEPSEEK, defaults={"topk_method": "noaux_tc"}),
    "kimi_k2": Family(label="kimi", readers=_DEEPSEEK),
    "deepseek_v32": Family(label="deepseek", readers=(*_DEEPSEEK, attention.dsa_indexer)),
    "glm_moe_dsa": Family(label="glm", readers=(*_DEEPSEEK, attention.dsa_indexer)),
    # linear attention
    "qwen3_next": Family(
        label="qwen",
        readers=(*_QWEN3_HYBRID, moe.experts, moe.shared_expert_gate),
        qk_norm="head",
        names=ONE_SHARED,
    ),
    "qwen3_5_text": Family(label="qwen", readers=_QWEN3_HYBRID, qk_norm="head"),
    "qwen3_5_moe_text": Family(
        label="qwen",
        readers=(*_QWEN3_HYBRID, moe.experts, moe.shared_expert_gate),
        qk_norm="head",
        names=ONE_SHARED,
    ),
    "nemotron_h": Family(
        label="nemotron",
        readers=(linear.nemotron_h_blocks, linear.nemotron_h_experts),
        norms=1,
        mlp_matrices=2,
        names=Names(
            attention="mixer",
            linear="mixer",
            mlp="mixer",
            experts="mixer.experts",
            shared="mixer.shared_experts",
            router="mixer.gate",
        ),
    ),
}

SAME_TYPE = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen2_vl": "qwen2_5_vl_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "minimax_m3_vl": "minimax_m3",
    "kimi_k25": "kimi_k2",
    "mistral3": "mistral",
}
"""Other spellings of a type (a multimodal model's own, for its text part without one)."""

STRUCTURAL_KEYS = frozenset(
    """
    alt_up altup_num_inputs attn_layer_period attn_res_block_size attention_k_eq_v block_configs
    compress_ratios cross_attention_layers encoder_layers enable_moe_block expert_layer_period
    full_attention_interval global_head_dim hc_mult hidden_size_per_layer_input hybrid_layer_pattern
    hybrid_override_pattern index_topk indexer_types is_encoder_decoder kv_lora_rank laurel_rank layer_types
    layers_block_type linear_attn_config linear_num_key_heads mamba_num_heads mamba_d_state
    moe_intermediate_size moe_latent_size moe_num_experts n_routed_experts n_shared_experts num_experts
    num_hash_layers num_kv_shared_layers num_local_experts num_shared_experts o_lora_rank q_lora_rank
    routed_expert_hidden_size shared_expert_intermediate_size sliding_window attention_chunk_size
    sparse_attention_config ssm_state_size swa_num_key_value_heads use_double_wide_mlp
    """.split()
)
"""Keys that change the architecture: one that is set and that the family's readers do not know is refused."""
