"""Number formats (group `precision`). Auto means the checkpoint's own, class by class."""

from __future__ import annotations

from kernels.dtypes import NAMES as DTYPES
from sweep.fields.spec import Field

_Q = "In which precision?"


def _dtype(key: str, doc: str, auto: str) -> Field:
    return Field(key=f"precision.{key}", doc=doc, kind="choice", choices=DTYPES, auto=auto, question=_Q)


FIELDS = (
    Field(
        key="precision.name",
        doc="Name of the precision preset as results show it.",
        kind="text",
        default="checkpoint",
        question=_Q,
        column=False,
    ),
    _dtype(
        "linear_dtype",
        "Weights of attention projections, dense MLPs and shared experts.",
        "the checkpoint's own formats",
    ),
    _dtype(
        "attn_dtype",
        "Weights of the attention projections alone, where they differ from the linears.",
        "linear_dtype",
    ),
    _dtype(
        "expert_dtype",
        "Weights of the routed experts.",
        "linear_dtype where the checkpoint is 16 bit and linear_dtype is given; else the checkpoint's own",
    ),
    _dtype("shared_dtype", "Weights of the shared experts.", "linear_dtype"),
    _dtype("head_dtype", "Weights of the LM head.", "the checkpoint's own"),
    _dtype("embed_dtype", "Weights of the embedding.", "the checkpoint's own"),
    _dtype("router_dtype", "Weights of the router.", "the checkpoint's own"),
    _dtype("kv_cache_dtype", "KV cache.", "what the checkpoint asks for, else 16 bit"),
    _dtype("activation_dtype", "Activations outside low-precision GEMMs.", "bfloat16"),
)
