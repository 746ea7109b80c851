"""Instances of a cluster configuration as the simulator's records: settings, memory account, links, prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.des_layout import DECODE, MIXED, PRICE_STEP, PRICE_TABLES
from kernels.layout import DERIVED
from kernels.reasons import OK, TEXT
from kernels.resolve import resolve
from sweep.catalog.models import ModelEntry, resolve_model
from sweep.errors import UserError
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.point_rows import row_values
from sweep.profiles import Profile, read_profile
from sweep.records import default_records, set_values
from sweep.simulate.cluster import (
    GIB_S_TO_BYTES_PER_NS,
    ClusterConfig,
    InstanceConfig,
    topology,
)
from sweep.simulate.offload import (
    is_elsewhere,
    pim_memory,
    pim_settings,
    weight_arrivals,
    weight_load_ns,
)
from sweep.simulate.shape import ModelShape, kv_blocks, weight_bytes_per_gpu
from sweep.simulate.world import UNLIMITED, Instance

ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "fp8": 1, "int8": 1}
SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "fp8": "fp8", "int8": "int8"}
FALLBACK_DTYPE = "bfloat16"


@dataclass(frozen=True)
class Defaults:
    """Values of the per-instance flags where an instance does not set its own."""

    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    enable_chunked_prefill: bool = True
    npu_memory_utilization: float = 0.9
    reserve_full_isl: bool = True
    block_size: int = 16
    dtype: str | None = None
    kv_cache_dtype: str = "auto"
    enable_prefix_caching: bool = True
    enable_block_copy: bool = True
    enable_local_offloading: bool = False
    enable_attn_offloading: bool = False
    enable_sub_batch_interleaving: bool = False


@dataclass(frozen=True)
class Pricing:
    """What prices the steps: profile bundles under `profiles`, else the step kernel at `fidelity`."""

    profiles: Path | None = None
    fidelity: str = "fitted"
    compat: bool = False
    expert_policy: int = 0
    extra: tuple[tuple[str, Any], ...] = ()
    """Further settings of every instance (speculation, exclusive prefill, overheads), by record field."""


@dataclass
class Built:
    """An instance with what reports need to know of it."""

    instance: Instance
    shape: ModelShape
    config: InstanceConfig
    elem_bytes: int
    kv_bytes: int
    weights_bytes: int


def shape_of(entry: ModelEntry, name: str) -> ModelShape:
    """Dimensions of a catalogue entry as the simulator uses them."""
    f = entry.fields
    experts = int(f["n_experts"]) if f["n_moe_layers"] else 0
    stored = str(f["checkpoint_attn"])
    return ModelShape(
        name=name,
        hidden=int(f["hidden_size"]),
        n_layers=int(f["n_layers"]),
        n_heads=int(f["n_heads"]),
        n_kv_heads=int(f["n_kv_heads"]),
        head_dim=int(f["head_dim"]),
        ffn_dim=int(f["ffn_dim"]),
        vocab=int(f["vocab_size"]),
        max_position=int(f["max_position"]),
        dtype=stored if stored in ELEMENT_BYTES else FALLBACK_DTYPE,
        n_experts=experts,
        experts_per_token=max(1, int(f["experts_per_token"])),
        moe_ffn_dim=int(f["moe_ffn_dim"]),
    )


def _override(config: InstanceConfig, defaults: Defaults, name: str, file: str) -> Any:
    """An instance's own value of a flag, checked, else the command line's."""
    usual = getattr(defaults, name)
    if name not in config.overrides:
        return usual
    value = config.overrides[name]
    where: dict[str, Any] = {"file": file, "field": f"{config.where}.{name}", "value": value}
    if isinstance(usual, bool):
        if not isinstance(value, bool):
            raise UserError("must be true or false", **where)
    elif isinstance(usual, int):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value > 2**40:
            raise UserError("must be a whole number of at least 0", **where)
    elif not isinstance(value, str):
        raise UserError("must be a name", **where)
    return value


def resolve_flags(config: InstanceConfig, defaults: Defaults, file: str) -> dict[str, Any]:
    """All per-instance flags of one instance, checked."""
    flags = {name: _override(config, defaults, name, file) for name in Defaults.__dataclass_fields__}
    if config.memory.utilization is not None:
        flags["npu_memory_utilization"] = config.memory.utilization
    if flags["block_size"] < 1:
        raise UserError("must be at least 1", file=file, field="block_size", value=flags["block_size"])
    if flags["dtype"] is not None and flags["dtype"] not in ELEMENT_BYTES:
        raise UserError(
            "unknown", file=file, field="dtype", value=flags["dtype"], allowed=", ".join(ELEMENT_BYTES)
        )
    if flags["kv_cache_dtype"] not in ("auto", "fp8"):
        raise UserError(
            "unknown", file=file, field="kv_cache_dtype", value=flags["kv_cache_dtype"], allowed="auto, fp8"
        )
    if flags["enable_sub_batch_interleaving"] and (not flags["enable_attn_offloading"] or config.pp > 1):
        raise UserError(
            "sub-batch interleaving needs attention offloading and pp_size 1",
            file=file,
            field=f"{config.where}.enable_sub_batch_interleaving",
        )
    return flags


def _experts(config: InstanceConfig, shape: ModelShape, group_size: int, file: str) -> tuple[int, int]:
    """(ep_total, local_ep) of an instance; specification 3.4."""
    if not shape.is_moe:
        return 1, 1
    ep = config.ep_size or config.tp
    where: dict[str, Any] = {"file": file, "field": f"{config.where}.ep_size", "value": ep}
    if shape.n_experts % ep:
        raise UserError(f"does not divide {shape.n_experts} experts", **where)
    if ep % group_size:
        raise UserError(f"is not a multiple of the {group_size} members of its dp_group", **where)
    if ep // group_size > config.tp:
        raise UserError(f"needs more ranks than tp_size={config.tp}", **where)
    return ep, ep // group_size


def _links(cluster: ClusterConfig, config: InstanceConfig) -> dict[str, float]:
    """Bandwidth (bytes/ns) and latency (ns) of each kind of traffic, by topology dimension."""
    n_axes = len(topology(cluster))
    grouped = config.dp_group is not None
    axis = {"tp": 0, "pp": 1, "dp": 2 if grouped and config.pp > 1 else 1, "pd": 1}
    out: dict[str, float] = {}
    for kind, wanted in axis.items():
        k = min(wanted, n_axes - 1)
        bandwidth = cluster.link_bandwidth[min(k, len(cluster.link_bandwidth) - 1)]
        out[f"{kind}_bytes_per_ns"] = bandwidth * GIB_S_TO_BYTES_PER_NS
        out[f"{kind}_latency"] = cluster.link_latency[min(k, len(cluster.link_latency) - 1)]
    return out


def _variant(dtype: str, kv_cache_dtype: str) -> str:
    return SHORT[dtype] + ("" if kv_cache_dtype == "auto" else f"-kv{SHORT[kv_cache_dtype]}")


def _record(
    config: InstanceConfig, flags: dict[str, Any], links: dict[str, float], pricing: Pricing, group_size: int
) -> dict[str, Any]:
    """Input record, derived record and coefficients of an instance that the step kernel prices."""
    row = {
        "model": config.model_name,
        "hardware": config.hardware,
        "tp": config.tp,
        "pp": config.pp,
        "attention_dp": group_size,
        "moe_ep": config.ep_size,
        "linear_dtype": flags["dtype"],
        "kv_cache_dtype": None if flags["kv_cache_dtype"] == "auto" else flags["kv_cache_dtype"],
    }
    record = default_records(1)
    values = row_values({key: value for key, value in row.items() if value is not None})
    set_values(record[0], values)
    set_values(
        record[0],
        {
            "hbm_gib": config.memory.size,
            "gpu_memory_utilization": flags["npu_memory_utilization"],
            "block_size": flags["block_size"],
            "enforce_memory": False,
        },
    )
    derived = np.zeros(1, DERIVED)
    resolve(record[0], derived[0])
    reason = int(derived[0]["reason"])
    if reason != OK:
        raise UserError(TEXT[reason], file=config.where)
    return {
        "record": record,
        "derived": derived,
        "coefficients": coefficients_of(coefficients_for(pricing.fidelity), record),
    }


def any_pim(cluster: ClusterConfig, defaults: Defaults) -> bool:
    """Whether some instance offloads attention: host memory then has the channels' bandwidth everywhere."""
    return any(
        one.overrides.get("enable_attn_offloading", defaults.enable_attn_offloading)
        for one in cluster.instances
    )


def build_instance(
    cluster: ClusterConfig, index: int, defaults: Defaults, pricing: Pricing, profiles: dict[Any, Profile]
) -> Built:
    """One instance of `cluster` ready for `sweep.simulate.world.build`."""
    config = cluster.instances[index]
    file = cluster.path
    flags = resolve_flags(config, defaults, file)
    members = [
        k
        for k, one in enumerate(cluster.instances)
        if config.dp_group is not None and one.dp_group == config.dp_group
    ]
    shape = shape_of(resolve_model(config.model_name), config.model_name)
    dtype = flags["dtype"] or shape.dtype
    elem_bytes = ELEMENT_BYTES[dtype]
    kv_bytes = elem_bytes if flags["kv_cache_dtype"] == "auto" else ELEMENT_BYTES[flags["kv_cache_dtype"]]
    ep_total, local_ep = _experts(config, shape, max(1, len(members)), file)
    if config.pp > shape.n_layers:
        raise UserError(
            f"more stages than the {shape.n_layers} layers",
            file=file,
            field=f"{config.where}.pp_size",
            value=config.pp,
        )
    n_blocks = kv_blocks(
        shape,
        tp=config.tp,
        pp=config.pp,
        ep_total=ep_total,
        elem_bytes=elem_bytes,
        kv_bytes=kv_bytes,
        block_size=flags["block_size"],
        mem_gib=config.memory.size,
        utilization=flags["npu_memory_utilization"],
        where=file,
    )
    links = _links(cluster, config)
    cpu = cluster.nodes[0].cpu
    pim: dict[str, Any] = {}
    if any_pim(cluster, defaults):
        cpu, channels, kind = pim_memory(cluster, 0)
        if flags["enable_attn_offloading"]:
            pim = pim_settings(shape, config.tp, elem_bytes, cpu, channels, kind)
    local = bool(flags["enable_local_offloading"])
    arrivals: tuple[int, ...] = ()
    load_ns = 0
    if pricing.profiles:
        arrivals = weight_arrivals(cluster, config, shape, elem_bytes, local)
    elif is_elsewhere(config, shape.n_layers, local):
        load_ns = weight_load_ns(cluster, config, shape, ep_total, elem_bytes, local)
    settings: dict[str, Any] = {
        "max_seqs": flags["max_num_seqs"] or UNLIMITED,
        "budget": min(flags["max_num_batched_tokens"] or shape.max_position, shape.max_position),
        "threshold": flags["long_prefill_token_threshold"],
        "chunked": int(flags["enable_chunked_prefill"]),
        "reserve": int(flags["reserve_full_isl"]),
        "block_size": flags["block_size"],
        "caching": int(flags["enable_prefix_caching"]),
        "n_blocks": n_blocks,
        "max_len": shape.max_position,
        "role": config.role,
        "group": members[0] if members else -1,
        "node": config.node,
        "pp": config.pp,
        "tp": config.tp,
        "ep_total": ep_total,
        "local_ep": local_ep,
        "stream_interval": 1,
        "pricer": PRICE_TABLES if pricing.profiles else PRICE_STEP,
        "n_layers": shape.n_layers,
        "hidden": shape.hidden,
        "n_experts": shape.n_experts,
        "experts_per_token": shape.experts_per_token,
        "expert_policy": pricing.expert_policy,
        "elem_bytes": elem_bytes,
        "is_moe": int(shape.is_moe),
        "kv_send_bytes": 2 * shape.kv_dim * kv_bytes // config.tp,
        "transfer_bytes_per_token": 2 * shape.kv_dim * kv_bytes * shape.n_layers // config.tp,
        "cpu_latency": int(cpu.latency),
        "cpu_bytes_per_ns": int(cpu.bandwidth),
        "reduce_bytes_per_ns": int(config.memory.bandwidth),
        "offloads": int(bool(arrivals)),
        "weight_load_ns": load_ns,
        "interleave": int(bool(pim) and flags["enable_sub_batch_interleaving"]),
        **links,
        **pim,
        **dict(pricing.extra),
    }
    if pim and not pricing.profiles:
        raise UserError(
            "attention in memory is priced by operator profiles: give --operator-profiles",
            file=file,
        )
    instance = Instance(settings, weight_ready=arrivals)
    if pricing.profiles:
        key = (config.hardware, config.model_name, _variant(dtype, flags["kv_cache_dtype"]), config.tp)
        if key not in profiles:
            profiles[key] = read_profile(pricing.profiles, *key)
        instance.profile = profiles[key]
    else:
        for name, value in _record(config, flags, links, pricing, max(1, len(members))).items():
            setattr(instance, name, value)
    weights = weight_bytes_per_gpu(shape, config.tp, config.pp, ep_total, elem_bytes)
    return Built(instance, shape, config, elem_bytes, kv_bytes, weights)


def build_instances(cluster: ClusterConfig, defaults: Defaults, pricing: Pricing) -> list[Built]:
    """All instances of a cluster. Raises UserError where the cluster cannot serve."""
    profiles: dict[Any, Profile] = {}
    built = [build_instance(cluster, k, defaults, pricing, profiles) for k in range(len(cluster.instances))]
    roles = {one.config.role for one in built}
    if roles == {DECODE}:
        raise UserError("all instances are decode instances: nothing prefills", file=cluster.path)
    if DECODE not in roles and roles != {MIXED} and MIXED not in roles:
        raise UserError("prefill instances need a decode instance", file=cluster.path)
    return built


def memory_report(built: Built) -> str:
    """One line on an instance's KV capacity, as it is printed at the start."""
    settings = built.instance.settings
    tokens = settings["n_blocks"] * settings["block_size"]
    per_rank = (
        2 * built.shape.kv_dim * built.shape.n_layers * built.kv_bytes // (settings["tp"] * settings["pp"])
    )
    gib = tokens * per_rank / math.pow(2, 30)
    return (
        f"{settings['n_blocks']} KV blocks = {tokens} tokens, {gib:.2f} GiB per GPU "
        f"beside {built.weights_bytes / 2**30:.2f} GiB of weights"
    )
