"""The report of a plan: the answer, curves, the simulated fleet over time, sensitivity."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweep.planner.question import question
from sweep.planner.run import Planned, planned, write
from sweep.report.plan import averaged, plan_html

ASKED = (
    "model=llama_3_1_8b hardware=h100_sxm,l40s precision=checkpoint parallelism=tp1 engine.max_num_batched_tokens=2048 "
    "demand.request_rate=8 demand.short_list=2"
)


@pytest.fixture(scope="module")
def done() -> Planned:
    return planned(question(ASKED.split()))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content


def test_a_plan_leaves_a_report_with_its_answer(
    done: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (write(done) / "report.html").read_text()
    for plan in done.frame()["plan"]:
        assert plan in page
    data = data_of(page)
    assert {one["name"].split()[0] for one in data["curve"]} == {"h100_sxm", "l40s"}
    assert data["slo"]["tpot_ms"] == done.answer.question.limits.tpot_ms
    assert [s["input"] for s in data["sensitivity"]] == [s.name for s in done.insights.swings]


def test_the_timeline_carries_the_planned_load(done: Planned) -> None:
    timeline = data_of(plan_html(done).decode())["timeline"]
    seconds, output = np.array(timeline["seconds"]), np.array(timeline["output_tok_s"])
    assert len(seconds) == len(output) == len(timeline["waiting"]) <= 400
    middle = output[len(output) // 4 : -len(output) // 4]
    record = done.answer.question.candidates.records[0]
    expected = done.winner.rate_per_s * float(record["osl"]) * (1.0 + float(record["length_range"])) / 2.0
    assert middle.mean() == pytest.approx(expected, rel=0.15)


def test_averages_keep_the_mean_of_whole_runs() -> None:
    values = np.arange(1000.0)
    assert averaged(values, 400).tolist() == values[:999].reshape(-1, 3).mean(axis=1).tolist()
    assert averaged(values[:10], 400).tolist() == values[:10].tolist()
