"""Checks that follow from what users of latency models reported, by the number of the report.

Others of the list are in tests/kernels/test_invariants.py, test_estimate.py and test_user_reports_memory.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sweep.api import sweep
from sweep.collectives import price_collectives
from sweep.hydra_sweeper import compose_grid
from sweep.points import price_points
from sweep.profiles import read_profile
from sweep.run import evaluate, finish, start
from sweep.table_io import read_table
from sweep.validation import figures


def left_out(axis: np.ndarray, times: np.ndarray, to: object, back: object) -> np.ndarray:
    """Relative error of every inner point from its neighbours, interpolated linearly in `to` of the time."""
    share = (axis[1:-1] - axis[:-2]) / (axis[2:] - axis[:-2])
    low, high = to(times[:-2]), to(times[2:])  # type: ignore[operator]
    return back(low + share * (high - low)) / times[1:-1] - 1.0  # type: ignore[operator, no-any-return]


@pytest.mark.parametrize("hardware", ["RTX4090", "RTXPRO6000"])
def test_report_13_attention_is_interpolated_linearly_not_in_logarithms(shared: Path, hardware: str) -> None:
    profile = read_profile(
        shared / "measured/operator_profiles", hardware, "meta-llama/Llama-3.1-8B", "bf16", 1
    )
    rows = [row for slices in profile.attention.values() for row in slices.values() if len(row[0]) > 2]
    linear = np.concatenate([left_out(*row, lambda t: t, lambda t: t) for row in rows])
    logarithmic = np.concatenate([left_out(*row, np.log, np.exp) for row in rows])
    assert np.abs(linear).mean() < 0.04
    assert np.abs(logarithmic).mean() > 1.9 * np.abs(linear).mean()


def test_report_31_ttft_and_tpot_are_judged_apart(shared: Path) -> None:
    names = [figure.name for figure in figures(read_table(shared / "measured/silicon_dev.csv").head(20))]
    assert names == ["ttft_ms", "tpot_ms"]


def test_report_32_an_error_table_is_published() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "validation.md"
    tables = {line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("| ")}
    assert {
        "silicon_dev",
        "amd_dev",
        "throughput_dev",
        "kv_capacity_dev",
        "allreduce_dev",
        "vllm_runs",
    } <= tables


def test_report_33_the_frontier_is_whole_and_what_meets_the_slo_is_marked(tmp_path: Path) -> None:
    settings = (f"output.dir={tmp_path / 'run'}", "output.report=false", "slo.tpot_ms=12", "slo.ttft_ms=null")
    axes = ("model=llama_3_1_8b", "hardware=h100_sxm", "workload.concurrency=1,8,64,256")
    run = start(compose_grid([*axes, *settings]))
    finish(run, *evaluate(run))
    frontier = pl.read_parquet(run.folder / "frontier.parquet").filter("frontier_tpot_ms")
    assert frontier.filter(pl.col("tpot_ms") > 12).height > 0
    assert frontier.filter("meets_slo").height > 0
    assert (frontier["meets_slo"] == (frontier["tpot_ms"] <= 12)).all()


def test_report_40_no_measured_step_beats_the_lower_bound(shared: Path) -> None:
    table = read_table(shared / "measured/silicon_dev.csv").filter(
        (pl.col("mode") == "agg") & (pl.col("client") == "inferencex") & (pl.col("concurrency") <= 256)
    )
    bound = price_points(table, "roofline")
    assert table.height > 900
    assert (table["measured_tpot_ms"] / bound["tpot_ms"]).min() > 1.0


def test_report_45_users_and_lengths_are_enough_for_an_answer_without_hardware() -> None:
    accelerators = "hardware=a100_sxm_80,h100_sxm,h200_sxm,b200_sxm"
    frame = sweep("model=llama_3_1_8b", accelerators, "workload.concurrency=32")
    assert frame["tpot_ms"].is_not_null().all()
    assert frame["tpot_ms"].to_list() == sorted(frame["tpot_ms"].to_list(), reverse=True)


def all_reduce_us(**row: object) -> float:
    return float(price_collectives(pl.DataFrame([{"id": "x", "n_nodes": 1, **row}]))["time_us"][0])


def test_fact_5_the_library_is_the_wrong_all_reduce_for_decode() -> None:
    at = {"hardware": "h100_sxm", "n_gpus": 8}
    small = {i: all_reduce_us(**at, implementation=i, bytes=8192) for i in ("nccl", "vllm", "trtllm")}
    assert small == pytest.approx({"nccl": 15.96, "vllm": 4.98, "trtllm": 3.54}, rel=0.15)
    large = [all_reduce_us(**at, implementation=i, bytes=512 * 1024**2) for i in ("nccl", "vllm", "trtllm")]
    assert large == pytest.approx([2110.0] * 3, rel=0.15)


def busbw_gb_s(hardware: str, n_gpus: int, nvls: str, n_bytes: int = 2**34) -> float:
    us = all_reduce_us(hardware=hardware, n_gpus=n_gpus, implementation="nccl", nvls=nvls, bytes=n_bytes)
    return 2 * (n_gpus - 1) / n_gpus * n_bytes / us / 1e3


def test_fact_6_in_switch_reduction_breaks_the_ring() -> None:
    assert busbw_gb_s("h200_sxm", 8, "on") == pytest.approx(480.0, rel=0.1)
    assert busbw_gb_s("h200_sxm", 8, "off") == pytest.approx(367.0, rel=0.1)
    assert busbw_gb_s("h200_sxm", 4, "auto") == pytest.approx(363.0, rel=0.1)
    assert busbw_gb_s("b200_sxm", 8, "on") == pytest.approx(838.0, rel=0.1)


def test_fact_7_a_pair_of_a_mesh_is_slower_per_byte_than_all_eight() -> None:
    assert busbw_gb_s("mi300x", 2, "auto") == pytest.approx(47.7, rel=0.1)
    assert busbw_gb_s("mi300x", 8, "auto") == pytest.approx(312.9, rel=0.1)


def test_a_tables_narrower_label_is_another_checkpoint_and_a_wider_one_is_not() -> None:
    place = {"hardware": "gb200", "backend": "trtllm", "attention_dp": 4, "moe_ep": 4}
    rows = [
        {"model": "deepseek-ai/DeepSeek-R1", "precision": "fp4", **place},
        {"model": "deepseek-ai/DeepSeek-R1", "precision": "fp8", **place},
        {"model": "openai/gpt-oss-120b", "precision": "fp8", **place},
        {"model": "openai/gpt-oss-120b", "precision": None, **place},
    ]
    fp4, fp8, wider, own = price_points(pl.DataFrame(rows, infer_schema_length=None))["weights_gib_per_gpu"]
    assert fp4 == pytest.approx(0.57 * fp8, rel=0.1)
    assert wider == own
