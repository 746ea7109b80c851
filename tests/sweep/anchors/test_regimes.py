"""A measured point becomes factors on the estimates of its regime, and of no other."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweep.anchors.anchor import anchor
from sweep.api import sweep
from tests.sweep.anchors.measured import (
    ROW,
    alone,
    estimated,
    measured,
    priced,
)


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

    assert width(priced([measured()])) < width(alone())
    # further away the measurement weighs less, and the calibration knows less
    far, unanchored = priced([measured()], concurrency=256), alone(concurrency=256)
    assert width(far) < width(unanchored)
    assert width(far) / width(unanchored) > width(priced([measured()])) / width(alone())


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
