"""Result files of engines' clients, and the commands that make them."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sweep.anchors.correction import Anchors, record_of
from sweep.anchors.measurement import measured_width, measurement
from sweep.anchors.points import PointAnchors
from sweep.anchors.readers import read_results
from sweep.catalog import engine_layer
from sweep.estimation.anchoring import Target
from sweep.estimation.arguments import parse
from sweep.estimation.price import Estimate, estimate
from sweep.evaluation import Evaluated, evaluate
from sweep.fidelity import coefficients_for
from sweep.points import price_points
from sweep.verbs.anchor import main
from sweep.verbs.estimate import gathered
from tests.sweep.anchors.measured import (
    ASKED,
    PLACE,
    ROW,
    SGLANG,
    alone,
    priced,
    read_one,
    vllm_result,
)


def test_a_vllm_result_is_read(tmp_path: Path) -> None:
    found = read_one(tmp_path, vllm_result(), PLACE)
    assert found.measured == {"ttft_ms": 520.0, "tpot_ms": 31.0}
    assert {k: found.deployment[k] for k in ("backend", "isl", "osl", "concurrency", "tp")} == {
        "backend": "vllm",
        "isl": 1024,
        "osl": 256,
        "concurrency": 32,
        "tp": 2,
    }
    assert found.formats_unknown


def test_metadata_of_a_vllm_result_wins(tmp_path: Path) -> None:
    stated = {
        "tensor_parallel_size": "4",
        "gpu": "H200",
        "quantization": "fp8",
        "engine": "atom",
        "isl": "1024",
    }
    found = read_one(tmp_path, vllm_result(**stated), PLACE)
    assert found.deployment["tp"] == 4
    assert found.deployment["hardware"] == "H200"
    assert found.deployment["backend"] == "atom"
    assert not found.formats_unknown


def test_a_rate_without_a_limit_is_an_open_load(tmp_path: Path) -> None:
    found = read_one(tmp_path, vllm_result(max_concurrency=None, request_rate=4.0), PLACE)
    assert found.deployment["load"] == "rate"
    assert found.deployment["request_rate"] == 4.0


def test_a_line_of_sglangs_client_is_read(tmp_path: Path) -> None:
    line = json.dumps(SGLANG) + "\n"
    found = read_one(tmp_path, line, {"hardware": "h200"}, "result.jsonl")
    expected = {"backend": "sglang", "tp": 4, "isl": 1000, "osl": 500, "length_range": 0.8, "concurrency": 16}
    assert {k: found.deployment[k] for k in expected} == expected
    assert found.deployment["backend_version"] == "0.5.10"
    assert found.measured == {"ttft_ms": 210.0, "tpot_ms": 11.0}


def test_a_report_of_trtllm_bench_is_read(tmp_path: Path) -> None:
    report = {
        "engine": {
            "model": "Qwen/Qwen3-32B",
            "version": "1.2.0",
            "kv_cache_dtype": "FP8",
            "quantization": "FP8",
        },
        "machine": {"name": "NVIDIA H100 80GB HBM3"},
        "world_info": {"tp_size": 2, "pp_size": 1, "ep_size": None},
        "request_info": {
            "num_requests": 100,
            "avg_num_concurrent_requests": 31.6,
            "avg_input_length": 1024.0,
            "avg_output_length": 256.0,
        },
        "performance": {"request_throughput_req_s": 4.0},
        "streaming_metrics": {"avg_ttft_ms": 300.0, "avg_tpot_ms": 20.0},
    }
    found = read_one(tmp_path, report)
    assert found.deployment["concurrency"] == 32
    assert priced([found], backend="trtllm", precision="fp8", kv_cache_dtype="fp8", num_prompts=100)[
        "tpot_ms"
    ] == pytest.approx(20.0)


def test_an_artifact_of_the_compatible_estimator_is_read(tmp_path: Path) -> None:
    artifact = {
        "backend": "vllm",
        "meta": {
            "model": "qwen3_32b",
            "benchmark_tp": 2,
            "input_len": 1024,
            "output_len": 256,
            "enforce_eager": False,
        },
        "sweep": [{"batch": b, "prefill_ms": 40.0 * b, "decode_ms": 15.0 + 0.2 * b} for b in (1, 8, 64)],
    }
    file = tmp_path / "warmup.json"
    file.write_text(json.dumps(artifact))
    found = read_results(file, PLACE)
    assert [a.deployment["concurrency"] for a in found] == [1, 8, 64]
    assert {a.deployment["load"] for a in found} == {"static"}
    assert Anchors(found).points[0].log_tpot == pytest.approx(
        math.log(15.2 / alone(load="static", concurrency=1)["tpot_ms"]), abs=0.05
    )


def test_an_artifacts_steps_at_other_contexts_and_its_single_point_count(tmp_path: Path) -> None:
    meta = {"model": "qwen3_32b", "tp": 2, "input_len": 1024, "output_len": 256, "batch": 4}
    file = tmp_path / "warmup.json"
    file.write_text(
        json.dumps({"meta": meta, "measured": {"model": {"prefill_ms": 90.0, "decode_ms": 14.0}}})
    )
    (single,) = read_results(file, PLACE)
    assert single.deployment["concurrency"] == 4
    assert single.measured == {"ttft_ms": 90.0, "tpot_ms": 14.0}
    contexts = [{"batch": 8, "context": c, "decode_ms": 15.0} for c in (2048, 4096)]
    sweep_of = [{"batch": 8, "prefill_ms": 300.0, "decode_ms": 14.0}]
    file.write_text(json.dumps({"meta": meta, "sweep": sweep_of, "decode_ctx": contexts}))
    assert [a.deployment["isl"] for a in read_results(file, PLACE)] == [1024, 2048, 4096]


def test_rows_of_a_measured_table_are_anchors(shared: Path) -> None:
    found = read_results(shared / "measured" / "silicon_dev.csv")
    assert len(found) == 1673
    assert not any(a.formats_unknown for a in found)
    assert not Anchors(found, model="qwen3_32b").unused


@pytest.fixture
def unsurfaced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The calibration as it stands where no surface knows a combination: the table of the test took part in their fit."""
    monkeypatch.setattr(engine_layer, "write_nearby", lambda *_: None)
    coefficients_for.cache_clear()
    yield
    coefficients_for.cache_clear()


def test_one_measured_row_in_four_takes_a_fifth_off_the_error_of_the_others(
    shared: Path, unsurfaced: None
) -> None:
    path = shared / "measured" / "silicon_dev.csv"
    table = pl.read_csv(path, infer_schema_length=None)
    kept = np.random.default_rng(0).random(table.height) < 0.25
    anchors = [a for a, keep in zip(read_results(path), kept, strict=True) if keep]
    rest = table.filter(pl.Series(~kept))
    model = price_points(rest)
    scaled = price_points(rest, "anchored", PointAnchors(Anchors(anchors)))
    error = [(frame["tpot_ms"] / rest["measured_tpot_ms"] - 1).abs().median() for frame in (model, scaled)]
    assert error[1] < 0.8 * error[0]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_printed_benchmark_reads_back_as_the_deployment(tmp_path: Path, engine: str) -> None:
    flags = [
        "--model",
        "Qwen/Qwen3-32B-FP8",
        "--hardware",
        "h100",
        "--tp",
        "2",
        "--concurrency",
        "48",
        "--engine",
        engine,
    ]
    words = shlex.split(measurement(flags).clients[0])
    pairs = (
        words[words.index("--tag") + 1].split(",")
        if engine == "sglang"
        else words[words.index("--metadata") + 1 :]
    )
    written = dict(pair.split("=", 1) for pair in pairs)
    tagged = {**SGLANG, "tag": ",".join(pairs), "server_info": {}}
    back = read_one(tmp_path, tagged if engine == "sglang" else vllm_result(**written))
    expected = {
        "backend": engine,
        "tp": 2,
        "concurrency": 48,
        "isl": 1024,
        "osl": 128,
        "model": "Qwen/Qwen3-32B-FP8",
    }
    assert {name: back.deployment[name] for name in expected} == expected
    assert not back.formats_unknown
    regime = Anchors([back]).points[0].regime
    target = estimate(gathered(parse(flags)[1]))
    assert regime.linear == "fp8_block"
    assert not regime.differences(
        Target("qwen3_32b", "h100_sxm", "fitted", target.record, priced_again(target)).regime
    )


def priced_again(result: Estimate) -> Evaluated:
    return evaluate(result.record, coefficients_for("fitted", (result.hardware,)))


@pytest.mark.parametrize(
    ("model", "hardware", "tp", "gpus", "width"),
    [
        *(
            ("qwen3_32b", "h100_sxm", tp, None, width)
            for tp, width in ((1, 1), (2, 2), (4, 4), (6, 2), (8, 4), (16, 4))
        ),
        ("deepseek_v3", "h200_sxm", 8, None, 8),
        ("qwen3_32b", "h100_sxm", 8, 2, 2),
    ],
)
def test_what_is_measured_fits_and_divides_tp(
    model: str, hardware: str, tp: int, gpus: int | None, width: int
) -> None:
    record = record_of({**ROW, "model": model, "hardware": hardware, "tp": tp})
    assert measured_width(record, hardware, gpus) == width


def test_the_verb_prints_reads_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--loads", "8,32"]) == 0
    printed = capsys.readouterr().out
    assert "CHECKPOINT=Qwen/Qwen3-32B\nvllm serve" in printed
    assert printed.count("--max-concurrency") == 2
    file = tmp_path / "run.json"
    file.write_text(json.dumps(vllm_result()))
    place = ["--model", "qwen3_32b", "--hardware", "h100", "--tp", "2"]
    assert main(["--store", str(tmp_path / "s"), "--read", str(file), *place]) == 0
    assert main(["--store", str(tmp_path / "s"), "--list"]) == 0
    assert "TP2, vllm, 1024 -> 256, concurrency 32: TTFT 520 ms, TPOT 31 ms" in capsys.readouterr().out
