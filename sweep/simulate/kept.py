"""What a run generated, kept for inspection: cluster, network and memory descriptions, batches, layer rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweep.simulate.cluster import ClusterConfig, topology
from sweep.simulate.instances import Built
from sweep.simulate.outputs import step_frame, write_atomically, write_text
from sweep.simulate.runner import Outcome
from sweep.simulate.shape import layer_weight_elements, stage_boundaries

HEADER = "Layername comp_time input_loc input_size weight_loc weight_size output_loc output_size comm_type comm_size misc"
MODES = ("COLOCATED", "PREFILL", "DECODE")


def keep_inputs(
    root: Path, outcome: Outcome, built: list[Built], cluster: ClusterConfig, *, text: bool
) -> None:
    """Write cluster.json, network.json, memory.json and batches.csv under `root`; with `text` each batch's rows too."""
    write_text(root / "cluster.json", json.dumps(cluster.raw, indent=1) + "\n")
    network = {
        "topology": "FullyConnected",
        "npus_count": topology(cluster),
        "bandwidth_gib_per_s": cluster.link_bandwidth,
        "latency_ns": cluster.link_latency,
    }
    write_text(root / "network.json", json.dumps(network, indent=1) + "\n")
    memory = [
        {
            "instance": k,
            "weights_bytes_per_npu": one.weights_bytes,
            "kv_blocks": one.instance.settings["n_blocks"],
            "block_size": one.instance.settings["block_size"],
            "npu_mem_gib": one.config.memory.size,
            "cpu_mem_gib": cluster.nodes[one.config.node].cpu.size,
        }
        for k, one in enumerate(built)
    ]
    write_text(root / "memory.json", json.dumps(memory, indent=1) + "\n")
    steps = step_frame(outcome)
    write_atomically(root / "batches.csv", lambda stream: stream.write(steps.write_csv()))
    if not text:
        return
    counts = [0] * len(built)
    for row in steps.iter_rows(named=True):
        i = row["instance"]
        lines = list(batch_rows(built[i], row))
        one = built[i]
        pp = one.instance.settings["pp"]
        head = f"{MODES[one.config.role]}\t\tmodel_parallel_NPU_group: {pp}"
        if pp > 1:
            head += f" pp_stage_boundaries: {','.join(map(str, stage_boundaries(one.shape.n_layers, pp)))}"
        body = "\n".join([head, str(len(lines)), HEADER, *lines])
        write_text(root / "trace" / f"instance_{i}_batch_{counts[i]}.txt", body + "\n")
        counts[i] += 1


def _layer_sequence(one: Built) -> Iterator[tuple[str, str]]:
    """(layer name, kind) of one step in order; kind says which tensor sizes apply."""
    norm = "qk_norm" if one.instance.profile and "qk_norm" in one.instance.profile.linear else ""
    block = [
        "layernorm",
        "qkv_proj",
        *([norm] if norm else []),
        "rotary_emb",
        "attention",
        "o_proj",
        "layernorm",
    ]
    block += ["moe"] if one.shape.is_moe else ["gate_up_proj", "act_fn", "down_proj"]
    yield "embedding", ""
    for _ in range(one.shape.n_layers):
        for name in block:
            yield name, ""
    for name in ("final_layernorm", "lm_head", "sampler"):
        yield name, ""


def _sizes(one: Built, step: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Input and output bytes of every layer on one rank (specification 4.3)."""
    s, e = one.shape, one.elem_bytes
    tp, t = one.instance.settings["tp"], step["tokens"]
    qkv, q = (s.q_dim + 2 * s.kv_dim) // tp, s.q_dim // tp
    rotary = (s.n_heads // tp + max(1, s.n_kv_heads // tp)) * s.head_dim
    hidden, ffn = t * s.hidden * e, t * (s.ffn_dim // tp) * e
    context = 2 * (step["kv_sum"] + step["kv_prefill"] + t) * (s.kv_dim // tp) * one.kv_bytes
    return {
        "embedding": (2 * t * e, hidden),
        "layernorm": (hidden, hidden),
        "final_layernorm": (hidden, hidden),
        "qkv_proj": (hidden, t * qkv * e),
        "qk_norm": (t * (s.q_dim + s.kv_dim) // tp * e, t * (s.q_dim + s.kv_dim) // tp * e),
        "rotary_emb": (t * rotary * e, t * rotary * e),
        "attention": (t * q * e + context, t * q * e),
        "o_proj": (t * q * e, hidden),
        "gate_up_proj": (hidden, 2 * ffn),
        "act_fn": (2 * ffn, ffn),
        "down_proj": (ffn, hidden),
        "moe": (hidden, hidden),
        "lm_head": (hidden, t * (s.vocab // tp) * e),
        "sampler": (t * (s.vocab // tp) * e, 4 * t),
    }


def _time_ns(one: Built, name: str, step: dict[str, Any]) -> int:
    profile = one.instance.profile
    if name == "attention":
        return int(step["attention_ns"])
    if profile is None:
        return 0
    if name in profile.sequence:
        return int(profile.sequence[name].at(float(step["seqs"])))  # type: ignore[arg-type]
    if name in profile.linear:
        return int(profile.linear[name].at(float(step["tokens"])))  # type: ignore[arg-type]
    return 0


def batch_rows(one: Built, step: dict[str, Any]) -> Iterator[str]:
    """The rows of one batch on one rank: layer, time in ns, and where its tensors lie with their bytes."""
    settings = one.instance.settings
    weights = layer_weight_elements(one.shape, settings["tp"], settings["ep_total"])
    sizes = _sizes(one, step)
    layers = list(_layer_sequence(one))
    payload = step["tokens"] * one.shape.hidden * one.elem_bytes
    for k, (name, _) in enumerate(layers):
        reads, writes = sizes[name]
        source = f"REMOTE:{one.config.node}" if k == 0 else "LOCAL"
        target = f"REMOTE:{one.config.node}" if k == len(layers) - 1 else "LOCAL"
        meets = settings["tp"] > 1 and name in ("o_proj", "down_proj")
        comm = ("ALLREDUCE", payload) if meets else ("NONE", 0)
        weight = weights.get(name, 0) * one.elem_bytes
        yield "\t".join(
            map(
                str,
                (
                    f"{name}_{k}",
                    _time_ns(one, name, step),
                    source,
                    reads,
                    "LOCAL",
                    weight,
                    target,
                    writes,
                    *comm,
                    "NONE",
                ),
            )
        )
