"""One measured end-to-end point: the deployment it was measured on, its load, and the latencies that came out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.errors import UserError
from sweep.fields import by_name

Scalars = Mapping[str, Any]

POOL_COLUMNS = ("workers", "batch_size", "tp", "pp", "attention_dp", "moe_tp", "moe_ep")
DEPLOYMENT = (
    *"mode model hardware backend backend_version precision linear_dtype expert_dtype kv_cache_dtype".split(),
    *"gpu_memory_utilization max_model_len max_num_batched_tokens max_num_seqs block_size".split(),
    *"isl osl concurrency batch_size load length_range num_prompts request_rate prefix_hit_rate client ttft_stat".split(),
    *"tp pp attention_dp moe_tp moe_ep".split(),
    *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in POOL_COLUMNS),
)
"""Columns of `servesweep points` that describe what was measured."""
NEEDED = ("model", "hardware", "isl", "osl")
LOADS = ("concurrency", "batch_size", "decode_batch_size", "request_rate")
"""One of these says how much load there was."""
MEASURED = ("ttft_ms", "tpot_ms")
LONGEST_TEXT = 400
SLOWEST_MS = 1e9


@dataclass(frozen=True)
class Anchor:
    """A measured point.

    `deployment` has columns of `servesweep points`; `inputs` further inputs of the model by short name (speculation,
    graph mode, attention backend); `measured` some of ttft_ms and tpot_ms, means over requests. `cached` says that
    prompts were found in the prefix cache while measuring: such a TTFT is nobody else's.
    """

    deployment: Scalars
    measured: Mapping[str, float]
    source: str
    inputs: Scalars = field(default_factory=dict)
    cached: bool = False
    kernels: str = ""
    """Kernel switches beyond the registry (an engine's per-operator list); not empty is a regime of its own."""
    formats_unknown: bool = False
    """Whether the source says nothing of weight formats; else a missing one is the checkpoint's own."""

    @property
    def identity(self) -> str:
        """Digest of what was measured and the result: the same point read twice is one point."""
        content = {k: v for k, v in self.as_dict().items() if k != "source"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        """As the store writes it."""
        entry: dict[str, Any] = {
            "deployment": dict(self.deployment),
            "measured": dict(self.measured),
            "source": self.source,
        }
        extra = {
            "inputs": dict(self.inputs),
            "cached": self.cached,
            "kernels": self.kernels,
            "formats_unknown": self.formats_unknown,
        }
        return entry | {name: value for name, value in extra.items() if value}


def anchor(
    deployment: Scalars,
    measured: Mapping[str, Any],
    source: str,
    *,
    inputs: Scalars | None = None,
    cached: bool = False,
    kernels: str = "",
    formats_unknown: bool = False,
    file: str | None = None,
) -> Anchor:
    """An anchor from values of an outside file, checked. Raises UserError that names the field.

    Latencies that are absent are left out; one must be there. Columns that are no deployment's are refused.
    """
    known = {name: _scalar(value, name, file) for name, value in deployment.items() if value is not None}
    unknown = [name for name in known if name not in DEPLOYMENT]
    if unknown:
        raise UserError("is no column of a deployment", file=file, field=unknown[0])
    missing = [name for name in NEEDED if name not in known]
    if not any(name in known for name in LOADS):
        missing.append("concurrency")
    if missing:
        raise UserError(f"does not say which {', '.join(missing)} was measured", file=file)
    latencies = {name: _latency(measured.get(name), name, file) for name in MEASURED}
    found = {name: value for name, value in latencies.items() if value is not None}
    if not found:
        raise UserError("holds neither a TTFT nor a TPOT", file=file)
    more = {name: _input(name, value, file) for name, value in (inputs or {}).items() if value is not None}
    return Anchor(
        known, found, source[:LONGEST_TEXT], more, bool(cached), str(kernels)[:LONGEST_TEXT], formats_unknown
    )


def _scalar(value: Any, name: str, file: str | None) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise UserError("is too long", file=file, field=name)
    if not isinstance(value, (str, int, float, bool)):
        raise UserError("is not a plain value", file=file, field=name)
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError("is not a finite number", file=file, field=name, value=value)
    return value


def _latency(value: Any, name: str, file: str | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < SLOWEST_MS:
        raise UserError("is not a time", file=file, field=name, value=value)
    return float(value)


def _input(name: str, value: Any, file: str | None) -> Any:
    if name not in by_name():
        raise UserError("is no input of the model", file=file, field=name)
    return _scalar(value, name, file)


def from_dict(entry: Any, file: str) -> Anchor:
    """An entry of the store. Raises UserError."""
    if not isinstance(entry, dict):
        raise UserError("an anchor is an object", file=file)
    parts = {name: entry.get(name) or {} for name in ("deployment", "measured", "inputs")}
    for name, part in parts.items():
        if not isinstance(part, dict):
            raise UserError("is not an object", file=file, field=name)
    return anchor(
        parts["deployment"],
        parts["measured"],
        str(entry.get("source", file)),
        inputs=parts["inputs"],
        cached=bool(entry.get("cached", False)),
        kernels=str(entry.get("kernels", "")),
        formats_unknown=bool(entry.get("formats_unknown", False)),
        file=file,
    )
