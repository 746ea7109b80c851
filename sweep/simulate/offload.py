"""Placement of weights and memory-side attention, from a cluster configuration (specification 3.5 and 16)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweep.bounded import read_text
from sweep.errors import UserError, nearest
from sweep.simulate.cluster import ClusterConfig, InstanceConfig, Memory
from sweep.simulate.shape import ModelShape, layer_weight_elements

MAX_DESCRIPTION_BYTES = 1_000_000
BLOCK_LAYERS = ("layernorm", "qkv_proj", "o_proj", "layernorm", "gate_up_proj", "down_proj")
"""Layers with weights of a dense block, in order."""
MOE_LAYERS = ("layernorm", "qkv_proj", "o_proj", "layernorm", "moe")


@dataclass(frozen=True)
class Pim:
    """Memory-side compute of one kind: fitted latency of attention, and its channels."""

    slope: float
    intercept: float
    capacity_gb: int
    channel_gb_s: float
    read_ns: float
    idle_mw: float = 0.0
    peak_mw: float = 0.0


KNOWN = {
    "DDR4_8GB_3200_pim": Pim(333.2538, 30675.2739, 8, 25.6, 13.86, 623, 3803),
    "HBM2_1GB_2000_pim": Pim(242.0548, 14513.5015, 1, 32.0, 14.00, 160, 760),
    "LPDDR4X_2GB_4266_pim": Pim(432.4458, 33918.1734, 2, 8.53, 16.85),
    "LPDDR5_2GB_6400_pim": Pim(282.4338, 15996.7018, 2, 12.80, 10.62),
}
"""ns per token of context and ns fixed, GB, GB/s and ns of a channel, by the name of the description
(specification 16.2). A description file beside the cluster configuration overrides bandwidth and latency."""


def described(name: str, folders: list[Path]) -> Pim:
    """The memory that `name` means, with bandwidth and latency of its description file where one is found.

    The file is an INI (sections ignored, `#` comments). Raises UserError for an unknown name.
    """
    if name not in KNOWN:
        close = nearest(name, KNOWN)
        raise UserError(
            "unknown memory", field="pim_config", value=name, allowed=", ".join(KNOWN), near=close
        )
    kind = KNOWN[name]
    path = next((f / f"{name}.ini" for f in folders if (f / f"{name}.ini").is_file()), None)
    if path is None:
        return kind
    numbers: dict[str, float] = {}
    for line in read_text(path, MAX_DESCRIPTION_BYTES).splitlines():
        key, _, value = line.split("#", 1)[0].partition("=")
        try:
            numbers[key.strip().lower()] = float(value)
        except ValueError:
            continue
    if {"data_rate", "bus_width"} <= numbers.keys():
        kind = replace(kind, channel_gb_s=numbers["bus_width"] / 8 * numbers["data_rate"] / 1000)
    if {"cl", "tck"} <= numbers.keys():
        kind = replace(kind, read_ns=numbers["cl"] * numbers["tck"])
    return kind


def pim_memory(cluster: ClusterConfig, node: int) -> tuple[Memory, int, Pim]:
    """(host memory as the channels serve it, channels, kind) of a node with a `pim_config`."""
    config = cluster.nodes[node]
    if config.pim_config is None:
        raise UserError(
            "attention offloading needs a pim_config on every node",
            file=cluster.path,
            field=f"nodes[{node}].cpu_mem",
        )
    here = Path(cluster.path).resolve().parent
    kind = described(config.pim_config, [here, here.parent / "pim"])
    channels = int(config.cpu.size / kind.capacity_gb)
    if channels < 1:
        raise UserError(
            f"is below one channel of {kind.capacity_gb} GB", file=cluster.path, field="cpu_mem.mem_size"
        )
    return Memory(config.cpu.size, channels * kind.channel_gb_s, kind.read_ns), channels, kind


def pim_settings(
    shape: ModelShape, tp: int, elem_bytes: int, memory: Memory, channels: int, kind: Pim
) -> dict[str, Any]:
    """Settings of an instance whose decode attention runs in memory."""
    split = min(channels, shape.n_kv_heads)
    group = shape.n_heads / shape.n_kv_heads / 4
    width = shape.n_heads * shape.head_dim / 4096
    elements = (shape.n_heads // tp + 2 * shape.n_kv_heads // tp + shape.n_heads // tp) * shape.head_dim
    transfer = int(memory.latency) + elements * elem_bytes // split // int(memory.bandwidth)
    return {
        "pim_channels": channels,
        "pim_split": split,
        "pim_ns_per_token": kind.slope * group / split,
        "pim_fixed_ns": kind.intercept * width / split,
        "pim_transfer_ns": transfer,
    }


BLOCKS = re.compile(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*")
"""One block, or the first and last of several."""


def _blocks_of(text: str, n_layers: int) -> Iterator[int]:
    for part in str(text).split(","):
        found = BLOCKS.fullmatch(part)
        if found:
            low, high = int(found[1]), int(found[2] or found[1])
            yield from range(low, min(high + 1, n_layers))


def weight_places(config: InstanceConfig, n_layers: int, moe: bool = False) -> list[tuple[str, str]]:
    """(layer, place of its weights) of every layer with weights, in order; layers over blocks over default."""
    placement = config.placement or {}

    def place(rule: Any, otherwise: str) -> str:
        return str(rule.get("weights") or otherwise) if isinstance(rule, dict) else otherwise

    usual = place(placement.get("default"), "npu")
    named = placement.get("layers") or {}
    by_block = dict.fromkeys(range(n_layers), usual)
    for rule in placement.get("blocks") or []:
        by_block.update(dict.fromkeys(_blocks_of(rule.get("blocks", ""), n_layers), place(rule, usual)))
    out = [("embedding", place(named.get("embedding"), usual))]
    for k in range(n_layers):
        out += [(name, place(named.get(name), by_block[k])) for name in (MOE_LAYERS if moe else BLOCK_LAYERS)]
    out += [(name, place(named.get(name), usual)) for name in ("final_layernorm", "lm_head")]
    return out


def is_elsewhere(config: InstanceConfig, n_layers: int, local: bool) -> bool:
    """Whether some weights are loaded in every step: they lie in another memory, or `local` loads are asked for."""
    return local or any(place != "npu" for _, place in weight_places(config, n_layers))


def weight_arrivals(
    cluster: ClusterConfig,
    config: InstanceConfig,
    shape: ModelShape,
    elem_bytes: int,
    local: bool,
) -> tuple[int, ...]:
    """When each layer's weights are there, ns after a step's start; empty where none are loaded.

    Host and CXL memory serve one load at a time, every tensor-parallel rank's own; loads from the accelerator's own
    memory (`local`) all run at once.
    """
    if not is_elsewhere(config, shape.n_layers, local):
        return ()
    if config.pp > 1 or shape.is_moe:
        raise UserError(
            "with operator profiles, weights outside the accelerator are simulated for dense models with pp_size 1",
            file=cluster.path,
            field=f"{config.where}.placement",
        )
    elements = layer_weight_elements(shape, config.tp, 1)
    free: dict[str, int] = {}
    arrivals = []
    for name, place in weight_places(config, shape.n_layers):
        if place == "npu":
            own = _load_ns(config.memory, elements[name] * elem_bytes) if local else 0
            arrivals.append(own)
            continue
        took = config.tp * _load_ns(_memory_at(cluster, config, place), elements[name] * elem_bytes)
        free[place] = free.get(place, 0) + took
        arrivals.append(free[place])
    return tuple(arrivals)


def weight_load_ns(
    cluster: ClusterConfig,
    config: InstanceConfig,
    shape: ModelShape,
    ep_total: int,
    elem_bytes: int,
    local: bool,
) -> int:
    """Time of a step's weight loads from the busiest memory, ns; stages of a pipeline load theirs in turn."""
    elements = layer_weight_elements(shape, config.tp, ep_total)
    busy: dict[str, int] = {}
    for name, place in weight_places(config, shape.n_layers, moe=shape.is_moe):
        if place != "npu":
            took = config.tp * _load_ns(_memory_at(cluster, config, place), elements[name] * elem_bytes)
            busy[place] = busy.get(place, 0) + took
        elif local:
            busy[place] = max(busy.get(place, 0), _load_ns(config.memory, elements[name] * elem_bytes))
    return max(busy.values(), default=0)


def offloaded_bytes(config: InstanceConfig, shape: ModelShape, ep_total: int, elem_bytes: int) -> int:
    """Bytes of weights that all ranks load from other memories in one step."""
    elements = layer_weight_elements(shape, config.tp, ep_total)
    places = weight_places(config, shape.n_layers, moe=shape.is_moe)
    return config.tp * elem_bytes * sum(elements[name] for name, place in places if place != "npu")


def _load_ns(memory: Memory, n_bytes: int) -> int:
    return int(memory.latency) + n_bytes // int(memory.bandwidth)


def _memory_at(cluster: ClusterConfig, config: InstanceConfig, place: str) -> Memory:
    device = place.removeprefix("cxl:")
    if place == "cpu":
        return cluster.nodes[0].cpu
    if place.startswith("cxl:") and device.isdecimal() and cluster.cxl and int(device) < cluster.cxl_devices:
        return cluster.cxl
    devices = ", ".join(f"cxl:{k}" for k in range(cluster.cxl_devices))
    raise UserError(
        "no such memory",
        file=cluster.path,
        field=f"{config.where}.placement",
        value=place,
        allowed=", ".join(filter(None, ("npu", "cpu", devices))),
    )
