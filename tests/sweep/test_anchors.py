"""Anchors: results of engines' benchmarks become factors on the estimates of their regime, and of no other."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.layout import N_OUT, RESULT_INDEX
from sweep.anchors.anchor import Anchor, anchor
from sweep.anchors.apply import scale
from sweep.anchors.correction import Anchors, record_of
from sweep.anchors.laws import TPOT_REACH, TTFT_REACH, decode_floor_ms, fit_tp, remaining_width
from sweep.anchors.measurement import measured_width, measurement
from sweep.anchors.points import PointAnchors
from sweep.anchors.readers import read_results
from sweep.anchors.store import load, save
from sweep.api import plan, sweep
from sweep.errors import UserError
from sweep.estimation.anchoring import Target
from sweep.estimation.arguments import parse
from sweep.estimation.price import Estimate, coefficients_of, estimate
from sweep.estimation.simulated import simulation
from sweep.estimation.text import as_json
from sweep.evaluation import Evaluated, evaluate
from sweep.fidelity import coefficients_for
from sweep.points import price_points
from sweep.verbs.anchor import main
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


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return save(tmp_path / "store", [measured()])


# what a measurement does


def test_the_measured_deployment_gets_the_measured_latencies() -> None:
    row = priced([measured()])
    assert row["ttft_ms"] == pytest.approx(500.0)
    assert row["tpot_ms"] == pytest.approx(30.0)
    assert row["evidence"] == "measured near"


def test_throughput_and_cost_follow_the_measured_latencies() -> None:
    row, model = priced([measured()]), alone()
    assert row["e2e_ms"] == pytest.approx(500.0 + 255 * 30.0, rel=1e-6)
    slower = row["e2e_ms"] / model["e2e_ms"]
    assert row["output_tok_s_per_gpu"] == pytest.approx(model["output_tok_s_per_gpu"] / slower)
    assert row["usd_per_m_total"] == pytest.approx(model["usd_per_m_total"] * slower)


def test_memory_is_never_calibrated() -> None:
    row, model = priced([measured()]), alone()
    for column in ("weights_gib_per_gpu", "kv_capacity_tokens", "max_concurrency"):
        assert row[column] == model[column]


def test_sweep_points_and_estimate_agree(store: Path) -> None:
    frame = sweep(
        "model=qwen3_32b",
        "hardware=h100_sxm",
        "parallelism.tp=2",
        "workload.isl=1024",
        "workload.osl=256",
        "workload.length_range=1",
        "workload.concurrency=32",
        "fidelity=anchored",
        f"fidelity.anchors={store}",
    )
    one = estimated("--anchor-store", str(store))
    assert frame["ttft_ms"][0] == pytest.approx(500.0, rel=1e-5)
    assert frame["tpot_ms"][0] == pytest.approx(30.0, rel=1e-5)
    assert one.results["ttft_ms"] == pytest.approx(500.0, rel=0.02)
    assert one.results["tpot_ms"] == pytest.approx(30.0, rel=0.02)
    assert frame["evidence"][0] == one.evidence == "measured near"


def test_a_sweep_scales_the_measured_regime_only(store: Path) -> None:
    axes = (
        "model=qwen3_32b,llama_3_1_8b",
        "hardware=h100_sxm,h200_sxm",
        "engine=vllm,sglang",
        "parallelism.tp=2,4",
        "workload.concurrency=8,32",
    )
    plain, scaled = sweep(*axes), sweep(*axes, "fidelity=anchored", f"fidelity.anchors={store}")
    ratio = (scaled["tpot_ms"] / plain["tpot_ms"]).to_numpy()
    moved = ~np.isclose(ratio, 1.0)
    mine = (plain["model"] == "qwen3_32b") & (plain["hardware"] == "h100_sxm") & (plain["engine"] == "vllm")
    assert moved.sum() == 4
    assert (moved == mine.to_numpy()).all()


def test_an_interval_narrows_with_the_weight_of_the_measurement() -> None:
    def width(row: dict[str, Any]) -> float:
        return math.log(row["tpot_ms_p90"] / row["tpot_ms_p10"])

    near, far = priced([measured()]), priced([measured()], concurrency=256)
    assert width(near) < width(far) < width(alone())


def test_a_correction_fades_with_distance_in_load_shape_and_lengths() -> None:
    full = priced([measured()])["tpot_ms"] / alone()["tpot_ms"]
    for change in ({"concurrency": 256}, {"tp": 8}, {"isl": 8192, "osl": 2048}):
        factor = priced([measured()], **change)["tpot_ms"] / alone(**change)["tpot_ms"]
        assert min(full, 1.0) < factor < max(full, 1.0), change


def test_between_measured_loads_the_correction_is_interpolated() -> None:
    model = {c: alone(concurrency=c)["tpot_ms"] for c in (8, 32, 128)}
    anchors = [
        measured(tpot_ms=1.1 * model[8], concurrency=8),
        measured(tpot_ms=1.4 * model[128], concurrency=128),
    ]
    factor = priced(anchors)["tpot_ms"] / model[32]
    assert 1.1 < factor < 1.4


def test_the_point_of_the_nearest_shape_counts() -> None:
    model = {tp: alone(tp=tp)["tpot_ms"] for tp in (1, 2, 8)}
    anchors = [
        measured(tpot_ms=1.3 * model[1], tp=1, ttft_ms=None),
        measured(tpot_ms=0.5 * model[8], tp=8, ttft_ms=None),
    ]
    assert priced(anchors)["tpot_ms"] > model[2]


# regimes


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "sglang"},
        {"hardware": "h200_sxm"},
        {"model": "qwen3_8b"},
        {"precision": "fp8"},
        {"kv_cache_dtype": "fp8"},
        {"inputs": {"speculative_num_tokens": 3, "speculative_acceptance_rate": 0.7}},
        {"inputs": {"cudagraph_mode": "none"}},
    ],
)
def test_another_regime_changes_nothing(change: dict[str, Any]) -> None:
    assert priced([measured(**change)])["tpot_ms"] == alone()["tpot_ms"]


def test_formats_that_a_source_does_not_say_match_any() -> None:
    unknown = anchor(ROW, {"tpot_ms": 30.0}, "a test", formats_unknown=True)
    assert priced([unknown], precision="fp8")["tpot_ms"] != alone(precision="fp8")["tpot_ms"]


def test_per_operator_kernel_switches_are_a_regime_of_their_own() -> None:
    switched = anchor(ROW, {"tpot_ms": 30.0}, "a test", kernels="mha,moe")
    assert priced([switched])["tpot_ms"] == alone()["tpot_ms"]


def test_a_ttft_with_prompts_from_the_cache_is_not_used_and_its_tpot_is() -> None:
    cached = anchor(ROW, {"ttft_ms": 5.0, "tpot_ms": 30.0}, "a test", cached=True)
    row = priced([cached])
    assert row["ttft_ms"] == alone()["ttft_ms"]
    assert row["tpot_ms"] == pytest.approx(30.0)


# one deployment


def test_what_was_measured_is_told_with_the_engines_version(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweep.estimation.text import print_report

    print_report(estimated("--anchor-store", str(store), "--profiling-mode", "both"))
    text = capsys.readouterr().out
    assert "Anchored to one measured point, confidence high" in text
    assert "model alone" in text
    assert "vllm version not said" in text


def test_another_version_of_the_engine_is_told(tmp_path: Path) -> None:
    store = save(tmp_path, [measured(backend_version="0.12.0")])
    told = "measured under vllm 0.12.0, not the version that is asked for"
    for version, notes in (("0.12.0", ()), ("0.19.0", (told,))):
        result = estimated("--anchor-store", str(store), "--engine-version", version)
        assert result.anchoring is not None
        assert result.anchoring.notes == notes


def test_both_gives_the_model_beside_the_anchored_estimate(store: Path) -> None:
    found = as_json(estimated("--anchor-store", str(store), "--profiling-mode", "both"))["anchored"]
    assert found["model_alone"]["tpot_ms"] == estimated().results["tpot_ms"]
    assert found["confidence"] == "high"


def test_simulate_leaves_anchors_alone(store: Path) -> None:
    result = estimated("--anchor-store", str(store), "--profiling-mode", "simulate")
    assert result.anchoring is None
    assert result.results["tpot_ms"] == estimated().results["tpot_ms"]


def test_benchmark_without_a_measurement_stops() -> None:
    with pytest.raises(UserError, match="nothing is measured here"):
        estimated("--profiling-mode", "benchmark")


def test_benchmark_without_the_regime_stops_and_names_the_difference(store: Path) -> None:
    with pytest.raises(UserError, match="kv_cache: fp8 against bfloat16"):
        estimated("--profiling-mode", "benchmark", "--anchor-store", str(store), "--kv-cache-dtype", "fp8")


def test_without_a_mode_another_regime_is_told_and_the_model_stands(store: Path) -> None:
    result = estimated("--anchor-store", str(store), "--kv-cache-dtype", "fp8")
    assert result.anchoring is None
    assert any("no measured point of this regime" in note for note in result.notes)


def test_confidence_is_low_beyond_twice_the_measured_gpus(store: Path) -> None:
    for tp, confidence in (("4", "interpolated"), ("8", "low")):
        result = estimated("--anchor-store", str(store), "--tp", tp)
        assert result.anchoring is not None
        assert result.anchoring.confidence == confidence


def test_one_artifact_is_used_whatever_its_regime_but_not_of_another_model(tmp_path: Path) -> None:
    other = save(tmp_path / "other.json", [measured(kv_cache_dtype="fp8")])
    result = estimated("--load-benchmark", str(other))
    assert result.anchoring is not None
    assert "another regime" in result.anchoring.notes[0]
    foreign = save(tmp_path / "foreign.json", [measured(model="llama_3_1_8b")])
    with pytest.raises(UserError, match="was measured on llama_3_1_8b, not on qwen3_32b"):
        estimated("--load-benchmark", str(foreign))


def test_a_raw_result_takes_what_it_does_not_say_from_the_deployment(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(vllm_result()))
    result = estimated("--load-benchmark", str(file))
    assert result.anchoring is not None
    assert result.results["tpot_ms"] == pytest.approx(31.0, rel=0.02)


def test_a_measured_prefill_rate_does_not_act_on_a_measured_ttft(store: Path) -> None:
    rate = (
        "--prefill-rate-us-per-token 900 --prefill-rate-lo-tokens 512 --prefill-rate-hi-tokens 4096".split()
    )
    with_rate = estimated("--anchor-store", str(store), *rate).results["ttft_ms"]
    assert with_rate == estimated("--anchor-store", str(store)).results["ttft_ms"]
    assert estimated(*rate).results["ttft_ms"] > estimated().results["ttft_ms"]


def test_a_floor_is_under_every_step(tmp_path: Path, store: Path) -> None:
    floor = save(tmp_path / "floor.json", [measured(tpot_ms=80.0, concurrency=c) for c in (1, 64)])
    raised = estimated("--anchor-store", str(store), "--decode-floor-benchmark", str(floor))
    assert raised.results["tpot_ms"] == pytest.approx(80.0, rel=0.02)
    low = save(tmp_path / "low.json", [measured(tpot_ms=1.0, concurrency=c) for c in (1, 64)])
    kept = estimated("--anchor-store", str(store), "--decode-floor-benchmark", str(low))
    assert kept.results["tpot_ms"] == estimated("--anchor-store", str(store)).results["tpot_ms"]


def test_more_widths_are_fitted_over_tp(tmp_path: Path) -> None:
    one, eight = (
        save(tmp_path / f"{tp}.json", [measured(tpot_ms=t, tp=tp)]) for tp, t in ((1, 60.0), (8, 20.0))
    )
    result = estimated("--load-benchmark", str(one), "--load-benchmark-scaling", str(eight))
    assert result.anchoring is not None
    assert any(note.startswith("over TP") for note in result.anchoring.notes)
    assert 20.0 < result.results["tpot_ms"] < 60.0


def test_what_adds_to_an_anchor_needs_one(store: Path) -> None:
    for flag in ("--load-benchmark-scaling", "--decode-floor-benchmark"):
        with pytest.raises(UserError, match="adds to an anchor"):
            estimated(flag, str(store))


def test_save_benchmark_writes_what_was_used(tmp_path: Path, store: Path) -> None:
    target = tmp_path / "used.json"
    estimated("--anchor-store", str(store), "--save-benchmark", str(target))
    assert [a.measured for a in load(target)[0]] == [measured().measured]


def test_fidelity_anchored_needs_points() -> None:
    with pytest.raises(UserError, match="needs measured points"):
        sweep("model=qwen3_32b", "hardware=h100_sxm", "fidelity=anchored")
    with pytest.raises(UserError, match="needs measured points"):
        price_points(pl.DataFrame([ROW]), "anchored")


def test_a_simulation_beside_it_sees_the_measurement_too(store: Path) -> None:
    load = "--request-rate 2 --arrival-model poisson --des-num-requests 60".split()
    slow = save(store.parent / "slow", [measured(tpot_ms=3.0 * alone()["tpot_ms"])])
    means = []
    for more in ([], ["--anchor-store", str(slow)]):
        asked = gathered(parse([*ASKED, *load, *more])[1])
        result = estimate(asked)
        means.append(simulation(asked, result, coefficients_of(result)).point.latency_ms["tpot_mean"])
    assert result.anchoring is not None
    assert result.anchoring.tpot_factor > 1.5
    assert means[1] / means[0] == pytest.approx(result.anchoring.tpot_factor, rel=0.25)


def test_a_plan_is_not_anchored_in_silence() -> None:
    with pytest.raises(UserError, match="scales what estimate, points and sweep say, not this"):
        plan("model=llama_3_1_8b", "hardware=h100_sxm", "fidelity=anchored")


# laws


def test_weights_halve_over_their_reach() -> None:
    for reach in (TTFT_REACH, TPOT_REACH):
        assert reach.weight(0.0, 0.0, 0.0) == 1.0
        assert reach.weight(reach.load, 0.0, 0.0) == pytest.approx(0.5)
        assert reach.weight(0.0, reach.shape, reach.lengths) == pytest.approx(0.25)


def test_an_interval_is_as_wide_as_the_models_without_weight_and_as_scatter_with_all() -> None:
    assert remaining_width(0.0) == 1.0
    assert remaining_width(1.0) == pytest.approx(0.3)
    assert remaining_width(0.6) == pytest.approx(0.8)


@given(st.floats(1.0, 1e3), st.floats(0.0, 1e3))
def test_the_fit_over_tp_finds_the_law_that_made_its_points(shardable: float, fixed: float) -> None:
    law = fit_tp([1.0, 2.0, 8.0], [shardable / tp + fixed for tp in (1.0, 2.0, 8.0)])
    assert law is not None
    assert law.at(4.0, 1.5) == pytest.approx(shardable / 4.0 + fixed + 1.5, rel=1e-6)


def test_the_fit_over_tp_refuses_what_does_not_shard_and_has_no_negative_rest() -> None:
    assert fit_tp([2.0], [5.0]) is None
    assert fit_tp([1.0, 2.0], [-1.0, -2.0]) is None
    through_origin = fit_tp([1.0, 2.0], [10.0, 4.0])
    assert through_origin is not None
    assert through_origin.fixed_ms == 0.0


def test_a_floor_is_linear_between_points_and_flat_beyond() -> None:
    assert decode_floor_ms([64, 1], [20.0, 10.0], 32.5) == pytest.approx(15.0)
    assert decode_floor_ms([64, 1], [20.0, 10.0], 500.0) == 20.0


def test_scaling_keeps_littles_law_and_a_served_rate() -> None:
    results = np.full((2, N_OUT), 10.0)
    results[:, RESULT_INDEX["e2e_ms"]] = 100.0
    results[:, RESULT_INDEX["saturated"]] = 0.0
    scale(results, np.full(2, 2.0), np.full(2, 3.0), np.array([0.0, 2.0]))
    e2e = results[:, RESULT_INDEX["e2e_ms"]]
    assert e2e.tolist() == [290.0, 290.0]
    closed, rate = results[:, RESULT_INDEX["requests_per_s"]]
    assert closed * e2e[0] == pytest.approx(10.0 * 100.0)
    assert rate == 10.0
    assert results[1, RESULT_INDEX["resident"]] == pytest.approx(29.0)


# result files


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


def test_one_measured_row_in_four_takes_a_fifth_off_the_error_of_the_others(shared: Path) -> None:
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


# the store


def test_reading_a_result_twice_stores_it_once(tmp_path: Path) -> None:
    file = save(tmp_path, [measured()])
    save(tmp_path, [measured(), measured(concurrency=64)])
    assert len(load(file)[0]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["anchors.json"]


def test_a_folder_is_searched_and_what_is_no_result_passed_over(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    save(deep / "own.json", [measured()])
    (tmp_path / "run.json").write_text(json.dumps(vllm_result(**PLACE)))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"rows": []}')
    anchors, passed = load(tmp_path)
    assert len(anchors) == 2
    assert len(passed) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"servesweep_anchors": 2, "anchors": []}, "of another version"),
        ({"servesweep_anchors": 1, "anchors": {}}, "no list"),
        ({"servesweep_anchors": 1, "anchors": [{"deployment": {"modle": "x"}}]}, "modle: is no column"),
        (
            {"servesweep_anchors": 1, "anchors": [{"deployment": ROW, "measured": {"ttft_ms": -1}}]},
            "ttft_ms=-1: is not a time",
        ),
        (
            {"servesweep_anchors": 1, "anchors": [{"deployment": ROW, "measured": {}}]},
            "neither a TTFT nor a TPOT",
        ),
        (
            {"servesweep_anchors": 1, "anchors": [{"deployment": {"model": "m"}, "measured": {}}]},
            "which hardware, isl",
        ),
        ({"a": 1}, "no benchmark result"),
        ([], "no JSON object"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_one_line(tmp_path: Path, content: Any, message: str) -> None:
    file = tmp_path / "store.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message) as caught:
        read_results(file)
    assert "\n" not in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "servesweep_anchors anchors deployment measured meta sweep world_info request_info streaming_metrics engine model_id "
    "total_output_tokens completed mean_ttft_ms mean_tpot_ms max_concurrency request_rate tag server_info tp model".split()
)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, JSON | st.sampled_from([1, "qwen3_32b", 1024]), max_size=12))
def test_no_document_makes_a_reader_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.json"
    file.write_text(json.dumps(document))
    try:
        found = read_results(file, PLACE)
    except UserError as error:
        assert error.message
    else:
        assert all(isinstance(a, Anchor) for a in found)


VALUES = st.sampled_from([0, -1, 1, 7, 1e308, 1 << 40, "", "fp4", "no such thing", "qwen3_32b", True, 0.5])


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from([*ROW, "batch_size", "precision", "kv_cache_dtype", "request_rate", "load"]), VALUES
    )
)
def test_no_stored_value_makes_an_anchor_fail_otherwise(change: dict[str, Any]) -> None:
    try:
        found = anchor({**ROW, **change}, {"ttft_ms": 500.0, "tpot_ms": 30.0}, "a test")
    except UserError:
        return
    known = Anchors([found])
    assert len(known.points) + len(known.unused) == 1
    row = price_points(pl.DataFrame([ROW]), "anchored", PointAnchors(known)).row(0, named=True)
    assert math.isfinite(row["ttft_ms"])
    assert math.isfinite(row["tpot_ms"])
