"""How far attention looks back, where the user overrides the architecture (group `attention`)."""

from __future__ import annotations

from sweep.fields.columns import FIT, SPEED
from sweep.fields.spec import Field, Seed

_A = "How does attention look back?"

FIELDS = (
    Field(
        key="attention.sliding_window",
        doc="Window to assume instead of the architecture's: tokens attended in window layers; 0 = full attention everywhere.",
        kind="int",
        low=0,
        unit="tokens",
        auto="the architecture's",
        question=_A,
        seeds=(Seed("inferasim", "--sliding-window"),),
        moves=(*FIT, *SPEED, "kv_transfer_ms"),
    ),
    Field(
        key="attention.sliding_window_layer_fraction",
        doc="Share of the attention layers that have the window, for models that interleave local and global layers.",
        kind="float",
        low=0,
        high=1,
        auto="the architecture's window layers; all layers where it has none",
        question=_A,
        seeds=(Seed("inferasim", "--sliding-window-layer-fraction"),),
        moves=(*FIT, *SPEED, "kv_transfer_ms"),
    ),
    Field(
        key="attention.sparse_attention_topk",
        doc="Tokens that sparse attention reads per query, instead of the architecture's; 0 = dense. Never shrinks the KV cache.",
        kind="int",
        low=0,
        unit="tokens",
        auto="the architecture's",
        question=_A,
        seeds=(Seed("inferasim", "--sparse-attention-topk", default=None),),
        moves=SPEED,
    ),
)
