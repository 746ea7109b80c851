"""Power and energy of a cluster by node and component, from the steps of a run (specification section 17).

    energy(node) = base power x time + increments

base: node, idle accelerators, host CPU at its usual load, memory modules, links, network cards, storage. Increments:
active accelerators (active - idle) x time in layers x tp, standby (standby - idle) for up to `standby_duration` seconds
after a step, the CPU's rise to 70 % while layers run, and energy per bit of what moves through memory and links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sweep.errors import UserError
from sweep.profiles import Profile
from sweep.simulate.cluster import ClusterConfig
from sweep.simulate.instances import Built
from sweep.simulate.offload import KNOWN, offloaded_bytes
from sweep.simulate.outputs import step_frame
from sweep.simulate.runner import Outcome

Floats = NDArray[np.float64]
COMPONENTS = ("base_node", "npu", "cpu", "dram", "link", "nic", "storage")
BUSY_CPU = 0.7
"""Load of the host CPU while layers run."""
NS_PER_S, PJ_PER_J, BITS = 1e9, 1e12, 8.0
KEYS = {
    "cpu": ("idle_power", "active_power", "util"),
    "dram": ("dimm_size", "idle_power", "energy_per_bit"),
    "link": ("num_links", "idle_power", "energy_per_bit"),
    "nic": ("num_nics", "idle_power"),
    "storage": ("num_devices", "idle_power"),
}
NPU_KEYS = ("idle_power", "standby_power", "active_power", "standby_duration")


@dataclass(frozen=True)
class Energy:
    """Increments of a run: node, time (ns) and component of each with its joules; base power of each node and component."""

    base_w: list[dict[str, float]]
    node: NDArray[np.int64]
    at_ns: Floats
    component: NDArray[np.int64]
    joules: Floats
    end_ns: int

    def by_component(self) -> list[dict[str, float]]:
        """Joules of each node by component."""
        out = []
        for k, base in enumerate(self.base_w):
            mine = self.node == k
            moved = np.bincount(self.component[mine], self.joules[mine], len(COMPONENTS))
            out.append(
                {
                    name: base[name] * self.end_ns / NS_PER_S + float(moved[c])
                    for c, name in enumerate(COMPONENTS)
                }
            )
        return out

    def interval_w(self, length_ns: int, n: int) -> Floats:
        """Mean power of the whole cluster in each of `n` intervals, W."""
        slot = np.minimum((np.maximum(self.at_ns - 1, 0) // length_ns).astype(np.int64), n - 1)
        base = sum(sum(one.values()) for one in self.base_w)
        return np.bincount(slot, self.joules, n) / (length_ns / NS_PER_S) + base

    def summary(self) -> dict[str, Any]:
        """Kilojoules in all, by component and by node, and the mean power."""
        nodes = self.by_component()
        total = sum(sum(one.values()) for one in nodes)
        return {
            "energy_kj": total / 1e3,
            "energy_kj_by_component": {name: sum(one[name] for one in nodes) / 1e3 for name in COMPONENTS},
            "energy_kj_by_node": [sum(one.values()) / 1e3 for one in nodes],
            "mean_power_w": total / max(1e-9, self.end_ns / NS_PER_S),
        }


def is_given(cluster: ClusterConfig) -> bool:
    """Whether every node says what it draws: else nothing is modelled."""
    return all(node.power for node in cluster.nodes)


def energy(outcome: Outcome, built: Sequence[Built], cluster: ClusterConfig) -> Energy:
    """Energy of a run whose steps were logged. Raises UserError where a figure is missing or the log overflowed."""
    if int(outcome.world["log_overflow"]):
        raise UserError("energy needs every step, and there were too many to keep", field="power")
    figures = [_checked(cluster, k) for k in range(len(cluster.nodes))]
    end_ns = int(outcome.world["now"])
    steps = step_frame(outcome)
    parts: list[tuple[int, Floats, str, Floats]] = []
    for i, one in enumerate(built):
        mine = steps.filter(pl.col("instance") == i)
        if mine.height:
            parts += _increments(outcome, i, one, mine, figures[one.config.node], cluster, end_ns)
    lengths = [len(joules) for _, _, _, joules in parts]
    return Energy(
        base_w=[_base_w(cluster, built, k, figures[k]) for k in range(len(figures))],
        node=np.repeat([node for node, _, _, _ in parts], lengths).astype(np.int64),
        at_ns=np.concatenate([at for _, at, _, _ in parts]) if parts else np.zeros(0),
        component=np.repeat([COMPONENTS.index(name) for _, _, name, _ in parts], lengths).astype(np.int64),
        joules=np.concatenate([joules for _, _, _, joules in parts]) if parts else np.zeros(0),
        end_ns=end_ns,
    )


def _checked(cluster: ClusterConfig, node: int) -> dict[str, Any]:
    """The node's power figures, all there and numbers."""
    given = cluster.nodes[node].power or {}
    where = f"nodes[{node}].power"

    def number(data: Any, key: str, path: str) -> None:
        value = data.get(key) if isinstance(data, dict) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise UserError(
                "must be a number of at least 0",
                file=cluster.path,
                field=f"{path}.{key}",
                value=value,
            )

    number(given, "base_node_power", where)
    for name, keys in KEYS.items():
        for key in keys:
            number(given.get(name), key, f"{where}.{name}")
    for one in cluster.instances:
        if one.node == node:
            for key in NPU_KEYS:
                number(
                    (given.get("npu") or {}).get(one.hardware),
                    key,
                    f"{where}.npu.{one.hardware}",
                )
    return given


def _base_w(
    cluster: ClusterConfig, built: Sequence[Built], node: int, given: dict[str, Any]
) -> dict[str, float]:
    here = [one for one in built if one.config.node == node]
    npus = [given["npu"][one.config.hardware]["idle_power"] * one.config.tp * one.config.pp for one in here]
    cpu, dram = given["cpu"], given["dram"]
    modules = cluster.nodes[node].cpu.size // max(dram["dimm_size"], 1e-9)
    return {
        "base_node": float(given["base_node_power"]),
        "npu": float(sum(npus)),
        "cpu": cpu["idle_power"] + (cpu["active_power"] - cpu["idle_power"]) * cpu["util"],
        "dram": modules * dram["idle_power"],
        "link": given["link"]["num_links"] * given["link"]["idle_power"],
        "nic": given["nic"]["num_nics"] * given["nic"]["idle_power"],
        "storage": given["storage"]["num_devices"] * given["storage"]["idle_power"],
    }


def _increments(
    outcome: Outcome,
    i: int,
    one: Built,
    steps: pl.DataFrame,
    given: dict[str, Any],
    cluster: ClusterConfig,
    end_ns: int,
) -> list[tuple[int, Floats, str, Floats]]:
    """(node, times, component, joules) of one instance."""
    node, npu, cpu = one.config.node, given["npu"][one.config.hardware], given["cpu"]
    start, end = (steps[name].to_numpy().astype(np.float64) for name in ("start", "end"))
    busy_s = layers_ns(one, steps) / NS_PER_S
    idle_w = npu["idle_power"]
    active = (npu["active_power"] - idle_w) * busy_s * one.config.tp
    until = np.append(start[1:], float(end_ns))
    gap_s = np.clip((until - np.maximum.accumulate(end)) / NS_PER_S, 0.0, npu["standby_duration"])
    standby = (npu["standby_power"] - idle_w) * gap_s * one.config.tp * one.config.pp
    rise = (cpu["active_power"] - cpu["idle_power"]) * max(BUSY_CPU - cpu["util"], 0.0) * busy_s
    dram = given["dram"]["energy_per_bit"] * BITS / PJ_PER_J * _memory_bytes(outcome, i, one, steps)
    link = given["link"]["energy_per_bit"] * BITS / PJ_PER_J * link_bytes(one, steps)
    return [
        (node, end, "npu", active),
        (node, until, "npu", standby),
        (node, end, "cpu", rise),
        (node, end, "dram", dram + _channel_joules(one, steps, cluster)),
        (node, end, "link", link),
    ]


def layers_ns(one: Built, steps: pl.DataFrame) -> Floats:
    """Time in layers of each step on one rank, all stages, ns: from the operator tables, else the whole step."""
    profile = one.instance.profile
    if profile is None:
        return (steps["end"] - steps["start"]).to_numpy().astype(np.float64)
    tokens, seqs = (steps[name].to_numpy().astype(np.float64) for name in ("tokens", "seqs"))

    def linear(name: str) -> Floats:
        return profile.linear[name].at(tokens) if name in profile.linear else np.zeros(len(tokens))

    def sequence(name: str) -> Floats:
        return profile.sequence[name].at(seqs) if name in profile.sequence else np.zeros(len(seqs))

    block = 2 * linear("layernorm") + linear("qkv_proj") + linear("qk_norm") + linear("rotary_emb")
    block += _attention_ns(one, steps) + linear("o_proj")
    if one.shape.is_moe:
        block += _experts_ns(one, profile, tokens)
    else:
        block += linear("gate_up_proj") + linear("act_fn") + linear("down_proj")
    ends = linear("embedding") + linear("final_layernorm") + sequence("lm_head") + sequence("sampler")
    return ends + one.shape.n_layers * block


def _attention_ns(one: Built, steps: pl.DataFrame) -> Floats:
    """Attention of one layer on the accelerator; where decode runs in memory, only steps with prompts have some."""
    attention = steps["attention_ns"].to_numpy().astype(np.float64)
    if one.instance.settings.get("pim_channels"):
        attention = np.where(steps["chunk"].to_numpy() > 0, attention, 0.0)
    return attention


def _experts_ns(one: Built, profile: Profile, tokens: Floats) -> Floats:
    """The slowest local rank's experts under balanced routing (specification 15.2), from the bundle's MoE table."""
    ep, k, n = (
        one.instance.settings["ep_total"],
        one.shape.experts_per_token,
        one.shape.n_experts,
    )
    rows = np.maximum(1.0, np.rint(tokens * (1.0 - ((ep - 1.0) / ep) ** k)))
    activated = np.maximum(1.0, np.minimum(np.rint(tokens * k / ep), n // ep))
    axis = np.array(sorted(profile.moe), dtype=np.float64)
    table = np.stack([profile.moe[int(a)].at(rows) for a in axis])
    low = np.clip(np.searchsorted(axis, activated, side="right") - 1, 0, max(0, len(axis) - 2))
    high = np.minimum(low + 1, len(axis) - 1)
    weight = np.where(
        high > low,
        (activated - axis[low]) / np.maximum(axis[high] - axis[low], 1e-9),
        0.0,
    )
    column = np.arange(len(rows))
    return np.asarray(table[low, column] * (1.0 - weight) + table[high, column] * weight)


def link_bytes(one: Built, steps: pl.DataFrame) -> Floats:
    """Bytes over links of each step: tensor-parallel sums, expert exchange, pipeline hand-overs, KV hand-over of prompts."""
    settings, shape = one.instance.settings, one.shape
    tokens = steps["tokens"].to_numpy().astype(np.float64)
    payload = tokens * shape.hidden * one.elem_bytes
    tp, pp, ep = settings["tp"], settings["pp"], settings["ep_total"]
    sums = (1 if shape.is_moe else 2) * shape.n_layers
    moved = sums * 2.0 * (tp - 1) * payload / tp + (pp - 1) * payload
    if shape.is_moe and ep > 1:
        routed = tokens * (shape.hidden + shape.n_experts) * one.elem_bytes
        moved += shape.n_layers * (ep - 1) * (routed + payload) / ep
    if one.config.role == 1:
        prompt = steps["chunk"].to_numpy().astype(np.float64)
        moved += prompt * settings["transfer_bytes_per_token"] * tp
    return np.asarray(moved)


def _memory_bytes(outcome: Outcome, i: int, one: Built, steps: pl.DataFrame) -> Floats:
    """Bytes through host or CXL memory of each step: weights that lie there, and recalled KV (spread over the steps)."""
    inst = outcome.world.inst[i]
    weights = offloaded_bytes(one.config, one.shape, int(inst["ep_total"]), one.elem_bytes)
    recalled = int(inst["recalled_tokens"]) // int(inst["block_size"]) * int(inst["tier_block_bytes"])
    return np.full(steps.height, weights + recalled / steps.height)


def _channel_joules(one: Built, steps: pl.DataFrame, cluster: ClusterConfig) -> Floats:
    """What memory channels draw for attention beyond idling: (peak - idle) x their time, at the mean context."""
    settings = one.instance.settings
    name = cluster.nodes[one.config.node].pim_config
    if not settings.get("pim_channels") or name not in KNOWN:
        return np.zeros(steps.height)
    n = steps["n_decode"].to_numpy().astype(np.float64)
    context = steps["kv_sum"].to_numpy() / np.maximum(n, 1.0)
    piece_ns = settings["pim_ns_per_token"] * context + settings["pim_fixed_ns"] + settings["pim_transfer_ns"]
    pieces = n * settings["pim_split"] * one.shape.n_layers
    watts = (KNOWN[name].peak_mw - KNOWN[name].idle_mw) / 1e3
    return np.asarray(watts * pieces * piece_ns / NS_PER_S)


def text(told: dict[str, Any]) -> list[str]:
    """The energy of a summary in words."""
    if "energy_kj" not in told:
        return []
    parts = ", ".join(f"{name} {kj:.3f}" for name, kj in told["energy_kj_by_component"].items())
    return [f"energy          {told['energy_kj']:.3f} kJ, {told['mean_power_w']:.1f} W at the mean ({parts})"]
