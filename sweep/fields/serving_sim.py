"""Inputs of the cluster simulator, `servesweep simulate` (group `serving`): what no other group declares."""

from __future__ import annotations

from typing import Any

from sweep.fields.columns import SIMULATED
from sweep.fields.spec import Field, Scope, Seed

_B = "How does the engine schedule?"
_C = "How is the simulated cluster served?"
_F = "What does a simulation read and write?"


def _field(
    key: str, doc: str, kind: str, question: str, *, scope: Scope, flags: tuple[str, ...] = (), **more: Any
) -> Field:
    """A field named as its flag; `--no-...` among `flags` is the negation."""
    names = flags or (f"--{key.replace('_', '-')}",)
    seeds = tuple(Seed("llmservingsim", flag, negated=flag.startswith("--no-")) for flag in names)
    more.setdefault("moves", SIMULATED)
    return Field(
        key=f"serving.{key}",
        doc=doc,
        kind=kind,  # type: ignore[arg-type]
        question=question,
        scope=scope,
        seeds=seeds,
        column=False,
        **more,
    )


def _switch(
    key: str, doc: str, question: str, default: bool, scope: Scope, *, negation: bool = False
) -> Field:
    flag = f"--{key.replace('_', '-')}"
    flags = (flag, f"--no-{flag[2:]}") if negation else (flag,)
    return _field(key, doc, "bool", question, scope=scope, flags=flags, default=default)


def _plumbing(key: str, doc: str, kind: str, **more: Any) -> Field:
    return _field(key, f"{doc} Moves nothing: plumbing.", kind, _F, scope="run", moves=(), **more)


FIELDS = (
    _switch(
        "reserve_full_isl",
        "Admit a request only if its whole sequence fits the KV pool, not merely its first chunk.",
        _B,
        True,
        "instance",
        negation=True,
    ),
    _switch(
        "enable_prefix_caching",
        "Find full KV blocks of earlier requests by their chained hashes.",
        _B,
        True,
        "instance",
        negation=True,
    ),
    _switch(
        "enable_block_copy",
        "Price one transformer block and repeat it; off draws the routing of every MoE layer by itself.",
        _B,
        True,
        "instance",
        negation=True,
    ),
    _switch(
        "enable_local_offloading",
        "Load each layer's weights from the accelerator's own memory (profiles without weight reads).",
        _C,
        False,
        "instance",
    ),
    _switch(
        "enable_attn_offloading",
        "Run decode attention in processing-in-memory channels of the host memory.",
        _C,
        False,
        "instance",
    ),
    _switch(
        "enable_sub_batch_interleaving",
        "Split a batch in two halves and overlap one half's in-memory attention with the other's layers.",
        _C,
        False,
        "instance",
    ),
    _switch("skip_prefill", "The prompts' KV is there already: decode only.", _B, False, "cluster"),
    _field(
        "network_backend",
        "What prices messages and collectives: the formulas, or the packet simulator ns-3.",
        "choice",
        _C,
        scope="cluster",
        choices=("analytical", "ns3"),
        default="analytical",
    ),
    _field(
        "request_routing_policy",
        "Which instance takes a request, from the live state of all: least load, in turn, at random, fewest requests, "
        "longest cached prefix, cached prefix against blocks in use, or a function of yours (CUSTOM).",
        "choice",
        _C,
        scope="cluster",
        choices=(
            "LOAD",
            "RR",
            "RAND",
            "CUSTOM",
            "round_robin",
            "random",
            "least_loaded",
            "prefix_aware",
            "kv",
        ),
        default="LOAD",
    ),
    _field(
        "expert_routing_policy",
        "Which experts tokens go to: evenly, in turn, at random; CUSTOM names no policy of its own.",
        "choice",
        _C,
        scope="cluster",
        choices=("BALANCED", "RR", "RAND", "CUSTOM"),
        default="BALANCED",
    ),
    _field(
        "prefix_storage",
        "Where a second tier of the prefix cache lives.",
        "choice",
        _C,
        scope="cluster",
        choices=("CPU", "CXL"),
        auto="no second tier",
    ),
    _switch(
        "enable_prefix_sharing",
        "Instances of a node share the second tier of the prefix cache.",
        _C,
        False,
        "cluster",
    ),
    _plumbing("cluster_config", "Cluster configuration (JSON).", "path", auto="one instance, built in"),
    _plumbing("dataset", "Requests to replay.", "path", auto="16 requests per instance, all at once"),
    _plumbing("num_reqs", "Lines of the dataset to read; 0 = all.", "int", default=0, low=0),
    _plumbing("output", "Per-request CSV; {run_id} stands for the run's id.", "path", auto="not written"),
    _plumbing("run_id", "Name of the run, safe as a file name.", "text", auto="time and process"),
    _plumbing("inputs_root", "Folder for what a run generates.", "path", auto="results/runs/<run id>"),
    _plumbing(
        "save_trace_text",
        "Write each batch as readable rows; implies keep_inputs.",
        "bool",
        default=False,
        flags=("--save-trace-text", "--no-save-trace-text"),
    ),
    _plumbing(
        "keep_inputs",
        "Keep what a run generated: cluster, network and memory descriptions, batches.",
        "bool",
        default=False,
        flags=("--keep-inputs", "--no-keep-inputs"),
    ),
    _plumbing(
        "log_interval",
        "Simulated time between heartbeat lines.",
        "float",
        default=1.0,
        low=0,
        low_open=True,
        unit="s",
    ),
    _plumbing(
        "log_level",
        "How much is told on standard error.",
        "choice",
        choices=("WARNING", "INFO", "DEBUG"),
        default="WARNING",
    ),
)
