"""Searching: it finds the frontiers with one evaluation in a hundred, and leaves what a sweep leaves."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sweep.cli import main
from sweep.coefficients import coefficients
from sweep.errors import UserError
from sweep.evaluate import Evaluator
from sweep.hydra_sweeper import compose_grid
from sweep.run import redraw
from sweep.search.run import main as search
from sweep.search.space import Space
from tests.sweep.search.spaces import SPACES, Enumerated

SHORT = ("the main job", "engines, every format", "split pools")
SMALL = (
    "model=llama_3_1_8b,qwen3_30b_a3b",
    "hardware=h100_sxm,l40s,h20",
    "precision=checkpoint,fp8,fp8_kv8",
    "parallelism=tp1,tp2,tp4,tp8",
    "engine.max_num_batched_tokens=1024,2048,4096,8192",
    "workload.concurrency=range(8,257,8)",
    "output.report=false",
)
VAST = [
    f"{key}=range(1,1001)"
    for key in (
        "workload.isl",
        "workload.osl",
        "workload.num_prompts",
        "workload.concurrency",
        "engine.max_num_seqs",
        "engine.max_num_batched_tokens",
        "engine.block_size",
    )
]
FEW = ("search.evaluations=400", "search.generation=50")


@cache
def enumerated(name: str) -> Enumerated:
    return Enumerated.of(*SPACES[name])


@pytest.mark.parametrize("within_slo", [False, True], ids=["", "within the SLO"])
@pytest.mark.parametrize("name", SHORT)
def test_one_row_in_a_hundred_finds_99_percent_of_the_hypervolume(name: str, within_slo: bool) -> None:
    space = enumerated(name)
    shares = space.shares(space.searched(seed=0, within_slo=within_slo), within_slo)
    assert shares.mean() >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("within_slo", [False, True], ids=["", "within the SLO"])
@pytest.mark.parametrize("name", SPACES)
def test_whatever_the_space_four_seeds_of_five_do(name: str, within_slo: bool) -> None:
    space = enumerated(name)
    found = [space.shares(space.searched(seed, within_slo), within_slo) for seed in range(5)]
    print(name, [f"{shares.mean():.4f} ({shares.min():.3f})" for shares in found])
    assert sum(shares.mean() >= 0.99 for shares in found) >= 4


def test_rows_that_lie_far_apart_have_the_values_of_their_block() -> None:
    grid = compose_grid([*SMALL, "disagg.disaggregate=true,false"])
    evaluator = Evaluator(grid, coefficients(grid.hardware, "fitted"))
    rows = np.unique(np.random.default_rng(0).integers(grid.n_rows, size=300))
    assert_frame_equal(evaluator.framed(evaluator.scattered(rows)), evaluator.frame(0, grid.n_rows)[rows])


def run(folder: Path, *overrides: str) -> Path:
    assert search([*SMALL, *FEW, f"output.dir={folder}", *overrides]) == 0
    return folder


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("search") / "r")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def test_the_directory_is_that_of_a_sweep_over_the_rows_evaluated(found: Path) -> None:
    rows = pl.read_parquet(found / "parts" / "*.parquet")
    manifest = json.loads((found / "manifest.json").read_text())
    assert rows["row"].n_unique() == rows.height == manifest["search"]["evaluations"] <= 400
    assert sum(manifest["rows_by_reason"].values()) == rows.height
    assert manifest["rows"] == 2 * 3 * 3 * 4 * 4 * 32
    best = pl.read_parquet(found / "frontier.parquet")
    assert best.filter("frontier_tpot_ms").height > 5
    assert set(best["row"]) <= set(rows["row"])


def test_a_seed_gives_the_same_bytes_again_and_another_other_rows(found: Path, tmp_path: Path) -> None:
    assert content(run(tmp_path / "again", "executor.workers=1")) == content(found)
    assert content(run(tmp_path / "other", "search.seed=1")) != content(found)


@pytest.mark.parametrize("keep", ["all", "frontier"])
def test_a_search_that_lost_its_last_generations_and_a_part_ends_with_the_same_bytes(
    tmp_path: Path, keep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "r", f"output.keep={keep}")
    whole = content(folder)
    parts = sorted((folder / "parts").iterdir())
    for part in (parts[1], *parts[-2:]):
        part.unlink()
    parts[2].write_bytes(parts[2].read_bytes()[:-9])
    (folder / "frontier.parquet").unlink()
    assert main(["resume", str(folder)]) == 0
    assert content(folder) == whole
    assert capsys.readouterr().out.splitlines()[-1] == str(folder)


def test_verbs_that_read_a_sweep_read_a_search(found: Path, tmp_path: Path) -> None:
    assert {path.name for path in redraw(found)} >= {"report.html", "pareto.png", "throughput.png"}
    assert main(["export", str(found), f"--output={tmp_path / 'e'}"]) == 0


def test_an_slo_that_is_named_is_a_constraint(tmp_path: Path) -> None:
    folder = run(tmp_path / "r", "slo.tpot_ms=15", "slo.ttft_ms=400")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["search"]["within_slo"]
    rows = pl.read_parquet(folder / "parts" / "*.parquet")
    later = rows.sort("row").filter(pl.col("feasible"))
    whole = Enumerated.of(*SMALL, "slo.tpot_ms=15", "slo.ttft_ms=400")
    assert later["meets_slo"].mean() > 1.2 * (whole.figures(None, True).excess == 0.0).mean()
    assert whole.shares(rows["row"].sort().to_numpy(), True).min() > 0.95


def test_a_space_that_the_evaluations_cover_is_enumerated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = ("model=llama_3_1_8b", "workload.concurrency=range(1,33)", "output.report=false")
    assert search([*axes, f"output.dir={tmp_path / 'r'}"]) == 0
    assert "exact" in capsys.readouterr().err
    rows = pl.read_parquet(tmp_path / "r" / "parts" / "*.parquet")
    assert rows["row"].to_list() == list(range(32))


def test_a_search_says_how_sure_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "r", "search.evaluations=1500", "search.tolerance=0.02")
    err = capsys.readouterr().err
    assert "their hypervolume grew by" in err and "cannot prove" in err
    told = json.loads((folder / "manifest.json").read_text())["search"]
    assert told["stopped"] == "stalled" and told["evaluations"] < 1500
    shares = [entry["share_of_the_last"] for entry in told["hypervolume"]]
    assert shares == sorted(shares) and shares[-1] == 1.0


@pytest.mark.parametrize(
    ("evaluations", "said"),
    [(1, "of one generation, so whether they still grow is not known"), (40, "over the last generation (")],
)
def test_a_search_of_one_or_two_generations_says_so(
    evaluations: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(
        tmp_path / "r", "hardware=h100_sxm", "model=llama_3_1_8b", f"search.evaluations={evaluations}"
    )
    assert said in capsys.readouterr().err
    growth = json.loads((folder / "manifest.json").read_text())["search"]["growth"]
    assert (growth["mean"] is None) == (growth["generations"] == 0) == (evaluations == 1)


def test_a_search_without_an_answer_is_reported_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "r", "model=llama_3_3_70b", "hardware=l40s", "parallelism=tp1")
    capsys.readouterr()
    assert main(["report", str(folder)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("no row is feasible: ") and told.err.count("\n") == 1


def test_accelerators_without_a_price_are_left_alone(found: Path) -> None:
    rows = pl.read_parquet(found / "parts" / "*.parquet")
    assert "h20" not in rows["hardware"].unique().to_list()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["hardware=h20"], "no accelerator has a price"),
        (["executor=loky"], "threads of this process"),
        (["search.evaluations=0"], "search.evaluations"),
        (["search.tolerance=2"], "search.tolerance"),
        (["search.sed=1"], "nearest: search.seed"),
        (VAST, "row numbers"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    overrides: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["model=llama_3_1_8b", "workload.concurrency=1,2", f"output.dir={tmp_path / 'r'}"]
    assert main(["search", *settings, *overrides]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymoo", None)
    with pytest.raises(UserError, match=r"pip install 'servesweep\[search\]'"):
        run(tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("overrides", "evaluated", "words"),
    [
        (["model=llama_3_3_70b", "workload.concurrency=range(1,1025)"], "300", "none with a price"),
        (["model=llama_3_1_8b", "workload.isl=range(100,4000)"], "300", "grew by"),
    ],
    ids=["nothing fits", "every row is its own scenario"],
)
def test_spaces_without_an_answer_or_without_a_choice_end_well(
    overrides: list[str], evaluated: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["hardware=h100_sxm", "search.evaluations=300", "search.generation=100", "output.report=false"]
    assert main(["search", *overrides, *settings, f"output.dir={tmp_path / 'r'}"]) == 0
    err = capsys.readouterr().err
    assert words in err
    assert f"{evaluated} of them evaluated" in err


def test_a_choice_of_another_scenario_keeps_the_accelerator() -> None:
    space = Space(
        compose_grid(["model=llama_3_1_8b", "hardware=h100_sxm,h200_sxm,h20", "price=on_demand,rental_3y"])
    )
    (pairs,) = space.axes
    names = pairs.axis.labels[0].values
    for choice in range(pairs.axis.radix):
        assert {names[image] for image in pairs.image[choice]} == {names[choice]}
