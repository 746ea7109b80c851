"""A deployment as engines see it: shape and limits of each pool, number formats, load."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.catalog.hardware import resolve_hardware
from sweep.catalog.models import ModelEntry, resolve_model
from sweep.errors import UserError
from sweep.export.documented import documented
from sweep.export.formats import Formats, formats_of
from sweep.fields.disagg import TRANSFER_BACKENDS
from sweep.fields.engine import ATTENTION_BACKENDS, ENGINES, GRAPH_MODES
from sweep.fields.workload import LOADS
from sweep.memory import account, pool_record

Record = npt.NDArray[Any]

TEMPLATE_TOKENS = 256
"""Room for a chat template and special tokens beyond prompt and output, where no length was given."""
UNLIMITED_SEQS = 1e8
LONGEST_NAME = 48
"""Kubernetes allows 63 characters; suffixes of pools and pods follow."""
ENGINE_BLOCKS = (1, 16)
"""Tokens per KV block that engines take by themselves (1: contiguous, as the compatible estimator counts)."""


@dataclass(frozen=True)
class Pool:
    """Workers of one role; widths as the model counts them, limits of one engine (one attention-DP rank)."""

    role: str
    """serve, prefill or decode."""
    replicas: int
    tp: int
    attention_dp: int
    pp: int
    moe_tp: int
    moe_ep: int
    token_budget: int
    max_seqs: int | None
    memory_fraction: float
    max_model_len: int
    nodes: int
    kv_capacity_tokens: float

    @property
    def group(self) -> int:
        """GPUs of one pipeline stage."""
        return self.tp * self.attention_dp

    @property
    def gpus(self) -> int:
        return self.group * self.pp


@dataclass(frozen=True)
class Load:
    """What is asked of the deployment; lengths are uniform in [length_range, 1] x nominal."""

    kind: str
    isl: int
    osl: int
    length_range: float
    decode_spread: float
    concurrency: int
    num_prompts: int | None
    request_rate: float
    burstiness: float


@dataclass(frozen=True)
class Deployment:
    """Everything that an export needs to know."""

    model: ModelEntry
    checkpoint: str
    """Hugging Face id or path that the engine loads; "" where the person must name one (`formats` says in which format)."""
    hardware: str
    vendor: str
    engine: str
    formats: Formats
    pools: tuple[Pool, ...]
    load: Load
    chunked_prefill: bool
    prefix_caching: bool
    graph_mode: str
    block_size: int | None
    attention_backend: str | None
    kv_offload_gib_per_gpu: float
    draft_tokens: int
    draft: str
    transfer_backend: str
    notes: tuple[str, ...]

    @property
    def is_moe(self) -> bool:
        return bool(self.model.fields["n_moe_layers"])

    @property
    def split(self) -> bool:
        """Whether prefill and decode have pools of their own."""
        return len(self.pools) > 1

    @property
    def gpus(self) -> int:
        return sum(pool.replicas * pool.gpus for pool in self.pools)

    @property
    def name(self) -> str:
        """A name for files and Kubernetes objects: model, accelerator, shape."""
        shapes = [_shape(pool) for pool in self.pools]
        words = [self.model.name, self.hardware, *dict.fromkeys(shapes), self.engine]
        return re.sub("[^a-z0-9]+", "-", "-".join(words).lower())[:LONGEST_NAME].strip("-")


def deployment(
    record: Record, model: str, hardware: str, *, checkpoint: str = "", draft: str = "", replicas: int = 1
) -> Deployment:
    """The deployment of one kernel record (shape (1,)).

    Raises UserError where the accelerator cannot run it, its memory cannot hold it, or a setting has no counterpart in
    the engine.
    """
    p = record[0]
    entry, accelerator = resolve_model(model), resolve_hardware(hardware)
    engine = ENGINES[int(p["engine"])]
    vendor = "amd" if str(accelerator.fields["family"]).startswith("cdna") else "nvidia"
    if vendor not in documented(engine).image:
        raise UserError(
            f"{engine} does not run on {accelerator.name}", field="engine.engine", allowed="vllm, sglang"
        )
    if p["cp"] > 1:
        raise UserError(
            "no engine has context-parallel ranks that are GPUs of their own",
            field="parallelism.cp",
            value=int(p["cp"]),
        )
    pools = _pools(record, accelerator.fields["node_gpus"], replicas)
    formats = formats_of(record, entry)
    offload = float(p["kv_offload_gib_per_gpu"])
    return Deployment(
        model=entry,
        checkpoint=checkpoint or ("" if formats.needs_checkpoint(engine) else _published(entry, model)),
        hardware=accelerator.name,
        vendor=vendor,
        engine=engine,
        formats=formats.loaded_from(checkpoint) if checkpoint else formats,
        pools=pools,
        load=_load(p),
        chunked_prefill=bool(p["chunked_prefill"]),
        prefix_caching=bool(p["prefix_hit_rate"] > 0.0 or offload > 0.0),
        graph_mode="full" if math.isnan(p["cudagraph_mode"]) else GRAPH_MODES[int(p["cudagraph_mode"])],
        block_size=None if p["block_size"] in ENGINE_BLOCKS else int(p["block_size"]),
        attention_backend=_choice(p["attention_backend"], ATTENTION_BACKENDS),
        kv_offload_gib_per_gpu=offload,
        draft_tokens=int(p["speculative_num_tokens"]),
        draft=draft,
        transfer_backend=_choice(p["transfer_backend"], TRANSFER_BACKENDS) or "nixl",
        notes=tuple(_notes(p, pools)),
    )


def _choice(value: float, names: tuple[str, ...]) -> str | None:
    return None if math.isnan(value) else names[int(value)]


def _published(entry: ModelEntry, text: str) -> str:
    """The checkpoint that a model's name means: the id or path that was given, else the catalogue's first id."""
    if "/" in text:
        return text.removesuffix("/config.json")
    return str(entry.fields["hf_ids"] or entry.name).split(",")[0].strip()


def _pools(record: Record, node_gpus: int, replicas: int) -> tuple[Pool, ...]:
    p = record[0]
    if not p["disaggregate"]:
        return (_pool("serve", record, replicas, node_gpus, p["max_num_seqs"]),)
    return tuple(
        _pool(
            role,
            pool_record(record, role),
            int(p[f"{role}_replicas"]) * replicas,
            node_gpus,
            p[f"{role}_batch_size"],
        )
        for role in ("prefill", "decode")
    )


def _pool(role: str, record: Record, replicas: int, node_gpus: int, batch_size: float) -> Pool:
    """One pool, resolved; the longest request has room for a chat template where it fits."""
    record, memory = _sized(record)
    if not memory.fits:
        remedy = f"; it would with {memory.remedies[0]}" if memory.remedies else ""
        raise UserError(f"{memory.verdict}: nothing to export{remedy}")
    derived = resolved(record)
    seqs = min(float(derived["max_seqs"]), math.inf if math.isnan(batch_size) else float(batch_size))
    gpus = int(derived["gpus"])
    return Pool(
        role=role,
        replicas=replicas,
        tp=int(record["tp"][0]),
        attention_dp=int(record["attention_dp"][0]),
        pp=int(record["pp"][0]),
        moe_tp=int(derived["moe_tp"]),
        moe_ep=int(derived["moe_ep"]),
        token_budget=int(derived["token_budget"]),
        max_seqs=int(seqs) if seqs < UNLIMITED_SEQS else None,
        memory_fraction=math.floor(memory.memory_fraction * 1e4) / 1e4,
        max_model_len=int(memory.max_model_len),
        nodes=math.ceil(gpus / node_gpus),
        kv_capacity_tokens=memory.kv_capacity_tokens,
    )


def _sized(record: Record) -> tuple[Record, Any]:
    """The record with the length that will be written, and its memory account."""
    if math.isnan(record["max_model_len"][0]):
        roomy = record.copy()
        longest = record["isl"] + record["osl"]
        roomy["max_model_len"] = np.minimum(longest + TEMPLATE_TOKENS, record["max_position"])
        memory = account(roomy)
        if memory.fits:
            return roomy, memory
    return record, account(record)


def resolved(record: Record) -> Any:
    """The derived record (kernels.layout.DERIVED) of one input record."""
    from kernels.layout import DERIVED
    from kernels.resolve import resolve

    derived = np.zeros(1, DERIVED)
    resolve(record[0], derived[0])
    return derived[0]


def _load(p: Any) -> Load:
    return Load(
        kind=LOADS[int(p["load"])],
        isl=int(p["isl"]),
        osl=int(p["osl"]),
        length_range=float(p["length_range"]),
        decode_spread=float(p["decode_spread"]),
        concurrency=int(p["concurrency"]),
        num_prompts=None if math.isnan(p["num_prompts"]) else int(p["num_prompts"]),
        request_rate=float(p["request_rate"]),
        burstiness=float(p["burstiness"]),
    )


def _notes(p: Any, pools: tuple[Pool, ...]) -> list[str]:
    last = pools[-1]
    held = last.kv_capacity_tokens * last.attention_dp * last.replicas
    asked = float(p["concurrency"]) * (p["isl"] + p["osl"])
    if LOADS[int(p["load"])] == "closed_loop" and asked > held:
        return [
            f"{p['concurrency']:,.0f} requests in flight are more than its KV cache holds: some will wait"
        ]
    return []


def _shape(pool: Pool) -> str:
    widths = (("tp", pool.tp), ("dp", pool.attention_dp), ("pp", pool.pp), ("ep", pool.moe_ep))
    return "".join(f"{name}{n}" for name, n in widths if n > 1 or name == "tp")
