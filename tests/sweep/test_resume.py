"""A killed run, continued, equals one that was never disturbed."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep.errors import UserError
from sweep.evaluate import run_blocks
from sweep.hydra_sweeper import compose_grid
from sweep.run import Run, evaluate, finish, reopen, resume, start
from sweep.saved import dumped, loaded
from tests.waiting import wait_for

OVERRIDES = (
    "model=llama_3_1_8b,qwen3_32b",
    "hardware=h100_sxm,h200_sxm",
    "parallelism=tp1,tp2,tp4",
    "workload.concurrency=1,8,64,512",
    "executor.block_rows=5",
    "output.report=false",
)


def content_of(folder: Path) -> dict[str, bytes]:
    files = [*sorted((folder / "parts").iterdir()), folder / "frontier.parquet"]
    return {file.name: file.read_bytes() for file in files}


def a_run(folder: Path) -> Run:
    return start(compose_grid([*OVERRIDES, f"output.dir={folder}"]))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run = a_run(tmp_path_factory.mktemp("undisturbed") / "run")
    finish(run, *evaluate(run))
    return content_of(run.folder)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=st.lists(st.integers(0, 9), unique=True, max_size=10))
def test_resume_after_any_blocks_equals_an_undisturbed_run(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, bytes], blocks: list[int]
) -> None:
    run = a_run(tmp_path_factory.mktemp("partial") / "run")
    assert len(list(run_blocks(run.job, blocks, run.grid.settings))) == len(blocks)
    assert resume(run.folder) == 0
    assert content_of(run.folder) == undisturbed


def test_resume_computes_only_what_is_missing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    list(run_blocks(run.job, [0, 3, 4], run.grid.settings))
    before = {p.name: p.stat().st_mtime_ns for p in (run.folder / "parts").iterdir()}
    _, figures = evaluate(reopen(run.folder))
    assert figures["resumed_blocks"] == 3
    assert figures["evaluated_rows"] == 48 - 15
    assert all((run.folder / "parts" / name).stat().st_mtime_ns == stamp for name, stamp in before.items())


@pytest.mark.parametrize("damage", ["truncate", "flip", "temporary"])
def test_a_damaged_part_is_repaired(tmp_path: Path, undisturbed: dict[str, bytes], damage: str) -> None:
    run = a_run(tmp_path / "run")
    finish(run, *evaluate(run))
    part = sorted((run.folder / "parts").iterdir())[2]
    content = part.read_bytes()
    if damage == "truncate":
        part.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        part.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    else:
        part.rename(part.with_name(f".tmp-0123-{part.name}"))
    assert resume(run.folder) == 0
    assert content_of(run.folder) == undisturbed


def test_a_process_killed_at_an_instant_resumes_to_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "sweep", *OVERRIDES, f"output.dir={folder}", "executor.workers=1"]
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(folder.glob("parts/part-*")), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / "config.yaml").is_file()
    assert resume(folder) == 0
    assert content_of(folder) == undisturbed


@pytest.mark.parametrize("keep", ["feasible", "frontier", "top"])
def test_a_run_that_keeps_less_resumes_to_the_same_bytes(tmp_path: Path, keep: str) -> None:
    def made(name: str, first: list[int]) -> dict[str, bytes]:
        settings = (f"output.dir={tmp_path / name}", f"output.keep={keep}", "output.top=2")
        run = start(compose_grid([*OVERRIDES, *settings]))
        list(run_blocks(run.job, first, run.grid.settings))
        assert resume(run.folder) == 0
        found = content_of(run.folder)
        top = run.folder / "top.parquet"
        return found | ({"top": top.read_bytes()} if keep == "top" else {})

    assert made("killed", [1, 4, 5, 9]) == made("whole", [])


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    run = a_run(tmp_path / "run")
    finish(run, *evaluate(run))
    assert resume(run.folder) == 0
    assert content_of(run.folder) == undisturbed


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.yaml"):
        resume(tmp_path)


def test_a_configuration_that_is_not_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("servesweep: 0.1.0\naxes: 3\n")
    with pytest.raises(UserError, match="is not the configuration of a run"):
        resume(tmp_path)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    grid = compose_grid(["model=llama_3_1_8b", "workload.concurrency=1,2"])
    content: dict[str, Any] = yaml.safe_load(dumped(grid, {"block_rows": 5}))
    return content


@settings(max_examples=40)
@given(data=st.data())
def test_a_configuration_with_anything_changed_is_read_or_refused(
    document: dict[str, Any], data: st.DataObject
) -> None:
    whole = copy.deepcopy(document)
    keys = data.draw(
        st.sampled_from(
            [["axes", 0, "sets"], ["axes", 1, "labels"], ["base"], ["settings"], ["block_rows"], []]
        )
    )
    junk = st.one_of(
        st.none(), st.integers(-3, 3), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.just({})
    )
    target = whole
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1] if keys else data.draw(st.sampled_from(sorted(whole)))] = data.draw(junk)
    try:
        loaded(yaml.safe_dump(whole).encode(), "config.yaml")
    except UserError as error:
        assert len(str(error).splitlines()) == 1


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file is not a folder"):
        a_run(tmp_path / "file" / "run")
