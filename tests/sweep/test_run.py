"""A sweep's results directory: what is in it, and what it does not depend on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from kernels.layout import RESULT_COLUMNS
from sweep import evaluate as evaluate_module
from sweep.coefficients import coefficients
from sweep.errors import UserError
from sweep.hydra_sweeper import compose_grid
from sweep.paths import conf_dir
from sweep.results import KERNEL_COLUMNS
from sweep.run import Run, evaluate, finish, main, start

GRID = (
    "model=llama_3_1_8b,qwen3_30b_a3b",
    "hardware=h100_sxm,l40s",
    "precision=checkpoint,fp8_kv8",
    "parallelism=tp1,tp8,dp8_ep8",
    "workload.concurrency=1,8,64,512",
)


def a_run(folder: Path, *overrides: str, block_rows: int = 40, workers: int = 2) -> Run:
    settings = (f"output.dir={folder}", f"executor.block_rows={block_rows}", f"executor.workers={workers}")
    run = start(compose_grid([*GRID, *settings, "output.report=false", *overrides]))
    finish(run, *evaluate(run))
    return run


def rows_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "parts" / "*.parquet").sort("row")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return a_run(tmp_path_factory.mktemp("run") / "results")


def test_every_kernel_column_is_declared_and_no_other() -> None:
    assert tuple(c.name for c in KERNEL_COLUMNS) == RESULT_COLUMNS


def test_every_row_is_in_the_result_with_an_answer_or_a_reason(run: Run) -> None:
    frame = rows_of(run.folder)
    assert frame["row"].to_list() == list(range(96))
    assert (frame["feasible"] == (frame["reason"] == "")).all()
    answered = frame.filter(pl.col("feasible"))
    for column in ("ttft_ms", "tpot_ms", "e2e_ms", "output_tok_s_per_gpu", "step_ms"):
        assert answered[column].is_not_null().all()
        assert frame.filter(~pl.col("feasible"))[column].is_null().all()


def test_no_number_is_nan_or_infinite(run: Run) -> None:
    frame = rows_of(run.folder)
    for column in frame.select(pl.col(pl.Float32, pl.Float64)).columns:
        assert frame[column].drop_nulls().is_finite().all(), column


def test_every_axis_is_a_column(run: Run) -> None:
    frame = rows_of(run.folder)
    assert (
        frame.group_by("model", "hardware", "precision", "parallelism", "concurrency").len()["len"].max() == 1
    )
    assert set(frame["tp"]) == {1, 8}


def test_values_do_not_depend_on_block_size_or_workers(run: Run, tmp_path: Path) -> None:
    other = a_run(tmp_path / "other", block_rows=7, workers=1)
    assert_frame_equal(rows_of(run.folder), rows_of(other.folder), check_exact=True)
    assert (run.folder / "frontier.parquet").read_bytes() == (other.folder / "frontier.parquet").read_bytes()


def test_the_same_block_size_gives_the_same_bytes(run: Run, tmp_path: Path) -> None:
    other = a_run(tmp_path / "other", workers=1)
    names = sorted(p.name for p in (run.folder / "parts").iterdir())
    assert names == sorted(p.name for p in (other.folder / "parts").iterdir())


def test_processes_give_the_same_bytes_as_threads(run: Run, tmp_path: Path) -> None:
    other = a_run(tmp_path / "other", "executor=loky")
    names = sorted(p.name for p in (run.folder / "parts").iterdir())
    assert names == sorted(p.name for p in (other.folder / "parts").iterdir())


def test_a_row_by_itself_has_the_values_of_its_block(run: Run) -> None:
    rows = np.array([3, 4, 41, 95])
    assert_frame_equal(
        run.job.evaluator.frame_of(rows),
        rows_of(run.folder).filter(pl.col("row").is_in(rows.tolist())),
        check_exact=True,
    )


MOSTLY_INFEASIBLE = (
    "model=llama_3_1_405b,qwen3_30b_a3b",
    "hardware=l4,rtx_4090,h100_sxm,b200_sxm",
    "precision=checkpoint,nvfp4_kv8",
    "parallelism.tp=1,3,8",
    "disagg.disaggregate=false,true",
    "workload.isl=1000,200000",
    "workload.concurrency=1,16,256",
)


def test_where_a_deployment_cannot_run_no_load_on_it_can() -> None:
    grid = compose_grid(MOSTLY_INFEASIBLE)
    evaluator = evaluate_module.Evaluator(grid, coefficients(grid.hardware, "fitted"))
    block = evaluator.block(0, grid.n_rows)
    alone = np.concatenate([evaluator.block(row, row + 1) for row in range(grid.n_rows)])
    assert np.array_equal(block, alone, equal_nan=True)
    assert 0.5 < (block[:, 0] != 0.0).mean() < 1.0
    assert np.unique(block[:, 0]).size > 4


@pytest.mark.parametrize("keep", ["feasible", "frontier", "top"])
def test_blocks_of_rows_that_cannot_run_count_the_same_reasons_when_less_is_kept(keep: str) -> None:
    grid = compose_grid(MOSTLY_INFEASIBLE)
    evaluator = evaluate_module.Evaluator(grid, coefficients(grid.hardware, "fitted"))
    everything, less = (evaluate_module.BlockJob(evaluator, 100, kept, None) for kept in ("all", keep))
    for index in range(everything.n_blocks):
        expected, got = everything.do(index)[1], less.do(index)[1]
        words = evaluator.frame(*everything.rows_of(index))["reason"].cast(pl.String).to_list()
        assert got.reasons == expected.reasons == {word: words.count(word) for word in sorted(set(words))}
        assert (got.priced, got.meets_slo) == (expected.priced, expected.meets_slo)
        assert got.rows.tolist() == expected.rows.tolist()


def test_any_rows_in_any_order_have_their_values() -> None:
    grid = compose_grid(["model=llama_3_1_8b", "hardware=h100_sxm", "workload.concurrency=range(1,1025)"])
    evaluator = evaluate_module.Evaluator(grid, coefficients(grid.hardware, "fitted"))
    rows = np.array([700, 3, 2, 2, 127, 128, 1023, 0])
    assert_frame_equal(evaluator.frame_of(rows), evaluator.frame(0, 1024)[rows.tolist()], check_exact=True)


@pytest.mark.parametrize("keep", ["feasible", "frontier", "top"])
def test_keeping_less_changes_neither_frontier_nor_counts(run: Run, tmp_path: Path, keep: str) -> None:
    other = a_run(tmp_path / "other", f"output.keep={keep}")
    assert (run.folder / "frontier.parquet").read_bytes() == (other.folder / "frontier.parquet").read_bytes()
    ours, theirs = (json.loads((f / "manifest.json").read_text()) for f in (run.folder, other.folder))
    assert ours["rows_by_reason"] == theirs["rows_by_reason"]
    assert rows_of(other.folder).height < rows_of(run.folder).height


@pytest.mark.parametrize(("block_rows", "workers"), [(96, 1), (40, 2), (7, 2), (1, 1)])
def test_the_cheapest_rows_kept_are_those_of_all_rows(
    run: Run, tmp_path: Path, block_rows: int, workers: int
) -> None:
    other = a_run(
        tmp_path / "other", "output.keep=top", "output.top=3", block_rows=block_rows, workers=workers
    )
    kept = pl.read_parquet(other.folder / "top.parquet")
    contest = ["model", "hardware"]
    expected = (
        rows_of(run.folder)
        .filter(pl.col("feasible") & pl.col("meets_slo") & pl.col("usd_per_m_total").is_not_null())
        .sort("usd_per_m_total", "row")
        .with_columns(top_rank=pl.int_range(1, pl.len() + 1).over(contest))
        .filter(pl.col("top_rank") <= 3)
        .sort("row")
    )
    assert kept.height > 3
    assert_frame_equal(kept, expected, check_exact=True)


@pytest.mark.parametrize("keep", ["frontier", "top"])
def test_parts_hold_the_best_of_their_block_and_no_row_besides(tmp_path: Path, keep: str) -> None:
    loads = ",".join(map(str, range(1, 513)))
    sizes = {}
    for kept in ("all", keep):
        settings = (f"output.keep={kept}", "output.top=5", f"workload.concurrency={loads}")
        run = a_run(tmp_path / kept, *settings, block_rows=4096)
        sizes[kept] = sum(part.stat().st_size for part in (run.folder / "parts").iterdir())
    job = run.job
    for index in range(job.n_blocks):
        begin, stop = job.rows_of(index)
        best = job.evaluator.summariser.summary(job.evaluator.frame(begin, stop)).rows
        held = rows_of(run.folder).filter(pl.col("row").is_between(begin, stop - 1))
        assert held["row"].to_list() == best.tolist()
    assert sizes[keep] < 0.2 * sizes["all"]


def test_the_manifest_counts_every_row_once(run: Run) -> None:
    content = json.loads((run.folder / "manifest.json").read_text())
    assert sum(content["rows_by_reason"].values()) == content["rows"] == 96
    assert {"python", "numpy", "numba", "polars", "hydra-core"} <= set(content["versions"])


def test_an_input_that_changes_nothing_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "model=llama_3_1_8b",
        "moe.ep_load_balance=1.5",
        f"output.dir={tmp_path / 'r'}",
        "output.report=false",
    ]
    assert main(arguments) == 0
    assert "moe.ep_load_balance changes nothing here" in capsys.readouterr().err
    told = json.loads((tmp_path / "r" / "manifest.json").read_text())["inert_inputs"]
    assert [entry["needs"] != "" for entry in told if entry["key"] == "moe.ep_load_balance"] == [True]


def test_a_row_does_not_depend_on_the_row_before_it() -> None:
    sweeps = (
        "workload.concurrency=4,64",
        "workload.num_prompts=null,100",
        "workload.length_range=0.8,1",
        "workload.decode_spread=0,0.2",
        "workload.prefix_hit_rate=0,0.5",
        "workload.load=closed_loop,saturation,rate",
        "workload.request_rate=1,20",
        "workload.arrival=poisson,deterministic",
        "price.utilization=0.5,1",
        "price.usd_per_gpu_hour=1,2",
    )
    grid = compose_grid(["model=qwen3_30b_a3b", "parallelism=tp2_ep2", *sweeps])
    swept = {column for axis in grid.axes for column in axis.columns if axis.radix > 1}
    assert swept == evaluate_module.LOAD_ONLY - {"ttft_ms", "tpot_ms", "e2e_ms"}
    evaluator = evaluate_module.Evaluator(grid, coefficients(grid.hardware, "fitted"))
    block = evaluator.block(0, grid.n_rows)
    alone = np.concatenate([evaluator.block(row, row + 1) for row in range(grid.n_rows)])
    assert np.array_equal(block, alone, equal_nan=True)


BATCH_SWEEPS = {
    "workload.isl": "600,3000",
    "workload.osl": "100,700",
    "engine.max_num_batched_tokens": "0,1024,8192",
    "engine.max_num_seqs": "8,256",
    "engine.max_model_len": "4096,8192",
    "engine.chunked_prefill_size": "0,512",
    "engine.max_prefill_seqs": "0,2",
    "engine.gpu_memory_utilization": "0.7,0.9",
}


@pytest.mark.parametrize("model", ["qwen3_30b_a3b", "gpt_oss_120b", "deepseek_v3"])
@pytest.mark.parametrize("key", list(BATCH_SWEEPS))
def test_what_says_only_what_is_in_a_batch_does_not_change_its_price(model: str, key: str) -> None:
    # the slower axis: every row of a later choice could find steps that an earlier one priced
    others = ("engine.cudagraph_mode=none", "workload.concurrency=1,4,64,300", "hardware=b200_sxm")
    grid = compose_grid([f"model={model}", "parallelism=tp8", f"{key}={BATCH_SWEEPS[key]}", *others])
    swept = [axis for axis in grid.axes if axis.radix > 1 and axis.name != "workload.concurrency"]
    assert [set(axis.columns) <= evaluate_module.BATCH_ONLY for axis in swept] == [True]
    evaluator = evaluate_module.Evaluator(grid, coefficients(grid.hardware, "fitted"))
    alone = np.concatenate([evaluator.block(row, row + 1) for row in range(grid.n_rows)])
    assert np.array_equal(evaluator.block(0, grid.n_rows), alone, equal_nan=True)


def test_every_input_said_to_be_of_the_batch_only_is_tested() -> None:
    columns = {key.split(".")[1] for key in BATCH_SWEEPS}
    assert columns == evaluate_module.BATCH_ONLY - evaluate_module.LOAD_ONLY


def test_the_last_line_names_the_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    assert main(["-m", "model=llama_3_1_8b", "workload.concurrency=1,2", "output.report=false"]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    assert rows_of(folder).height == 2
    assert folder.parent == Path("results")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model=deepseek_v3", "hardware=l40s"], "no row is feasible: 1 x weights do not fit"),
        (["model=llama_3_1_8b", "slo.tpot_ms=0.001"], "the fastest is"),
        (["model=llama_3_1_8b", "hardware=h20"], "price.usd_per_gpu_hour"),
    ],
)
def test_where_nothing_meets_the_slo_it_says_why(
    overrides: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*overrides, "workload.concurrency=1", f"output.dir={tmp_path / 'r'}"]) == 0
    out, err = capsys.readouterr()
    assert words in err
    assert out.splitlines() == [str(tmp_path / "r")]


@pytest.mark.parametrize("address", [(), ("executor.address=tcp://127.0.0.1:9",)])
def test_a_cluster_that_cannot_be_reached_is_one_line(tmp_path: Path, address: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="executor"):
        a_run(tmp_path / "r", "executor=dask", *address)


def test_a_directory_that_holds_a_run_is_not_written_over(run: Run) -> None:
    with pytest.raises(UserError, match="resume"):
        a_run(run.folder)


def test_a_model_of_ones_own_is_a_choice_like_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own" / "model").mkdir(parents=True)
    shipped = conf_dir() / "model" / "llama_3_1_8b.yaml"
    (tmp_path / "own" / "model" / "mine.yaml").write_bytes(shipped.read_bytes())
    arguments = ["--config-dir", str(tmp_path / "own"), "model=mine,llama_3_1_8b", "hardware=h100_sxm"]
    assert main([*arguments, f"output.dir={tmp_path / 'r'}", "output.report=false"]) == 0
    capsys.readouterr()
    rows = pl.read_parquet(tmp_path / "r" / "parts" / "*.parquet")
    assert rows["model"].cast(pl.String).to_list() == ["mine", "llama_3_1_8b"]
    assert rows["ttft_ms"].n_unique() == 1
