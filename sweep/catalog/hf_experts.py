"""Mixtures of experts in Hugging Face configurations: how many, how wide, and in which layers."""

from __future__ import annotations

from sweep.catalog.hf_read import Keys
from sweep.catalog.hf_shape import DENSE, MOE, Shape
from sweep.errors import UserError

MLP_KINDS = {"dense": DENSE, "sparse": MOE, "moe": MOE}


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
        if not isinstance(dense_only, list):
            raise UserError("not a list of layers", field="mlp_only_layers", value=dense_only)
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
