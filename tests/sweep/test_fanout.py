"""The fan-out of a sweep's candidates to the simulator: choice, resumption, and the joined table."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sweep import run
from sweep.candidates import chosen, record_of, with_neighbours
from sweep.errors import UserError
from sweep.fanout import FOLDER, PICTURE, TABLE, differences, fan_out, sound_files
from sweep.fields import record_dtype
from tests.waiting import wait_for

SWEEP = [
    "model=llama_3_1_8b",
    "hardware=h100_sxm,h200_sxm",
    "workload.concurrency=1,8,64",
    "parallelism.tp=1,2",
    "output.report=false",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("sweep") / "r"
    run.main([*SWEEP, f"output.dir={where}"])
    return where


def doubling(log):
    """A simulator whose TPOT and TTFT are a function of the record; notes every call in `log`."""

    def simulate(record, coefficients, seed):
        with open(log, "a") as file:
            file.write("x")
        assert coefficients.ndim == 2
        if record[record_names.index("concurrency")] == 64:
            return {"why": "too many"}
        return {
            "tpot_ms": 10.0 + record[record_names.index("tp")],
            "ttft_ms": 50.0,
            "output_tok_s_per_gpu": 100.0,
        }

    record_names = list(record_dtype().names)
    return simulate


def forget(folder):
    """Remove what earlier tests simulated."""
    for path in (folder / FOLDER).glob("row-*"):
        path.unlink()


def calls(log):
    return os.path.getsize(log) if os.path.exists(log) else 0


def test_a_record_of_a_row_holds_the_choices_of_its_axes(folder):
    grid = run.reopen(folder).grid
    frame = run.reopen(folder).job.evaluator.frame_of(np.arange(grid.n_rows))
    for row in range(grid.n_rows):
        p = record_of(grid, row).view(record_dtype())[0]
        assert (p["concurrency"], p["tp"]) == (frame["concurrency"][row], frame["tp"][row])


def test_neighbours_are_one_step_away_on_ordered_axes_only(folder):
    grid = run.reopen(folder).grid
    frame = run.reopen(folder).job.evaluator.frame_of(np.arange(grid.n_rows))
    for row in range(grid.n_rows):
        beside = frame[with_neighbours(grid, np.array([row])).tolist()]
        assert beside["hardware"].n_unique() == 1
        steps = [
            (1, 8, 64).index(c) - (1, 8, 64).index(frame["concurrency"][row]) for c in beside["concurrency"]
        ]
        moved = [abs(s) + (t != frame["tp"][row]) for s, t in zip(steps, beside["tp"], strict=True)]
        assert sorted(moved)[0] == 0
        assert max(moved) == 1


def test_candidates_are_the_cheapest_within_the_slo_in_turns_then_spread_over_the_frontier(folder):
    frontier = pl.read_parquet(folder / "frontier.parquet")
    rows = chosen(frontier, 4, ["model"])
    assert len(set(rows.tolist())) == len(rows) <= 4
    meeting = frontier.filter(pl.col("meets_slo")).sort("usd_per_m_total", "row")
    assert rows[0] == meeting["row"][0]
    other = meeting.filter(pl.col("hardware") != meeting["hardware"][0])
    assert rows[1] == other["row"][0]
    assert len(chosen(frontier.clear(), 4, ["model"])) == 0
    doubled = pl.concat(
        [
            frontier,
            frontier.with_columns(
                pl.col("row") + 1000, pl.col("usd_per_m_total") * 9, pl.lit("b").alias("model")
            ),
        ],
        how="vertical_relaxed",
    )
    assert [row >= 1000 for row in chosen(doubled, 4, ["model"])[:2]] == [False, True]


def test_results_join_the_sweep_and_a_second_run_simulates_nothing(folder, tmp_path):
    log = tmp_path / "calls"
    table = fan_out(folder, 2, 1, simulate=doubling(log))
    assert calls(log) == table.height > 2
    done = table.filter(pl.col("des_why_not") == "")
    assert done["tpot_ms_des_vs_closed"].to_list() == pytest.approx(
        [d / c - 1 for d, c in zip(done["des_tpot_ms"], done["tpot_ms"], strict=True)]
    )
    cost = done["usd_per_m_total"] * done["output_tok_s_per_gpu"] / 100.0
    assert done["des_usd_per_m_total"].to_list() == pytest.approx(cost.to_list())
    refused = table.filter(pl.col("concurrency") == 64)
    assert set(refused["des_why_not"]) <= {"too many"}
    assert refused["des_tpot_ms"].null_count() == refused.height
    assert table["des_frontier_tpot_ms"].any()
    assert not refused["des_frontier_tpot_ms"].any()
    assert (folder / PICTURE).read_bytes().startswith(b"\x89PNG")
    assert any(line.startswith("tpot_ms: simulation") for line in differences(table))
    before = (folder / TABLE).read_bytes()
    fan_out(folder, 2, 1, simulate=doubling(log))
    assert calls(log) == table.height
    assert (folder / TABLE).read_bytes() == before


def test_damaged_and_missing_files_are_simulated_again_and_workers_change_nothing(folder, tmp_path):
    log = tmp_path / "calls"
    fan_out(folder, 2, 1, simulate=doubling(tmp_path / "first"))
    before = (folder / TABLE).read_bytes()
    files = sorted((folder / FOLDER).iterdir())
    files[0].write_bytes(files[0].read_bytes()[:-1])
    files[1].unlink()
    (folder / FOLDER / ".tmp-123-row").write_text("half")
    fan_out(folder, 2, 2, simulate=doubling(log))
    assert calls(log) == 2
    assert (folder / TABLE).read_bytes() == before
    assert len(sound_files(folder / FOLDER)) == len(files)
    assert not list((folder / FOLDER).glob(".tmp*"))


def test_a_file_made_from_other_inputs_is_not_used(folder, tmp_path):
    log = tmp_path / "calls"
    table = fan_out(folder, 1, 1, seed=5, simulate=doubling(log))
    assert calls(log) == table.height
    files = [path.name.split(".")[0] for path in (folder / FOLDER).glob("row-*")]
    assert len(files) == len(set(files))
    content = json.loads(next((folder / FOLDER).iterdir()).read_text())
    assert set(content) == {"row", "inputs", "figures"}


def test_the_simulator_agrees_with_the_closed_form_whatever_the_number_of_workers(folder):
    forget(folder)
    one = fan_out(folder, 1, 1)
    forget(folder)
    two = fan_out(folder, 1, 2)
    assert one.equals(two)
    assert one["des_why_not"].to_list() == [""] * one.height
    assert one["tpot_ms_des_vs_closed"].abs().max() < 0.15
    assert one["output_tok_s_per_gpu_des_vs_closed"].abs().max() < 0.15


def test_mistakes_are_told(folder, tmp_path):
    with pytest.raises(UserError, match="at least 1"):
        fan_out(folder, 0)
    with pytest.raises(UserError, match="is not a results directory"):
        fan_out(tmp_path, 3)


SLOW = """
import hashlib, sys, time
from sweep.fanout import fan_out

def slow(record, coefficients, seed):
    time.sleep(0.1)
    drawn = hashlib.sha256(record.tobytes()).digest()
    return {"tpot_ms": 5.0 + drawn[0], "ttft_ms": 50.0 + drawn[1], "output_tok_s_per_gpu": 100.0 + drawn[2]}

if __name__ == "__main__":
    fan_out(sys.argv[1], 6, int(sys.argv[2]), simulate=slow)
"""


def rows_done(folder):
    return len(list((folder / FOLDER).glob("row-*")))


def killed_and_resumed(folder, tmp_path, kills, workers):
    """Kill a fan-out as often as asked, each time a little later, then let it finish; returns its table's bytes."""
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    command = [sys.executable, str(script), str(folder), str(workers)]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    for k in range(kills):
        run_ = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL, env=here)
        before = rows_done(folder)
        wait_for(lambda before=before: rows_done(folder) > before, run_)
        time.sleep(0.013 * k)
        os.killpg(run_.pid, signal.SIGKILL)
        run_.wait()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=here)
    return (folder / TABLE).read_bytes()


def many_rows(tmp_path):
    """A results directory whose fan-out has enough candidates to be killed in the middle."""
    where = tmp_path / "r"
    run.main(
        [
            "model=llama_3_1_8b",
            "hardware=h100_sxm",
            "workload.concurrency=range(1,64,2)",
            "output.report=false",
            f"output.dir={where}",
        ]
    )
    (where / FOLDER).mkdir()
    return where


def check_kills(tmp_path, kills, workers):
    folder = many_rows(tmp_path)
    after = killed_and_resumed(folder, tmp_path, kills, workers)
    done = {path.name: path.read_bytes() for path in (folder / FOLDER).glob("row-*")}
    forget(folder)
    assert killed_and_resumed(folder, tmp_path, 0, 1) == after
    assert {path.name: path.read_bytes() for path in (folder / FOLDER).glob("row-*")} == done


def test_a_fan_out_killed_twice_ends_as_if_it_had_not_been(tmp_path):
    check_kills(tmp_path, 2, 2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_fan_out_killed_twenty_times_ends_as_if_it_had_not_been(tmp_path):
    check_kills(tmp_path, 20, 2)


def test_traffic_and_fleet_of_the_settings_reach_the_simulation(folder, tmp_path):
    from sweep.simulate.deployment import Shape

    plain = Shape.of(run.reopen(folder).grid.settings)
    assert plain == Shape()
    where = tmp_path / "r"
    more = ["workload.lengths=lognormal", "workload.isl_sigma=0.5", "des.instances=2", "des.routing=kv"]
    run.main([*SWEEP, *more, f"output.dir={where}"])
    shape = Shape.of(run.reopen(where).grid.settings)
    assert (shape.lengths, shape.isl_sigma, shape.instances, shape.routing) == ("lognormal", 0.5, 2, "kv")
    forget(folder)
    table, other = fan_out(folder, 1, 1), fan_out(where, 1, 1)
    assert table["row"].to_list() == other["row"].to_list()
    assert other["des_why_not"].to_list() == [""] * other.height
    assert other["des_requests"].to_list() == [2 * n for n in table["des_requests"]]
    assert (other["des_tpot_p99_ms"] != table["des_tpot_p99_ms"]).all()
    with pytest.raises(UserError, match="from a trace"):
        Shape.of({"workload.lengths": "empirical"})
