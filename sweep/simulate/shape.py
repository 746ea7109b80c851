"""What a cluster simulation needs to know of a model, and the memory account of its first specification."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.units import GIB
from sweep.errors import UserError


@dataclass(frozen=True)
class ModelShape:
    """Dimensions of a decoder as the profile bundles and the cluster configuration see it."""

    name: str
    hidden: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_dim: int
    vocab: int
    max_position: int
    dtype: str = "bfloat16"
    n_experts: int = 0
    experts_per_token: int = 1
    moe_ffn_dim: int = 0

    @property
    def is_moe(self) -> bool:
        return self.n_experts > 0

    @property
    def q_dim(self) -> int:
        return self.n_heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        return self.n_kv_heads * self.head_dim


def layer_weight_elements(shape: ModelShape, tp: int, ep_total: int) -> dict[str, int]:
    """Weight elements of each layer of one rank, by canonical layer name (specification 4.3); integer divisions."""
    h = shape.hidden
    out = {
        "embedding": shape.vocab // tp * h,
        "layernorm": h,
        "qkv_proj": h * ((shape.q_dim + 2 * shape.kv_dim) // tp),
        "o_proj": shape.q_dim // tp * h,
        "final_layernorm": h,
        "lm_head": h * (shape.vocab // tp),
    }
    if shape.is_moe:
        out["moe"] = h * shape.n_experts + shape.n_experts // ep_total * 3 * h * shape.moe_ffn_dim
    else:
        out["gate_up_proj"] = 2 * h * (shape.ffn_dim // tp)
        out["down_proj"] = shape.ffn_dim // tp * h
    return out


def weight_bytes_per_gpu(shape: ModelShape, tp: int, pp: int, ep_total: int, elem_bytes: int) -> int:
    """Weights of the heaviest rank, bytes (specification 7)."""
    w = layer_weight_elements(shape, tp, ep_total)
    block = sum(w.get(name, 0) for name in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "moe"))
    block += 2 * w["layernorm"]
    ends = w["embedding"] + w["final_layernorm"] + w["lm_head"]
    return (ends + shape.n_layers // pp * block) * elem_bytes


def kv_blocks(
    shape: ModelShape,
    *,
    tp: int,
    pp: int,
    ep_total: int,
    elem_bytes: int,
    kv_bytes: int,
    block_size: int,
    mem_gib: float,
    utilization: float,
    where: str = "",
) -> int:
    """KV blocks of one instance: (memory x utilization - weights) // block bytes (specification 7).

    Raises UserError where the weights, or one block besides them, do not fit.
    """
    weights = weight_bytes_per_gpu(shape, tp, pp, ep_total, elem_bytes)
    if weights > mem_gib * GIB:
        raise UserError(
            f"weights of {shape.name} take {weights / GIB:.2f} GiB per GPU and its memory is {mem_gib:g} GiB",
            file=where or None,
            field="npu_mem.mem_size",
            value=mem_gib,
        )
    block_bytes = 2 * shape.kv_dim * shape.n_layers * kv_bytes // (tp * pp) * block_size
    blocks = (int(mem_gib * GIB * utilization) - weights) // block_bytes
    if blocks < 1:
        raise UserError(
            f"no room for one KV block beside {weights / GIB:.2f} GiB of weights",
            file=where or None,
            field="npu_mem.mem_util",
            value=utilization,
        )
    return blocks


def stage_boundaries(n_layers: int, n_stages: int) -> list[int]:
    """First layer of each pipeline stage but the first: an even split, the remainder to the stages before the last."""
    base, extra = divmod(n_layers, n_stages)
    sizes = [base + (1 if n_stages - 1 - extra <= stage < n_stages - 1 else 0) for stage in range(n_stages)]
    return [sum(sizes[: stage + 1]) for stage in range(n_stages - 1)]
