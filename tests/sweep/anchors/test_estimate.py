"""Anchors on the command line of one estimate."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sweep.anchors.store import load, save
from sweep.api import plan, sweep
from sweep.errors import UserError
from sweep.estimation.arguments import parse
from sweep.estimation.price import coefficients_of, estimate
from sweep.estimation.simulated import simulation
from sweep.estimation.text import as_json
from sweep.points import price_points
from sweep.verbs.estimate import gathered
from tests.sweep.anchors.measured import (
    ASKED,
    ROW,
    alone,
    estimated,
    measured,
    vllm_result,
)


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
