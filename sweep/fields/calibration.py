"""Anchors and measured artifacts (groups `fidelity` and `bench`): what replaces or scales the model's own figures."""

from __future__ import annotations

from typing import Any

from sweep.fields.columns import SPEED
from sweep.fields.spec import Field, Seed

_Q = "What is it calibrated to?"
PROFILING_MODES = ("benchmark", "simulate", "both")
BENCH_ENGINES = ("vllm", "sglang", "atom")


def _input(key: str, doc: str, kind: str, *seeds: Seed, **more: Any) -> Field:
    return Field(key=key, doc=doc, kind=kind, scope="run", column=False, question=_Q, seeds=seeds, **more)  # type: ignore[arg-type]


def _flag(name: str, **more: Any) -> Seed:
    return Seed("inferasim", name, **more)


FIELDS = (
    _input(
        "fidelity.profiling_mode",
        "benchmark: scaled by a measured anchor; simulate: the model alone; both: one beside the other. Nothing is measured "
        "here: benchmark needs an anchor.",
        "choice",
        _flag("--profiling-mode"),
        choices=PROFILING_MODES,
        auto="benchmark where an anchor is given, else simulate",
        moves=SPEED,
        regime=True,
    ),
    _input(
        "fidelity.anchors",
        "File or folder of measured end-to-end points: the closest one of the same regime scales the estimate.",
        "path",
        _flag("--anchor-store"),
        auto="none",
        moves=SPEED,
        regime=True,
    ),
    _input(
        "fidelity.load_benchmark",
        "One measured artifact to anchor to, past the store and its match of regimes.",
        "path",
        _flag("--load-benchmark"),
        auto="none",
        moves=SPEED,
    ),
    _input(
        "fidelity.load_benchmark_scaling",
        "More artifacts at other TP widths (comma-separated): how the step scales with TP is fitted instead of assumed.",
        "text",
        _flag("--load-benchmark-scaling"),
        auto="none",
        moves=SPEED,
    ),
    _input(
        "fidelity.decode_floor_benchmark",
        "Sharded artifact whose measured decode steps are a floor under every step, by batch.",
        "path",
        _flag("--decode-floor-benchmark"),
        auto="none",
        moves=SPEED,
    ),
    _input(
        "bench.save_benchmark",
        "Where to write the anchor artifact. Moves nothing: an output.",
        "path",
        _flag("--save-benchmark"),
        _flag("--save-profiling", hidden=True),
        auto="not written",
    ),
    _input(
        "bench.profile_only",
        "Whether to stop after measuring. Moves nothing: plumbing of the measurement.",
        "bool",
        _flag("--profile-only", hidden=True),
        default=False,
    ),
    _input(
        "bench.benchmark_gpus",
        "GPUs that a measurement takes. Moves nothing here: it goes into the command that `servesweep anchor` prints.",
        "int",
        _flag("--benchmark-gpus"),
        low=1,
        auto="min(TP, 4), halved until it divides TP",
    ),
    _input(
        "bench.bench_model",
        "Checkpoint to serve while measuring. Moves nothing here: it goes into the command that `servesweep anchor` prints.",
        "text",
        _flag("--bench-model"),
        auto="the model's own",
    ),
    _input(
        "bench.bench_serving_backend",
        "Engine to measure under. Moves nothing here: it goes into the command that `servesweep anchor` prints.",
        "choice",
        _flag("--bench-serving-backend"),
        choices=BENCH_ENGINES,
        default="vllm",
    ),
    _input(
        "bench.inference_bench_layers",
        "Layers chained per timing stack of a measurement. Moves nothing: plumbing of the measurement.",
        "int",
        _flag("--inference-bench-layers"),
        default=4,
        low=1,
    ),
)
