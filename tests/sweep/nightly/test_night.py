"""Nights from end to end: what is kept, what a second run does, and each thing that can go wrong with a log."""

from __future__ import annotations

import errno
import gzip
import os
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from nightly.logs import NIGHT, a_day, contents, requests_of
from sweep.errors import UserError
from sweep.nightly import run as module
from sweep.nightly.run import run

pytestmark = pytest.mark.usefixtures("stand_in")


def test_a_night_made_again_from_nothing_has_the_same_bytes(job, tmp_path: Path) -> None:
    log = requests_of(NIGHT, a_day())
    run(job(log, report=True))
    one = contents(tmp_path / "out")
    run(job(log, report=True, folder=tmp_path / "other"))
    assert contents(tmp_path / "other") == one


def test_more_traffic_is_an_alert_and_the_night_after_is_none(job) -> None:
    day = [NIGHT + timedelta(days=k) for k in range(3)]
    run(job(requests_of(NIGHT, a_day())))
    changed, _ = run(job(requests_of(day[1], a_day(3000)), night=day[1].isoformat()))
    assert changed["exit_status"] == 10
    assert "GPUs (+" in changed["models"][0]["change"]
    again, _ = run(job(requests_of(day[2], a_day(3000)), night=day[2].isoformat()))
    assert (again["exit_status"], again["models"][0]["change"]) == (0, "the same plan")
    history = pl.read_parquet(job("").folder / "history.parquet")
    assert history["announced"].to_list() == [True, True, False]


def test_a_slow_drift_is_told_once_it_has_added_up(job) -> None:
    statuses = []
    for k in range(5):
        day = NIGHT + timedelta(days=k)
        plan, _ = run(
            job(requests_of(day, a_day(round(600 * 1.04**k))), night=day.isoformat(), growth_per_week=0.0)
        )
        statuses.append(plan["exit_status"])
    assert statuses == [0, 0, 0, 10, 0]


def test_a_missing_night_is_told_and_the_one_before_it_compared(job) -> None:
    run(job(requests_of(NIGHT, a_day())))
    later = NIGHT + timedelta(days=2)
    plan, _ = run(job(requests_of(later, a_day()), night=later.isoformat()))
    assert f"no night of the day before: compared with nights up to {NIGHT}" in plan["notes"]
    assert plan["models"][0]["compared_with"]["night"] == NIGHT.isoformat()


def test_a_day_without_traffic_is_planned_from_the_days_before(job) -> None:
    first, _ = run(job(requests_of(NIGHT, a_day())))
    quiet = NIGHT + timedelta(days=1)
    after = requests_of(quiet + timedelta(days=1), [3] * 24)
    plan, _ = run(job(pl.concat([requests_of(NIGHT, a_day()), after]), night=quiet.isoformat()))
    one = plan["models"][0]
    assert one["requests"] == 0 and one["replay"] is None
    assert one["answer"]["plan"] == first["models"][0]["answer"]["plan"]
    assert any(note.startswith(f"no request on {quiet}") for note in plan["notes"])


def test_a_day_without_traffic_and_without_a_past_is_wrong_input(job) -> None:
    with pytest.raises(UserError, match=r"nothing to plan.*no request on 2026-03-09"):
        run(job(requests_of(NIGHT, [0] * 12 + [1] * 12), night="2026-03-09"))


def test_an_empty_log_is_wrong_input_and_leaves_no_night(job, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    small = job(str(tmp_path / "empty.csv"))
    with pytest.raises(UserError, match="no requests in it"):
        run(small)
    assert not (small.folder / NIGHT.isoformat()).exists()


def left_behind(folder: Path) -> list[str]:
    """Work that nobody goes on with."""
    return sorted(
        path.name for path in folder.iterdir() if path.name.startswith((".work", ".new", ".old", ".tmp"))
    )


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        (
            "timestamp,model,input_tokens,output_tokens\n2026-03-04T01:00:00Z,m,many,3\n",
            {"on_bad_line": "stop"},
        ),
        ("arrival_s,input_tokens,output_tokens\n0,5,5\n", {}),
        ("timestamp,model,input_tokens,output_tokens\n2026-03-04T13:00:00Z,m,5,3\n", {"night": "2026-03-09"}),
    ],
    ids=["empty", "bad line", "times without dates", "nothing to plan"],
)
@pytest.mark.parametrize("night", ["last", NIGHT.isoformat()])
def test_a_refused_job_leaves_no_work_behind(
    text: str, settings: dict[str, str], night: str, job, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text(text)
    small = job(str(tmp_path / "log.csv"), **{"night": night, **settings})
    with pytest.raises(UserError):
        run(small)
    assert left_behind(small.folder) == []


def test_the_work_of_a_night_that_was_given_up_goes_with_the_next_that_is_done(job, monkeypatch) -> None:
    def killed(*_: object) -> None:
        raise SystemExit(143)

    day_after = NIGHT + timedelta(days=1)
    with monkeypatch.context() as patched:
        patched.setattr(module, "model_plan", killed)
        with pytest.raises(SystemExit):
            run(job(requests_of(NIGHT, a_day())))
    small = job(requests_of(day_after, a_day()), night=day_after.isoformat())
    assert left_behind(small.folder) == [f".work-{NIGHT}"]
    run(small)
    assert left_behind(small.folder) == []


@pytest.mark.parametrize("nth", [1, 2])
def test_a_night_whose_replacement_fails_at_the_last_step_stands(job, monkeypatch, nth: int) -> None:
    run(job(requests_of(NIGHT, a_day())))
    small = job(requests_of(NIGHT, a_day(3000)))
    before = (small.folder / NIGHT.isoformat() / "plan.json").read_bytes()
    real, calls = os.rename, []

    def full(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", full)
        with pytest.raises(UserError, match="No space left on device"):
            run(small)
    assert (small.folder / NIGHT.isoformat() / "plan.json").read_bytes() == before
    assert left_behind(small.folder) == [f".work-{NIGHT}"]


def test_a_missing_log_is_wrong_input(job, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        run(job(str(tmp_path / "{date}.csv")))


def test_a_half_written_last_line_is_left_out_and_told(job, tmp_path: Path) -> None:
    log = requests_of(NIGHT, a_day())
    log.write_csv(tmp_path / "log.csv")
    with open(tmp_path / "log.csv", "a") as file:
        file.write("2026-03-04T23:59:59.999Z,llama_3_1_8b,17")
    plan, _ = run(job(str(tmp_path / "log.csv")))
    assert plan["models"][0]["requests"] == log.height
    assert any("incomplete last line left out" in note for note in plan["notes"])


def test_a_log_cut_short_is_told_with_the_hour_where_it_ends(job, tmp_path: Path) -> None:
    data = requests_of(NIGHT, a_day()).write_csv().encode()
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(data)[: len(gzip.compress(data)) // 2])
    plan, _ = run(job(str(tmp_path / "log.csv.gz")))
    assert 0 < plan["models"][0]["requests"] < sum(a_day())
    assert any(note.startswith("the log ends at 2026-03-04 1") for note in plan["notes"])


def test_a_clock_that_goes_backwards_changes_nothing_but_a_remark(job) -> None:
    log = requests_of(NIGHT, a_day())
    plain, _ = run(job(log))
    shuffled = pl.concat([log[5000:], log[:5000]])
    plan, _ = run(job(shuffled))
    assert any("goes backwards" in note for note in plan["notes"])
    assert plan["models"] == plain["models"]


def test_rotated_files_are_one_log(job, tmp_path: Path) -> None:
    log = requests_of(NIGHT, a_day())
    whole, _ = run(job(log, folder=tmp_path / "whole"))
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "a.jsonl.2.gz").write_bytes(gzip.compress(log[:3000].write_ndjson().encode()))
    (parts / "a.jsonl.1").write_text(log[3000:7000].write_ndjson())
    log[7000:].write_parquet(parts / "z.parquet")
    plan, _ = run(job(str(parts / "*")))
    assert plan["models"] == whole["models"]


def test_bad_lines_are_counted_or_stop_the_job(job, tmp_path: Path) -> None:
    lines = requests_of(NIGHT, a_day()).write_csv().splitlines()
    lines[100] = "2026-03-04T01:00:00.000Z,llama_3_1_8b,many,3"
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    plan, _ = run(job(str(tmp_path / "log.csv")))
    assert any("1 of 9,1" in note or "lines skipped" in note for note in plan["notes"])
    with pytest.raises(UserError, match="line 101"):
        run(job(str(tmp_path / "log.csv"), on_bad_line="stop"))


def test_a_damaged_night_is_made_again(job) -> None:
    small = job(requests_of(NIGHT, a_day()))
    _, folder = run(small)
    before = contents(small.folder)
    (folder / "plan.json").write_text("{")
    (small.folder / "history.parquet").unlink()
    run(small)
    assert contents(small.folder) == before


@pytest.mark.parametrize("nth", [1, 3, 10])
def test_a_full_disk_is_told_in_one_line_and_the_next_run_completes(
    job, tmp_path: Path, monkeypatch, nth: int
) -> None:
    log = requests_of(NIGHT, a_day())
    run(job(log, folder=tmp_path / "undisturbed"))
    small = job(log)
    real, calls = os.fsync, []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="No space left on device"):
            run(small)
    assert not (small.folder / NIGHT.isoformat()).exists()
    run(small)
    assert contents(small.folder) == contents(tmp_path / "undisturbed")


def test_a_folder_that_cannot_be_written_is_wrong_input(job, capsys) -> None:
    with pytest.raises(UserError, match=r"job.folder=.*cannot be written"):
        run(job(requests_of(NIGHT, [1] * 24), folder=Path("/proc/servesweep")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it pleases")
def test_a_read_only_folder_is_wrong_input(job, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    with pytest.raises(UserError, match="cannot be written"):
        run(job(requests_of(NIGHT, [1] * 24)))


def test_times_without_dates_are_wrong_input(job) -> None:
    with pytest.raises(UserError, match="times are no dates"):
        run(job(pl.DataFrame({"arrival_s": [0.0, 1.0], "input_tokens": [5, 5], "output_tokens": [5, 5]})))
