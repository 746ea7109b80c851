"""`servesweep plan` as a person and a program meet it."""

from __future__ import annotations

import json

import polars as pl
import pytest

from sweep import cli
from sweep.planner.question import busiest_minute_per_s, searched
from sweep.traces import Traffic, synthesize

SMALL = (
    "model=llama_3_1_8b",
    "hardware=h100_sxm,l40s",
    "precision=checkpoint",
    "parallelism=tp1",
    "engine.max_num_batched_tokens=2048",
)


def test_a_plan_is_told_to_a_person_and_left_in_a_folder(tmp_path, capsys):
    assert cli.main(["plan", *SMALL, f"output.dir={tmp_path / 'run'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(tmp_path / "run")
    answer = next(line for line in lines if line.startswith("answer"))
    assert " x " in answer and ("h100_sxm" in answer or "l40s" in answer)
    told = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert (
        f"cheaper than the second with probability {told['chance_that_the_winner_is_cheaper']:.0%}" in answer
    )
    assert ("not told apart" in answer) is not told["distinguishable"]
    assert answer in (tmp_path / "run" / "report.html").read_text()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "plans.parquet",
        "deployments.parquet",
        "curve.parquet",
        "tornado.png",
        "plan.json",
        "report.html",
    }
    assert (tmp_path / "run" / "tornado.png").read_bytes().startswith(b"\x89PNG")
    curve = pl.read_parquet(tmp_path / "run" / "curve.parquet")
    assert not curve["within_slo"].all() and curve["within_slo"].any()


def test_an_answer_without_a_second_claims_no_probability(tmp_path, capsys):
    one = ["hardware=h100_sxm", *SMALL[2:]]
    assert cli.main(["plan", SMALL[0], *one, f"output.dir={tmp_path / 'run'}"]) == 0
    answer = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("answer"))
    assert answer == "answer   4 x h100_sxm checkpoint tp1"


def test_json_alone_is_on_stdout_and_its_answer_is_verified(tmp_path, capsys):
    assert cli.main(["plan", "--json", *SMALL, f"output.dir={tmp_path}"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answer"]["simulated"] is True
    assert told["answer"] == told["plans"][0]
    assert told["smallest"]["gpus"] <= told["answer"]["gpus"]
    assert len(told["sensitivity"]) == 11
    assert 0.5 <= told["chance_that_the_winner_is_cheaper"] <= 1.0


def test_no_answer_is_one_line_and_status_three(tmp_path, capsys):
    assert cli.main(["plan", *SMALL, "demand.max_gpus=1", f"output.dir={tmp_path / 'run'}"]) == 3
    told = capsys.readouterr()
    assert (
        told.out == "" and told.err.startswith("servesweep plan: too few GPUs") and told.err.count("\n") == 1
    )
    assert not (tmp_path / "run").exists()


def test_what_a_fleet_sustains_agrees_between_closed_form_and_simulator(capsys):
    assert cli.main(["plan", "--json", *SMALL[:1], "hardware=h100_sxm", *SMALL[2:], "demand.replicas=3"]) == 0
    fleet = json.loads(capsys.readouterr().out)["fleets"][0]
    assert fleet["simulated_requests_per_s"] == pytest.approx(fleet["requests_per_s"], rel=0.15)
    assert fleet["simulated_miss_requests_per_s"] <= fleet["simulated_requests_per_s"] * 1.02


def test_the_search_fills_in_what_the_command_line_leaves_open():
    lines = searched(["model=llama_3_1_8b", "parallelism.tp=2", "demand=rag"], [])
    assert "workload=rag" in lines and any(line.startswith("hardware=glob") for line in lines)
    assert not any(line.startswith("parallelism=") for line in lines)
    assert "slo=none" in searched(["demand=batch"], [])
    assert "slo=none" not in searched(["demand=batch", "slo=relaxed"], [])
    assert any("dp8_ep8" in line for line in searched(["model=deepseek_v3"], []))


def test_a_load_on_the_command_line_replaces_the_one_in_the_file():
    assert "demand.request_rate=null" in searched(["demand.concurrency=5"], [])
    assert "demand.concurrency=null" in searched(["demand=agents", "demand.request_rate=5"], [])
    assert "demand.request_rate=null" in searched(["workload.trace=x.csv"], [])


def test_a_trace_asks_for_the_rate_of_its_busiest_minute():
    steady = synthesize(Traffic(n_requests=1200, rate_per_s=2.0, process="deterministic"))
    assert busiest_minute_per_s(steady) == pytest.approx(2.0, rel=0.05)
    short = synthesize(Traffic(n_requests=20, rate_per_s=2.0, process="deterministic"))
    assert busiest_minute_per_s(short) == pytest.approx(2.0, rel=0.1)
