"""Linear attention in Hugging Face configurations: gated delta nets (Qwen) and Mamba-2 (Nemotron-H)."""

from __future__ import annotations

from sweep.catalog.hf_experts import experts
from sweep.catalog.hf_read import Keys
from sweep.catalog.hf_shape import DENSE, FULL, LINEAR, MOE, NONE, Block, Shape, layer_kinds
from sweep.errors import UserError


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
