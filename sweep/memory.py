"""What one deployment does with GPU memory: the account, its verdict, and the smallest change that would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.fields import by_name, encode
from sweep.fields.engine import ENGINES

WEIGHT_CLASSES = ("attn", "mlp", "experts", "shared", "router", "embed", "head", "other")
HIGHEST_FRACTION = 0.97
"""Beyond this share of GPU memory engines run out of it at start-up (context, graphs, fragmentation)."""
WIDEST_TP = 1024
NARROWER = (
    ("linear_dtype", "fp8", "attention projections and MLPs"),
    ("expert_dtype", "fp8", "routed experts"),
    ("linear_dtype", "nvfp4", "attention projections and MLPs"),
    ("expert_dtype", "nvfp4", "routed experts"),
    ("head_dtype", "fp8", "the LM head"),
    ("embed_dtype", "fp8", "the embedding"),
)
"""Weight classes that a narrower format could shrink, the mildest change first."""

Record = npt.NDArray[Any]


@dataclass(frozen=True)
class MemoryAccount:
    """Memory of the GPU that limits a deployment, GiB per GPU unless a name says otherwise."""

    engine: str
    hbm_gib: float
    memory_fraction: float
    usable_gib: float
    weights_gib: float
    weights_by_class_gib: dict[str, float]
    activation_gib: float
    non_torch_gib: float
    comm_buffer_gib: float
    graph_gib: float
    kv_pool_gib: float
    kv_bytes_per_token: float
    kv_bytes_per_request: float
    kv_capacity_tokens: float
    """What one engine (one DP rank) prints as its KV cache size."""
    kv_capacity_tokens_total: float
    kv_offload_tokens: float
    max_concurrency: float
    """Requests of `max_model_len` that one DP rank holds, as the engine counts them."""
    max_model_len: float
    min_memory_fraction: float
    """Smallest memory fraction whose KV pool holds one request of `max_model_len`."""
    fits: bool
    verdict: str
    remedies: tuple[str, ...]
    """Single changes that would make it fit, the smallest first; empty where it fits or nothing does."""


def account(record: Record) -> MemoryAccount:
    """The memory account of one input record (dtype `record_dtype()`, shape () or (1,)).

    Formulas and sources: kernels.memory and docs/memory.md.
    """
    from kernels.reasons import TEXT
    from kernels.units import GIB

    derived = _resolve(record, enforce=True)
    reason = int(derived["reason"])
    gib = {name: float(derived[f"{name}_bytes"]) / GIB for name in _BYTES}
    values = {name: float(derived[name]) for name in _FIGURES}
    return MemoryAccount(
        engine=ENGINES[int(_one(record)["engine"])],
        hbm_gib=float(_one(record)["hbm_gib"]),
        usable_gib=gib["usable"],
        weights_gib=gib["weights"],
        weights_by_class_gib={c: float(derived[f"weights_{c}_bytes"]) / GIB for c in WEIGHT_CLASSES},
        activation_gib=gib["activation"],
        non_torch_gib=gib["non_torch"],
        comm_buffer_gib=gib["comm_buffer"],
        graph_gib=gib["graph"],
        kv_pool_gib=gib["kv_pool"],
        fits=reason == 0,
        verdict=TEXT[reason] or "fits",
        remedies=tuple(_remedies(record)) if _is_memory(reason) else (),
        **values,
    )


_BYTES = ("usable", "weights", "activation", "non_torch", "comm_buffer", "graph", "kv_pool")
_FIGURES = (
    "memory_fraction",
    "kv_bytes_per_token",
    "kv_bytes_per_request",
    "kv_capacity_tokens",
    "kv_capacity_tokens_total",
    "kv_offload_tokens",
    "max_concurrency",
    "max_model_len",
    "min_memory_fraction",
)


def explained(memory: MemoryAccount) -> str:
    """The account as lines for a person."""
    classes = ", ".join(f"{c} {g:.2f}" for c, g in memory.weights_by_class_gib.items() if g >= 0.005)
    lines = [
        f"GPU memory   {memory.hbm_gib:8.2f} GiB, {memory.engine} at fraction {memory.memory_fraction:.3f}: "
        f"{memory.usable_gib:.2f} GiB",
        f"weights      {memory.weights_gib:8.2f} GiB ({classes})",
        f"activations  {memory.activation_gib:8.2f} GiB peak",
        f"reserve      {memory.non_torch_gib + memory.comm_buffer_gib + memory.graph_gib:8.2f} GiB "
        f"(non-torch {memory.non_torch_gib:.2f}, communication {memory.comm_buffer_gib:.2f}, graphs {memory.graph_gib:.2f})",
        f"KV pool      {memory.kv_pool_gib:8.2f} GiB: {memory.kv_capacity_tokens:,.0f} tokens per engine as it prints them, "
        f"{memory.max_concurrency:.2f} requests of {memory.max_model_len:,.0f} tokens",
        f"per token    {memory.kv_bytes_per_token:8,.0f} B per GPU"
        + (f", and {memory.kv_bytes_per_request:,.0f} B per request" if memory.kv_bytes_per_request else ""),
        f"verdict      {memory.verdict}; one request needs fraction {memory.min_memory_fraction:.3f}",
    ]
    lines += [f"would fit    {remedy}" for remedy in memory.remedies]
    return "\n".join(lines)


def pool_record(record: Record, pool: str) -> Record:
    """The record of one of the split pools ("prefill", "decode") with its own shape; the record itself where they are not split."""
    if not record["disaggregate"][0]:
        return record
    own = record.copy()
    for name in ("tp", "pp", "attention_dp", "moe_ep", "moe_tp"):
        width = record[f"{pool}_{name}"][0]
        if not np.isnan(width):
            own[name] = width
    return own


def required_tp(record: Record) -> int | None:
    """Smallest power of two of TP at which one longest request fits, however many GPUs that is; None where none does.

    Shapes that do not divide the model are passed over, and so is the width of the fabric.
    """
    tp = 1
    while tp <= WIDEST_TP:
        if _reason(record, tp=tp, moe_tp=float("nan"), domain_gpus=WIDEST_TP) == 0:
            return tp
        tp *= 2
    return None


def _remedies(record: Record) -> Iterator[str]:
    """Single changes that would make the deployment fit, the mildest first; each is tried, not estimated."""
    derived = _resolve(record, enforce=True)
    fraction = ceil(float(derived["min_memory_fraction"]) * 100.0 + 1e-6) / 100.0
    if fraction <= HIGHEST_FRACTION and _reason(record, gpu_memory_utilization=fraction) == 0:
        yield f"engine.gpu_memory_utilization={fraction:.2f}"
    longest = _longest_that_fits(record, int(derived["max_model_len"]))
    if longest > 0:
        yield f"engine.max_model_len={longest}"
    if _reason(record, kv_cache_dtype="fp8") == 0:
        yield "precision.kv_cache_dtype=fp8"
    for field, dtype, meaning in NARROWER:
        if _reason(record, **{field: dtype}) == 0:
            yield f"precision.{field}={dtype} ({meaning})"
    tp = required_tp(record)
    if tp is not None and tp > float(_one(record)["tp"]):
        yield f"parallelism.tp={tp}"


def _longest_that_fits(record: Record, longest: int) -> int:
    """Longest max_model_len that fits, 0 where not even one block does."""
    fits, too_long = 0, longest
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if _reason(record, max_model_len=middle) == 0:
            fits = middle
        else:
            too_long = middle
    return fits


def _is_memory(reason: int) -> bool:
    from kernels.reasons import KV_BELOW_ONE_REQUEST, WEIGHTS_DO_NOT_FIT

    return reason in (WEIGHTS_DO_NOT_FIT, KV_BELOW_ONE_REQUEST)


def _reason(record: Record, **changes: object) -> int:
    """Reason code of the record with some fields changed."""
    changed = _one(record).copy()
    for name, value in changes.items():
        changed[name] = encode(by_name()[name], value)
    return int(_resolve(changed, enforce=True)["reason"])


def _one(record: Record) -> Any:
    return np.asarray(record).reshape(1)[0]


def _resolve(record: Record, *, enforce: bool) -> Any:
    """The derived record of one input record."""
    from kernels.layout import DERIVED
    from kernels.resolve import resolve

    inputs = np.asarray(record).reshape(1).copy()
    inputs["enforce_memory"] = float(enforce)
    derived = np.zeros(1, DERIVED)
    resolve(inputs[0], derived[0])
    return derived[0]
