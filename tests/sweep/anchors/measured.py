"""Measured points and result files for the tests of anchors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl

from sweep.anchors.anchor import Anchor, anchor
from sweep.anchors.correction import Anchors
from sweep.anchors.points import PointAnchors
from sweep.anchors.readers import read_results
from sweep.estimation.arguments import parse
from sweep.estimation.price import Estimate, estimate
from sweep.points import price_points
from sweep.verbs.estimate import gathered

ROW: dict[str, Any] = {
    "model": "qwen3_32b",
    "hardware": "h100_sxm",
    "backend": "vllm",
    "tp": 2,
    "isl": 1024,
    "osl": 256,
    "concurrency": 32,
    "length_range": 1.0,
}
ASKED = "--model qwen3_32b --hardware h100 --tp 2 --isl 1024 --osl 256 --concurrency 32 --max-num-batched-tokens 8192".split()


def measured(ttft_ms: float | None = 500.0, tpot_ms: float | None = 30.0, **change: Any) -> Anchor:
    inputs = change.pop("inputs", {})
    return anchor({**ROW, **change}, {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms}, "a test", inputs=inputs)


def priced(anchors: list[Anchor], **change: Any) -> dict[str, Any]:
    rows = pl.DataFrame([{**ROW, **change}])
    return price_points(rows, "anchored", PointAnchors(Anchors(anchors))).row(0, named=True)


def alone(**change: Any) -> dict[str, Any]:
    return price_points(pl.DataFrame([{**ROW, **change}])).row(0, named=True)


def estimated(*argv: str) -> Estimate:
    return estimate(gathered(parse([*ASKED, *argv])[1]))


def vllm_result(**change: Any) -> dict[str, Any]:
    return {
        "date": "20261129-120000",
        "backend": "openai",
        "model_id": "Qwen/Qwen3-32B",
        "num_prompts": 320,
        "request_rate": "inf",
        "max_concurrency": 32,
        "completed": 320,
        "total_input_tokens": 320 * 1024,
        "total_output_tokens": 320 * 256,
        "mean_ttft_ms": 520.0,
        "median_ttft_ms": 400.0,
        "mean_tpot_ms": 31.0,
        **change,
    }


def read_one(
    tmp_path: Path, content: Any, fill: dict[str, Any] | None = None, name: str = "result.json"
) -> Anchor:
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    (found,) = read_results(file, fill)
    return found


PLACE = {"hardware": "h100_sxm", "tp": 2}


SGLANG = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": math.inf,
    "max_concurrency": 16,
    "random_input_len": 1000,
    "random_output_len": 500,
    "random_range_ratio": 0.8,
    "completed": 160,
    "total_input_tokens": 144000,
    "total_output_tokens": 72000,
    "mean_e2e_latency_ms": 5000.0,
    "mean_ttft_ms": 210.0,
    "mean_tpot_ms": 11.0,
    "server_info": {"model_path": "Qwen/Qwen3-32B", "tp_size": 4, "version": "0.5.10"},
}
