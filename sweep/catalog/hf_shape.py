"""The shape of a decoder as its Hugging Face configuration tells it: widths, and the kinds of its layers.

Readers (`hf_attention`, `hf_experts`, `hf_linear`) take the keys of a configuration and fill a `Shape`; which readers
a family needs is in `hf_families`.
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
