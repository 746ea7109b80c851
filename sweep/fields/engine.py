"""Serving engine: scheduler, memory fraction, graphs (group `engine`)."""

from __future__ import annotations

from sweep.fields.spec import Field, Seed

_Q = "How does the engine schedule?"
_M = "What fits in memory?"
ENGINES = ("vllm", "sglang", "trtllm", "atom")
GRAPH_MODES = ("none", "piecewise", "full")

FIELDS = (
    Field(
        key="engine.engine",
        doc="Serving engine; sets defaults and measured overheads.",
        kind="choice",
        choices=ENGINES,
        default="vllm",
        question=_Q,
    ),
    Field(
        key="engine.engine_version",
        doc="Engine version: memory accounting and overheads depend on it.",
        kind="float",
        default=None,
        auto="the newest with measurements",
        question=_Q,
        unit="major*10000 + minor*100 + patch",
    ),
    Field(
        key="engine.max_num_batched_tokens",
        doc="Token budget of one engine step.",
        kind="int",
        default=None,
        low=0,
        unit="tokens",
        auto="the engine's default (vllm 8192, 2048 below 70 GiB and on A100; sglang 2048 to 16384 by memory; trtllm 8192; atom 16384)",
        question=_Q,
        regime=True,
    ),
    Field(
        key="engine.max_num_seqs",
        doc="Sequences that may run at once in one engine.",
        kind="int",
        default=None,
        low=0,
        unit="seqs",
        auto="unlimited",
        question=_Q,
    ),
    Field(
        key="engine.max_prefill_seqs",
        doc="Most new prompts in one prefill step; 0 = the token budget alone limits.",
        kind="int",
        default=0,
        low=0,
        unit="seqs",
        question=_Q,
        seeds=(Seed("inferasim", "--des-max-prefill-seqs"), Seed("inferasim", "--des-new-seqs-per-step")),
        moves=("ttft_ms",),
    ),
    Field(
        key="engine.chunked_prefill",
        doc="Whether a long prompt may be split over steps.",
        kind="bool",
        default=True,
        question=_Q,
    ),
    Field(
        key="engine.chunked_prefill_size",
        doc="Most prompt tokens of one request in one step; 0 = no limit of its own.",
        kind="int",
        default=0,
        low=0,
        unit="tokens",
        question=_Q,
        seeds=(Seed("inferasim", "--chunked-prefill-size"),),
    ),
    Field(
        key="engine.cudagraph_mode",
        doc="Graph capture: sets the launch overhead of a step.",
        kind="choice",
        choices=GRAPH_MODES,
        auto="the engine's default (full)",
        question=_Q,
        regime=True,
    ),
    Field(
        key="engine.gpu_memory_utilization",
        doc="Share of GPU memory that the engine may claim.",
        kind="float",
        low=0,
        high=1,
        low_open=True,
        auto="the engine's default (vllm 0.90, from 0.21 on 0.92; sglang what its reserve leaves, 0.83 to 0.93; trtllm 0.90 of what is free; atom 0.90)",
        question=_M,
        regime=True,
    ),
    Field(
        key="engine.block_size",
        doc="Tokens per KV block; contexts round up to whole blocks.",
        kind="int",
        default=16,
        low=1,
        unit="tokens",
        question=_M,
    ),
    Field(
        key="engine.max_model_len",
        doc="Longest sequence that the engine must hold.",
        kind="int",
        low=1,
        unit="tokens",
        auto="the workload's longest sequence (isl + osl)",
        question=_M,
    ),
    Field(
        key="engine.enforce_memory",
        doc="Whether rows that do not fit are infeasible; false prices them all the same.",
        kind="bool",
        default=True,
        question=_M,
    ),
)
