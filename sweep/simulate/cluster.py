"""Cluster configurations: a JSON file of nodes and instances, read and checked (specification 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.bounded import read_json
from sweep.errors import UserError, nearest

MAX_BYTES = 16 * 1024**2
GIB_S_TO_BYTES_PER_NS = 1.073741824
ROLES = {None: 0, "prefill": 1, "decode": 2}
OVERRIDES = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "long_prefill_token_threshold",
    "enable_chunked_prefill",
    "reserve_full_isl",
    "block_size",
    "dtype",
    "kv_cache_dtype",
    "enable_prefix_caching",
    "enable_block_copy",
    "enable_local_offloading",
    "enable_attn_offloading",
    "enable_sub_batch_interleaving",
)
"""Flags that an instance may set for itself."""
INSTANCE_KEYS = (
    "model_name",
    "hardware",
    "npu_mem",
    "pd_type",
    "num_npus",
    "tp_size",
    "pp_size",
    "ep_size",
    "dp_group",
    "placement",
    *OVERRIDES,
)


@dataclass(frozen=True)
class Memory:
    """One memory: GiB, GB/s, ns."""

    size: float
    bandwidth: float
    latency: float = 0.0
    utilization: float | None = None


@dataclass
class InstanceConfig:
    """One instance as the file gives it, with its parallel shape resolved."""

    where: str
    node: int
    model_name: str
    hardware: str
    memory: Memory
    role: int
    tp: int
    pp: int
    ep_size: int | None
    dp_group: str | None
    overrides: dict[str, Any]
    placement: dict[str, Any] | None = None


@dataclass
class Node:
    """One node: host memory, optional memory-side compute, optional power figures."""

    cpu: Memory
    pim_config: str | None = None
    power: dict[str, Any] | None = None


@dataclass
class ClusterConfig:
    """A whole cluster. Link figures are per topology dimension."""

    path: str
    nodes: list[Node]
    instances: list[InstanceConfig]
    link_bandwidth: list[float]
    link_latency: list[float]
    cxl: Memory | None = None
    cxl_devices: int = 0
    raw: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Typed access to a JSON object; every fault names the file and the field's path."""

    def __init__(self, data: Any, file: str, where: str = "") -> None:
        self.file, self.where = file, where
        if not isinstance(data, dict):
            raise UserError("must be a JSON object", file=file, field=where or "top level")
        self.data: dict[str, Any] = data

    def name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def fail(self, key: str, message: str, value: Any = None, allowed: str | None = None) -> UserError:
        return UserError(message, file=self.file, field=self.name(key), value=value, allowed=allowed)

    def required(self, key: str) -> Any:
        if key not in self.data:
            raise self.fail(key, "missing")
        return self.data[key]

    def child(self, key: str) -> _Reader:
        return _Reader(self.required(key), self.file, self.name(key))

    def children(self, key: str, count_key: str) -> list[_Reader]:
        rows = self.required(key)
        if not isinstance(rows, list) or not rows:
            raise self.fail(key, "must be a non-empty list")
        count = self.required(count_key)
        if count != len(rows):
            raise self.fail(count_key, f"but {self.name(key)} has {len(rows)} entries", count)
        return [_Reader(row, self.file, f"{self.name(key)}[{i}]") for i, row in enumerate(rows)]

    def number(self, key: str, *, low: float = 0.0, low_open: bool = False) -> float:
        return self.check(key, self.required(key), low, low_open)

    def check(self, key: str, value: Any, low: float, low_open: bool) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or value != value
            or abs(value) > 1e18
        ):
            raise self.fail(key, "must be a number", value)
        if value < low or (low_open and value == low):
            raise self.fail(key, f"must be {'above' if low_open else 'at least'} {low:g}", value)
        return float(value)

    def whole(self, key: str, default: int | None) -> int | None:
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value > 2**20:
            raise self.fail(key, "must be a whole number of at least 1", value)
        return value

    def text(self, key: str) -> str:
        value = self.required(key)
        if not isinstance(value, str) or not value:
            raise self.fail(key, "must be a name", value)
        return value

    def numbers(self, key: str) -> list[float]:
        value = self.required(key)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise self.fail(key, "must not be empty")
        return [self.check(key, v, 0.0, key == "link_bw") for v in values]


def _memory(reader: _Reader) -> Memory:
    utilization = None
    if reader.data.get("mem_util") is not None:
        utilization = reader.number("mem_util", low_open=True)
        if utilization > 1:
            raise reader.fail("mem_util", "must be in (0, 1]", utilization)
    latency = reader.number("mem_latency") if "mem_latency" in reader.data else 0.0
    return Memory(
        reader.number("mem_size", low_open=True), reader.number("mem_bw", low=1.0), latency, utilization
    )


def _shape(reader: _Reader) -> tuple[int, int]:
    """(tp, pp) from num_npus, tp_size and pp_size: either of the first two infers the other."""
    npus, tp = reader.whole("num_npus", None), reader.whole("tp_size", None)
    pp = reader.whole("pp_size", None)
    if npus is None:
        return tp or 1, pp or 1
    if tp is None:
        if npus % (pp or 1):
            raise reader.fail("num_npus", f"is not a multiple of pp_size={pp}", npus)
        return npus // (pp or 1), pp or 1
    if tp * (pp or 1) != npus:
        if npus % tp or pp not in (None, 1, npus // tp):
            raise reader.fail("num_npus", f"is not tp_size x pp_size = {tp} x {pp or 1}", npus)
        return tp, npus // tp
    return tp, pp or 1


def _instance(reader: _Reader, node: int) -> InstanceConfig:
    for key in reader.data:
        if key not in INSTANCE_KEYS:
            close = nearest(key, INSTANCE_KEYS)
            if close:
                raise UserError("unknown key", file=reader.file, field=reader.name(key), near=close)
    role = reader.required("pd_type")
    if not isinstance(role, (str, type(None))) or role not in ROLES:
        raise reader.fail("pd_type", "unknown", role, "prefill, decode, null")
    tp, pp = _shape(reader)
    group = reader.data.get("dp_group")
    if group is not None and not isinstance(group, str):
        raise reader.fail("dp_group", "must be a name", group)
    placement = reader.data.get("placement")
    if placement is not None and not isinstance(placement, dict):
        raise reader.fail("placement", "must be a JSON object")
    return InstanceConfig(
        where=reader.where,
        node=node,
        model_name=reader.text("model_name"),
        hardware=reader.text("hardware"),
        memory=_memory(reader.child("npu_mem")),
        role=ROLES[role],
        tp=tp,
        pp=pp,
        ep_size=reader.whole("ep_size", None),
        dp_group=group,
        overrides={key: reader.data[key] for key in OVERRIDES if reader.data.get(key) is not None},
        placement=placement,
    )


def _node(reader: _Reader) -> Node:
    cpu = reader.child("cpu_mem")
    pim = cpu.data.get("pim_config")
    if pim is not None and not isinstance(pim, str):
        raise cpu.fail("pim_config", "must be a name", pim)
    power = reader.data.get("power")
    if power is not None and not isinstance(power, dict):
        raise reader.fail("power", "must be a JSON object")
    return Node(_memory(cpu), pim, power)


def read_cluster(path: Path) -> ClusterConfig:
    """Read and check a cluster configuration. Raises UserError with file and field."""
    return parse_cluster(read_json(path, MAX_BYTES), str(path))


def parse_cluster(data: Any, file: str) -> ClusterConfig:
    """Check a cluster configuration that has been read already."""
    top = _Reader(data, file)
    nodes: list[Node] = []
    instances: list[InstanceConfig] = []
    for index, node in enumerate(top.children("nodes", "num_nodes")):
        nodes.append(_node(node))
        instances += [_instance(one, index) for one in node.children("instances", "num_instances")]
    _check_groups(instances, file)
    cluster = ClusterConfig(
        path=file,
        nodes=nodes,
        instances=instances,
        link_bandwidth=top.numbers("link_bw"),
        link_latency=top.numbers("link_latency"),
        raw=top.data,
    )
    if top.data.get("cxl_mem") is not None:
        cxl = top.child("cxl_mem")
        cluster.cxl = _memory(cxl)
        cluster.cxl_devices = cxl.whole("num_devices", 1) or 1
    n_axes = len(topology(cluster))
    for key, values in (("link_bw", cluster.link_bandwidth), ("link_latency", cluster.link_latency)):
        if isinstance(top.data[key], list) and len(values) != n_axes:
            raise top.fail(key, f"the topology has {n_axes} dimensions", values)
    return cluster


def _check_groups(instances: list[InstanceConfig], file: str) -> None:
    first: dict[str, InstanceConfig] = {}
    for one in instances:
        if one.dp_group is None:
            continue
        lead = first.setdefault(one.dp_group, one)
        for name in ("tp", "pp", "ep_size", "model_name", "role"):
            if getattr(lead, name) != getattr(one, name):
                raise UserError(
                    f"members of dp_group {one.dp_group} must agree on {name}",
                    file=file,
                    field=one.where,
                    value=getattr(one, name),
                )


def topology(cluster: ClusterConfig) -> list[int]:
    """Sizes of the network's dimensions, innermost first (specification 12.1)."""
    grouped = [one for one in cluster.instances if one.dp_group is not None]
    if grouped:
        lead = grouped[0]
        size = sum(one.dp_group == lead.dp_group for one in grouped)
        sizes = [lead.tp, lead.pp, size] if lead.pp > 1 else [lead.tp, size]
    else:
        npus = sum(one.tp * one.pp * (2 if one.role == 1 else 1) for one in cluster.instances)
        stages = sum(one.pp * (2 if one.role == 1 else 1) for one in cluster.instances)
        count = len(cluster.instances)
        sizes = [npus // count, count] if npus == stages else [npus // stages, stages]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return sizes
