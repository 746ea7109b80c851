"""The Python interface: functions that return frames, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

from sweep import estimate, frontier, plan, simulate, sweep
from sweep.errors import UserError


def test_a_sweep_is_a_frame_with_a_row_per_combination():
    frame = sweep("model=llama_3_1_8b", {"parallelism.tp": [1, 2], "workload.concurrency": (4, 8)})
    assert frame.height == 4
    assert frame["tp"].to_list() == [1, 1, 2, 2]
    assert frame["ttft_ms"].null_count() == 0


def test_the_frontier_keeps_what_nothing_beats():
    frame = pl.DataFrame(
        {
            "model": ["a", "a", "a", "a", "b"],
            "tpot_ms": [10.0, 20.0, 15.0, None, 99.0],
            "usd_per_m_total": [3.0, 1.0, 3.5, 0.1, 9.0],
        }
    )
    kept = frontier(frame)
    assert kept["tpot_ms"].to_list() == [20.0, 10.0, 99.0]
    assert frontier(frame, by=())["tpot_ms"].to_list() == [20.0, 10.0]


def test_an_estimate_takes_a_mapping_or_a_frame():
    row = {"model": "llama_3_1_8b", "hardware": "h100_sxm", "tp": 1, "isl": 512, "osl": 64, "concurrency": 8}
    one, two = estimate(row), estimate(pl.DataFrame([row, row | {"tp": 3}]))
    assert one["status"].to_list() == ["ok"]
    assert two["status"].to_list() == ["ok", "infeasible"]
    assert one["ttft_ms"][0] == two["ttft_ms"][0]


def test_a_plan_is_a_frame_whose_first_row_is_the_answer():
    frame = plan(
        "model=llama_3_1_8b",
        {"hardware": ["h100_sxm", "l40s"], "precision": "checkpoint", "parallelism": "tp1"},
        {"engine.max_num_batched_tokens": 2048, "demand.simulate": False},
    )
    assert frame["usd_per_hour"].is_sorted() and frame.height >= 2


def test_too_large_a_sweep_is_refused():
    with pytest.raises(UserError, match="max_rows"):
        sweep("grid=small", max_rows=10)


def test_importing_the_package_is_fast_and_submodules_do_not_hide_the_functions():
    program = (
        "import sys, sweep; assert 'polars' not in sys.modules and 'numba' not in sys.modules;"
        "import sweep.frontier, sweep.simulate; from sweep import frontier, simulate;"
        "assert callable(frontier) and callable(simulate)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_simulation_is_a_frame_with_a_row_per_request():
    frame = simulate(
        "model=llama_3_1_8b", {"hardware": "h100_sxm", "workload.concurrency": 4, "workload.osl": 16}
    )
    assert frame.height == 40
    assert (frame["status"] == "finished").all() and frame["TTFT"].min() > 0
    with pytest.raises(UserError, match="one is simulated at a time"):
        simulate("model=llama_3_1_8b", {"parallelism.tp": [1, 2]})


def test_an_estimate_is_scaled_by_measured_points(tmp_path):
    row = {"model": "llama_3_1_8b", "hardware": "h100_sxm", "tp": 1, "isl": 512, "osl": 64, "concurrency": 8}
    plain = estimate(row)
    measured = {"measured_ttft_ms": 1.5 * plain["ttft_ms"][0], "measured_tpot_ms": 1.5 * plain["tpot_ms"][0]}
    pl.DataFrame([row | {"id": 1} | measured]).write_csv(tmp_path / "measured.csv")
    anchored = estimate(row, anchors=tmp_path / "measured.csv")
    assert anchored["tpot_ms"][0] == pytest.approx(1.5 * plain["tpot_ms"][0], rel=1e-3)
