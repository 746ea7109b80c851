"""The picture, the report and the table of a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sweep.axes import Grid, Label
from sweep.cli import main
from sweep.errors import UserError
from sweep.frontier import COST
from sweep.hydra_sweeper import compose_grid
from sweep.plots import Pair, pareto_png
from sweep.report.frontier import report_html
from sweep.run import Run, evaluate, finish, frontier_frame, redraw, start
from sweep.scenarios import design_columns
from sweep.tables import best_deployments, text

OVERRIDES = (
    "model=llama_3_1_8b,qwen3_32b",
    "hardware=h100_sxm,h200_sxm,l40s",
    "parallelism=tp1,tp2",
    "workload.concurrency=1,8,64",
)
NASTY = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return start(compose_grid([*OVERRIDES, f"output.dir={tmp_path_factory.mktemp('run') / 'results'}"]))


@pytest.fixture(scope="module")
def frame(run: Run) -> pl.DataFrame:
    summary, figures = evaluate(run)
    finish(run, summary, figures)
    return frontier_frame(run, summary)


def points_of(page: str) -> dict[str, dict[str, list[object]]]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    columns: dict[str, dict[str, list[object]]] = json.loads(found[1])["columns"]
    return columns


def test_a_run_leaves_a_picture_and_a_report(run: Run, frame: pl.DataFrame) -> None:
    assert (run.folder / "pareto.png").read_bytes().startswith(b"\x89PNG")
    assert (run.folder / "report.html").read_text().startswith("<!doctype html>")


def test_the_report_of_a_small_sweep_has_every_feasible_row(run: Run, frame: pl.DataFrame) -> None:
    columns = points_of((run.folder / "report.html").read_text())
    rows = pl.read_parquet(run.folder / "parts" / "*.parquet").filter("feasible").sort("row")
    assert columns["row"]["values"] == rows["row"].to_list()
    assert columns["concurrency"]["values"] == rows["concurrency"].to_list()
    words = columns["hardware"]["words"]
    assert [words[code] for code in columns["hardware"]["codes"]] == rows["hardware"].to_list()  # type: ignore[call-overload]


def test_the_report_of_a_large_sweep_has_its_frontiers_and_says_so(run: Run, frame: pl.DataFrame) -> None:
    page = report_html(frame, frame, run.grid, {"": 1_000_000}).decode()
    assert points_of(page)["row"]["values"] == frame["row"].to_list()
    assert "all 1,000,000" in page


def test_costs_at_other_prices_follow_from_the_price_that_was_paid(run: Run, frame: pl.DataFrame) -> None:
    columns = points_of((run.folder / "report.html").read_text())
    paid = {"h100_sxm": 3.92, "h200_sxm": 3.99, "l40s": 1.52}
    words, codes = columns["hardware"]["words"], columns["hardware"]["codes"]
    for code, usd in zip(codes, columns["usd_per_gpu_hour"]["values"], strict=True):
        assert usd == paid[str(words[code])]  # type: ignore[call-overload]


def test_the_report_loads_nothing_from_the_network(run: Run, frame: pl.DataFrame) -> None:
    page = (run.folder / "report.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]+(src|href)\s*=(?!\"data:)", page)
    assert not re.search(
        r"(https?:)?//[a-z]+\.", re.sub(r'<script id="data".*?</script>', "", page, flags=re.DOTALL)
    )


def with_label(grid: Grid, frame: pl.DataFrame, name: str) -> tuple[Grid, pl.DataFrame]:
    """The same run with its first model called `name`."""
    models = (name, *grid.axes[0].labels[0].values[1:])
    axis = replace(grid.axes[0], labels=(Label("model", models), *grid.axes[0].labels[1:]))
    renamed = pl.Series("model", [models[i] for i in frame["model"].to_physical()], dtype=pl.Enum(models))
    return replace(grid, axes=(axis, *grid.axes[1:])), frame.with_columns(renamed)


def test_strings_in_the_report_are_data_not_markup(run: Run, frame: pl.DataFrame) -> None:
    grid, renamed = with_label(run.grid, frame, NASTY)
    page = report_html(renamed, renamed, grid, {NASTY: 3}, folder=NASTY).decode()
    assert NASTY not in page
    assert NASTY in points_of(page)["model"]["words"]


def test_a_frame_without_prices_has_no_picture(run: Run, frame: pl.DataFrame) -> None:
    assert pareto_png(frame.with_columns(pl.lit(None, pl.Float32).alias(COST)), run.grid) is None


def test_a_sweep_is_drawn_again_with_the_pictures_that_it_leaves_out(run: Run, frame: pl.DataFrame) -> None:
    before = (run.folder / "report.html").read_bytes()
    drawn = {path.name for path in redraw(run.folder)}
    assert drawn == {"report.html", "pareto.png", "throughput.png", "breakdown.png"}
    assert (run.folder / "report.html").read_bytes() == before
    assert all(
        (run.folder / name).read_bytes().startswith(b"\x89PNG") for name in drawn if name.endswith(".png")
    )


def test_a_report_without_an_answer_says_so(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_factory.mktemp("slow") / "run"
    overrides = ["model=llama_3_1_8b", "hardware=h100_sxm", "slo.tpot_ms=0.01", f"output.dir={folder}"]
    assert main(overrides) == 0
    told = "no deployment with a price meets the SLO; the fastest is "
    assert told in capsys.readouterr().err
    assert main(["report", str(folder)]) == 0
    drawn = capsys.readouterr()
    assert told in drawn.err
    assert "throughput.png" in drawn.out


def test_a_folder_that_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a results directory"):
        redraw(tmp_path)


@pytest.mark.parametrize("more_is_better", [False, True])
def test_the_frontier_of_a_pair_is_what_nothing_beats(more_is_better: bool) -> None:
    random = np.random.default_rng(3)
    x, y = random.integers(1, 30, 200).astype(float), random.integers(1, 30, 200).astype(float)
    kept = Pair("x", "y", "x", more_is_better=more_is_better).frontier(x, y)
    sign = -1.0 if more_is_better else 1.0
    beaten = [
        any((sign * x <= sign * a) & (sign * y <= sign * b) & ((x != a) | (y != b)))
        for a, b in zip(x, y, strict=True)
    ]
    assert {(x[i], y[i]) for i in kept} == {
        (a, b) for a, b, lost in zip(x, y, beaten, strict=True) if not lost
    }


def test_the_same_frame_gives_the_same_picture(run: Run, frame: pl.DataFrame) -> None:
    assert pareto_png(frame, run.grid) == (run.folder / "pareto.png").read_bytes()


def test_the_table_holds_the_cheapest_of_each_accelerator_that_meets_the_slo(
    run: Run, frame: pl.DataFrame
) -> None:
    rows = pl.read_parquet(run.folder / "parts" / "*.parquet").filter(
        pl.col("meets_slo") & pl.col(COST).is_not_null()
    )
    expected = rows.group_by("model", "hardware").agg(pl.col(COST).min()).sort("model", COST)
    best = best_deployments(frame, run.grid, per_scenario=99)
    assert best.select("model", "hardware", COST).sort("model", COST).rows() == expected.rows()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (0.01234, "0.0123"), (1234.5, "1,234"), (2048, "2,048"), (True, "true"), ("tp1", "tp1")],
)
def test_figures_read_well(value: object, expected: str) -> None:
    assert text(value) == expected


@pytest.mark.parametrize(
    ("overrides", "shown"),
    [
        ("parallelism=tp1,tp2", ["hardware", "precision", "parallelism", "concurrency"]),
        ("precision=checkpoint,fp8 parallelism.tp=1,2", ["hardware", "precision", "tp", "concurrency"]),
        (
            "parallelism=tp1,tp2 precision.kv_cache_dtype=fp8,bfloat16",
            ["hardware", "parallelism", "kv_cache_dtype", "concurrency"],
        ),
        ("engine=vllm,sglang", ["hardware", "precision", "parallelism", "engine", "concurrency"]),
    ],
)
def test_a_deployment_is_told_by_what_was_swept(overrides: str, shown: list[str]) -> None:
    grid = compose_grid(["model=llama_3_1_8b", "hardware=h100_sxm", *overrides.split()])
    assert design_columns(grid) == shown
