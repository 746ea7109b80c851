"""Number formats (group `precision`). Auto means the checkpoint's own, class by class."""

from __future__ import annotations

from kernels.dtypes import NAMES as DTYPES
from sweep.fields.columns import EVERYTHING, KV, SPEED
from sweep.fields.spec import Field, Seed, Specification

_Q = "In which precision?"
CASTS = ("none", "bfloat16", "fp8", "mxfp4", "nvfp4")
"""Order is that of `kernels.cast.CAST_WIDTH_BYTES`."""


def _seeds(specification: Specification, flag: str) -> tuple[Seed, ...]:
    return (Seed(specification, flag),) if flag else ()


def _dtype(
    key: str,
    doc: str,
    auto: str,
    seed: str = "",
    *,
    simulated: str = "",
    moves: tuple[str, ...] = EVERYTHING,
    regime: bool = False,
) -> Field:
    return Field(
        key=f"precision.{key}",
        doc=doc,
        kind="choice",
        choices=DTYPES,
        auto=auto,
        question=_Q,
        seeds=(*_seeds("inferasim", seed), *_seeds("llmservingsim", simulated)),
        moves=moves,
        regime=regime,
    )


FIELDS = (
    Field(
        key="precision.name",
        doc="Name of the precision preset as results show it. Moves nothing: a label.",
        kind="text",
        default="checkpoint",
        question=_Q,
        column=False,
    ),
    _dtype(
        "weight_dtype",
        "Precision of the resident weights: linears and experts follow it where they are not given themselves, except "
        "that a 4-bit format means the experts of a MoE model only; embedding, LM head and router keep theirs.",
        "the checkpoint's own formats",
        "--weight-dtype",
        simulated="--dtype",
        regime=True,
    ),
    _dtype(
        "linear_dtype",
        "Weights of attention projections, dense MLPs and shared experts: in memory and in time.",
        "weight_dtype, else the checkpoint's own formats",
        "--linear-weight-dtype",
    ),
    _dtype(
        "attn_dtype",
        "Weights of the attention projections alone, where they differ from the linears.",
        "linear_dtype",
    ),
    _dtype(
        "expert_dtype",
        "Weights of the routed experts: in memory and in time.",
        "weight_dtype; else linear_dtype where the checkpoint is 16 bit and linear_dtype is given; else the checkpoint's own",
        "--moe-expert-dtype",
    ),
    _dtype("shared_dtype", "Weights of the shared experts.", "linear_dtype"),
    _dtype("head_dtype", "Weights of the LM head.", "the checkpoint's own"),
    _dtype("embed_dtype", "Weights of the embedding.", "the checkpoint's own"),
    _dtype("router_dtype", "Weights of the router.", "the checkpoint's own"),
    _dtype(
        "kv_cache_dtype",
        "KV cache: its size and what decode attention reads.",
        "what the checkpoint asks for, else 16 bit",
        "--kv-cache-dtype",
        simulated="--kv-cache-dtype",
        moves=(*KV, "reason", *SPEED, "kv_transfer_ms"),
        regime=True,
    ),
    _dtype(
        "activation_dtype", "Activations outside low-precision GEMMs.", "bfloat16", moves=(*SPEED, "reason")
    ),
    Field(
        key="precision.act_quant_dtype",
        doc="Format that activations are cast to before a low-precision GEMM: a pass over memory per GEMM input; none and "
        "bfloat16 take the cast away.",
        kind="choice",
        choices=CASTS,
        auto="the cast inside the fitted GEMM times of low-precision weights",
        question=_Q,
        seeds=(Seed("inferasim", "--act-quant-dtype"),),
        moves=SPEED,
    ),
)
