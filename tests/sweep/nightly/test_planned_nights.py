"""Nights with the real planner: what is planned, what is told, and the exit statuses."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import polars as pl

from nightly.logs import NIGHT, SMALL_PLAN, a_day, contents, requests_of
from sweep.api import lines
from sweep.cli import main
from sweep.nightly.run import run

FILES = {
    "plan.json", "manifest.json", "report.html", "summary.md", "traffic.png", "replay.png", "trend.png",
    "hours.parquet", "hours.csv", "models.parquet", "models.csv", "plans.parquet", "plans.csv", "forecast.parquet",
    "replay.parquet",
}  # fmt: skip


def test_a_night_leaves_its_folder_and_a_second_run_changes_nothing(job, tmp_path: Path) -> None:
    small = job(requests_of(NIGHT, a_day()), report=True)
    plan, folder = run(small)
    assert plan["exit_status"] == 0 and plan["first"]
    assert {path.name for path in folder.iterdir()} == FILES
    page = (folder / "report.html").read_text()
    assert page.count("<img") == 3 and "http" not in page
    row = pl.read_parquet(small.folder / "history.parquet").row(0, named=True)
    answer = plan["models"][0]["answer"]
    assert (row["gpus"], row["usd_per_hour"]) == (answer["gpus"], answer["usd_per_hour"])
    assert row["requests"] == sum(a_day())
    assert plan["models"][0]["replay"]["goodput_share"] >= 0.9
    before = contents(small.folder)
    assert run(small) == (plan, folder)
    assert contents(small.folder) == before
    told = [json.loads(line) for line in (small.folder / "nightly.jsonl").read_text().splitlines()]
    assert "already done" in [one["event"] for one in told]


def test_a_model_without_an_answer_is_exit_status_3_and_others_are_planned(job) -> None:
    log = pl.concat([requests_of(NIGHT, a_day()), requests_of(NIGHT, a_day(), "llama_3_1_405b")]).sort(
        "timestamp"
    )
    plan, _ = run(job(log))
    status = {one["log_name"]: one["status"] for one in plan["models"]}
    assert plan["exit_status"] == 3
    assert status == {"llama_3_1_8b": "planned", "llama_3_1_405b": "no answer"}
    assert "the weights do not fit" in plan["models"][1]["change"]


def test_names_of_a_log_are_data(job) -> None:
    names = ["/etc/passwd", "<script>alert(1)</script>", "a|b`c", "model=x,hardware=y", ""]
    odd = pl.concat([requests_of(NIGHT, [2] * 24, name) for name in names])
    log = pl.concat([requests_of(NIGHT, a_day()), odd]).sort("timestamp")
    plan, folder = run(job(log, report=True))
    assert {one["status"] for one in plan["models"][1:]} == {"not planned"}
    assert "<script>" not in (folder / "report.html").read_text()
    assert "<script>" not in (folder / "summary.md").read_text().replace("\\<", "")


def test_the_announced_fleet_stays_until_something_saves_more_than_the_threshold(job) -> None:
    meanings = {"chat": ("model=llama_3_1_8b", "hardware=h100_sxm,a100_sxm_80")}
    first, _ = run(job(requests_of(NIGHT, a_day(), "chat"), models=meanings))
    day = NIGHT + timedelta(days=1)
    plan, _ = run(job(requests_of(day, a_day(700), "chat"), models=meanings, night=day.isoformat()))
    one, old = plan["models"][0], first["models"][0]
    assert (one["log_name"], one["model"]) == ("chat", "llama_3_1_8b")
    assert one["answer"]["plan"] == old["answer"]["plan"]
    assert 0.0 < one["announced_fleet_load"] <= 1.0
    assert (plan["exit_status"], one["change"]) == (0, "the same plan")


def test_the_command_line_answers_with_its_statuses(job, tmp_path: Path, capsys) -> None:
    job(requests_of(NIGHT, a_day()))
    arguments = [
        "nightly",
        "job=demo",
        f"job.night={NIGHT}",
        f"job.log={tmp_path / 'log.csv'}",
        f"job.folder={tmp_path / 'out'}",
        "output.report=false",
        *lines([SMALL_PLAN]),
    ]
    assert main([*arguments, "job.time_limit_min=0.0001"]) == 1
    assert "run it again to continue" in capsys.readouterr().err
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["night"] == NIGHT.isoformat()
    assert main([*arguments, "slo.tpot_ms=0.1"]) == 3
    told = capsys.readouterr()
    assert told.out.rstrip().endswith(f"out/{NIGHT}")
    assert told.err.startswith(f"servesweep nightly: demo, {NIGHT}: a model has no plan")
    assert main(["nightly", "job=demo", "job.log=absent.csv", "demand.sparee=2"]) == 2
    assert "nearest: demand.spare" in capsys.readouterr().err
    assert main(["nightly", "job=dem"]) == 2
    assert "nearest: demo" in capsys.readouterr().err
