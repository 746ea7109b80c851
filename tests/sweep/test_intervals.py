"""Intervals of estimates: the same in every verb, from the calibration, none where there is no engine."""

from __future__ import annotations

import polars as pl
import pytest

from sweep.api import sweep
from sweep.catalog.engine_layer import FAR, NEAR, RELATED, interval
from sweep.estimation.arguments import parse
from sweep.estimation.price import estimate
from sweep.estimation.text import as_json
from sweep.intervals import is_inside
from sweep.points import price_points
from sweep.results import BOUNDS, LOWER_BOUND
from sweep.verbs.estimate import gathered

NAMES = [column.name for column in BOUNDS]
MODELS = "model=qwen3_32b,llama_3_1_8b"


def the_estimate(*argv: str, fidelity: str = "fitted") -> dict[str, object]:
    return as_json(estimate(gathered(parse(argv)[1]), fidelity))


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return sweep(
        MODELS,
        "hardware=h100_sxm,l4",
        "engine=vllm,sglang",
        "parallelism.tp=1,2",
        "workload.concurrency=1,64",
    )


def test_bounds_of_a_sweep_are_the_calibrations_factors_on_each_row(frame: pl.DataFrame) -> None:
    answered = frame.filter(pl.col("feasible"))
    assert answered.height > 0
    for row in answered.iter_rows(named=True):
        doublings = row["doublings_from_measured"]
        inside = doublings is not None and bool(is_inside(doublings))
        found = interval(str(row["model"]), str(row["hardware"]), str(row["engine"]), inside=inside)
        factors = (found.ttft_p10, found.ttft_p90, found.tpot_p10, found.tpot_p90)
        for name, factor in zip(NAMES, factors, strict=True):
            assert row[name] == pytest.approx(factor * row[name.rsplit("_", 1)[0]], rel=1e-6)
        assert row["evidence"] == found.support


def test_a_sweep_says_near_interpolated_and_extrapolated(frame: pl.DataFrame) -> None:
    by_place = {
        (row["model"], row["hardware"]): row["evidence"]
        for row in frame.filter(pl.col("feasible"), pl.col("engine") == "vllm").iter_rows(named=True)
    }
    assert by_place["qwen3_32b", "h100_sxm"] == NEAR
    assert by_place["llama_3_1_8b", "h100_sxm"] == RELATED
    assert by_place["llama_3_1_8b", "l4"] == FAR


def test_an_infeasible_row_has_neither_bounds_nor_evidence(frame: pl.DataFrame) -> None:
    refused = frame.filter(~pl.col("feasible"))
    assert refused.height > 0
    assert refused.select(pl.col(*NAMES, "evidence").null_count().sum()).row(0) == (refused.height,) * 5


def test_the_roofline_is_a_lower_bound_without_interval() -> None:
    frame = sweep("model=qwen3_32b", "hardware=h100_sxm", "fidelity=roofline", "parallelism.tp=4")
    assert frame["evidence"].to_list() == [LOWER_BOUND]
    assert frame.select(NAMES).null_count().row(0) == (1, 1, 1, 1)


def test_an_accelerator_changed_by_hand_was_not_measured() -> None:
    shape = ("model=qwen3_32b", "hardware=h100_sxm", "parallelism.tp=4")
    assert sweep(*shape)["evidence"].to_list() == [NEAR]
    assert sweep(*shape, "hardware.hbm_gb_s=5000")["evidence"].to_list() == [RELATED]
    changed = the_estimate(
        "--model", "qwen3_32b", "--hardware", "h100", "--tp", "4", "hardware.hbm_gb_s=5000"
    )
    assert changed["evidence"] == RELATED


def test_estimate_points_and_sweep_give_one_interval() -> None:
    one = the_estimate(
        "--model",
        "qwen3_32b",
        "--hardware",
        "h100",
        "--tp",
        "4",
        "--concurrency",
        "32",
        "--isl",
        "1024",
        "--osl",
        "256",
    )
    row = {"model": "qwen3_32b", "hardware": "h100_sxm", "tp": 4, "concurrency": 32, "isl": 1024, "osl": 256}
    other = price_points(pl.DataFrame([row])).row(0, named=True)
    for name in NAMES:
        latency = name.rsplit("_", 1)[0]
        assert one[name] / one[latency] == pytest.approx(other[name] / other[latency], rel=1e-9)  # type: ignore[operator]
    assert one["evidence"] == other["evidence"] == NEAR


def test_an_estimate_that_does_not_fit_has_no_interval() -> None:
    one = the_estimate("--model", "llama_3_3_70b", "--hardware", "l4", "--tp", "1")
    assert one["status"] == "infeasible"
    assert not {*NAMES, "evidence"} & set(one)


def test_points_that_are_invalid_have_no_interval() -> None:
    rows = [
        {"model": "no such model", "hardware": "h100_sxm"},
        {"model": "qwen3_32b", "hardware": "h100_sxm", "tp": 4},
    ]
    out = price_points(pl.DataFrame(rows))
    assert out["evidence"].to_list() == [None, NEAR]
    assert out["tpot_ms_p90"].is_null().to_list() == [True, False]
