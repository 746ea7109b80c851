"""The benchmark that would measure a deployment as it was priced, with the engine's own client.

Its result file goes back in: `servesweep calibrate` and anchors read what the client saves, and `deployment.csv`
(the same row as a table of `servesweep points`) says of which deployment.
"""

from __future__ import annotations

from typing import Any

from sweep.anchors.readers import MARK
from sweep.export.command import CHECKPOINT, Command
from sweep.export.deployment import Deployment
from sweep.export.documented import documented

RESULT = "result.json"
PROGRAMS = {
    "vllm": ("vllm", "bench", "serve"),
    "sglang": ("python", "-m", "sglang.bench_serving"),
    "trtllm": ("python", "-m", "tensorrt_llm.serve.scripts.benchmark_serving"),
}
CLIENT = {"vllm": "vllm", "sglang": "sglang", "trtllm": "openai"}
RATE_PROMPTS = 1000
"""Requests of a run at an open rate: enough for a p99 that ten requests stand above."""


def benchmark(d: Deployment, result: str = RESULT) -> Command:
    """The client's command for the deployment's load; its result carries the deployment, so that it can be read back."""
    load = d.load
    command = Command(PROGRAMS[d.engine], documented(d.engine).bench)
    command.add("--backend", CLIENT[d.engine])
    command.add("--base-url", "${BASE_URL:-http://127.0.0.1:8000}")
    command.add("--model", CHECKPOINT)
    _lengths(command, d)
    command.add("--num-prompts", _prompts(d))
    if load.kind == "rate":
        command.add("--request-rate", load.request_rate)
        if d.engine != "sglang" and load.burstiness != 1.0:
            command.add("--burstiness", load.burstiness)
    else:
        command.add("--request-rate", "inf")
        if load.kind != "saturation":
            command.add("--max-concurrency", load.concurrency)
    command.add("--seed", 1)
    if d.engine == "sglang":
        command.add("--warmup-requests", min(load.concurrency, 64))
        command.add("--flush-cache")
        command.add("--output-file", result)
        command.add("--tag", ",".join(_metadata(d)))
        return command
    if d.engine == "vllm":
        command.add("--num-warmups", min(load.concurrency, 64))
    command.add("--ignore-eos")
    command.add("--percentile-metrics", "ttft,tpot,itl,e2el")
    command.add("--metric-percentiles", "50,90,95,99")
    command.add("--save-result")
    command.add("--result-dir", ".")
    command.add("--result-filename", result)
    command.add("--metadata", *_metadata(d))
    return command


def _metadata(d: Deployment) -> list[str]:
    """The deployment as key=value: columns of `servesweep points`, and what else sets its regime."""
    regime = {"speculative_num_tokens": d.draft_tokens or None, "attention_backend": d.attention_backend}
    eager = {"cudagraph_mode": d.graph_mode if d.graph_mode != "full" else None}
    described = {MARK: 1, **row(d), **regime, **eager}
    return [f"{k}={v}" for k, v in described.items() if v is not None and k != "id"]


def _prompts(d: Deployment) -> int:
    load = d.load
    if load.num_prompts:
        return load.num_prompts
    if load.kind == "rate":
        return RATE_PROMPTS
    return load.concurrency * (1 if load.kind in ("saturation", "static") else 10)


def _lengths(command: Command, d: Deployment) -> None:
    """Lengths uniform in [range, 1] x nominal, in the client's own terms: SGLang's are that, the others' are symmetric
    about their mean."""
    load = d.load
    if d.engine == "sglang":
        command.add("--dataset-name", "random-ids")
        command.add("--random-input-len", load.isl)
        command.add("--random-output-len", load.osl)
        command.add("--random-range-ratio", load.length_range)
        return
    mean = (1.0 + load.length_range) / 2.0
    command.add("--dataset-name", "random")
    if d.engine == "trtllm":
        command.add("--random-ids")
    command.add("--random-input-len", round(load.isl * mean))
    command.add("--random-output-len", round(load.osl * mean))
    command.add("--random-range-ratio", (1.0 - load.length_range) / (1.0 + load.length_range))


def row(d: Deployment) -> dict[str, Any]:
    """The deployment as one row of a table for `servesweep points`; None where a column says nothing."""
    load = d.load
    out: dict[str, Any] = {
        "id": d.name,
        "mode": "disagg" if d.split else "agg",
        "model": d.checkpoint or d.model.name,
        "hardware": d.hardware,
        "engine": d.engine,
        "isl": load.isl,
        "osl": load.osl,
        "length_range": load.length_range,
        "decode_spread": load.decode_spread,
        "load": load.kind,
        "concurrency": load.concurrency,
        "request_rate": load.request_rate if load.kind == "rate" else None,
        "num_prompts": _prompts(d),
    }
    if not d.formats.own:
        out["linear_dtype"] = d.formats.attention
        out["expert_dtype"] = d.formats.weights if d.is_moe else None
    out["kv_cache_dtype"] = d.formats.kv
    first = d.pools[0]
    if d.split:
        for pool in d.pools:
            out[f"{pool.role}_workers"] = pool.replicas
            out |= {f"{pool.role}_{name}": value for name, value in _widths(d, pool).items()}
        return out
    return (
        out
        | _widths(d, first)
        | {
            "gpu_memory_utilization": float(f"{first.memory_fraction:.6g}"),
            "max_model_len": first.max_model_len,
            "max_num_batched_tokens": first.token_budget,
            "max_num_seqs": first.max_seqs,
        }
    )


def _widths(d: Deployment, pool: Any) -> dict[str, int]:
    widths = {"tp": pool.tp, "pp": pool.pp, "attention_dp": pool.attention_dp}
    return widths | ({"moe_tp": pool.moe_tp, "moe_ep": pool.moe_ep} if d.is_moe else {})
