"""Ctrl-C: one line, exit status 130, nothing half-written, no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep import cli
from sweep.files import TEMPORARY

ROOT = Path(__file__).resolve().parents[2]
MANY_BLOCKS = (
    "model=llama_3_1_8b,qwen3_32b",
    "hardware=h100_sxm,h200_sxm",
    "workload.concurrency=range(1,1025)",
    "executor.block_rows=4",
    "executor.workers=2",
    "output.dir=run",
)
HEAD = "id,model,hardware,tp,isl,osl,concurrency\n"


def interrupted(arguments: list[str], folder: Path, ready: Callable[[], bool]) -> tuple[int, str, float]:
    """Run the program, send SIGINT to all its processes as a terminal does once it is ready: (status, stderr, seconds to end)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, "ended before it could be interrupted"
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=120)
    seconds = time.monotonic() - began
    _wait_for_the_end_of(process.pid)
    assert not list(folder.rglob(f"{TEMPORARY}*"))
    return process.returncode, err, seconds


def _wait_for_the_end_of(group: int) -> None:
    """Trackers of the libraries end a moment after the program."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("processes are left")


def after(seconds: float) -> Callable[[], bool]:
    began = time.monotonic()
    return lambda: time.monotonic() - began > seconds


@pytest.mark.parametrize("executor", ["threads", "loky"])
def test_an_interrupted_sweep_says_how_to_go_on_and_does(tmp_path: Path, executor: str) -> None:
    def parts() -> int:
        return len(list((tmp_path / "run" / "parts").glob("part-*")))

    line = ["sweep", f"executor={executor}", *MANY_BLOCKS]
    status, err, seconds = interrupted(line, tmp_path, lambda: parts() > 3)
    assert (status, err) == (130, "servesweep sweep: interrupted; servesweep resume run continues\n")
    assert seconds < 20
    before = parts()
    again = interrupted(["resume", "run"], tmp_path, lambda: parts() > before)[:2]
    assert again == (130, "servesweep resume: interrupted; servesweep resume run continues\n")


@pytest.mark.parametrize("delay_s", [1.0, 2.5])
@pytest.mark.parametrize(
    "line",
    [
        ["plan", "model=llama_3_1_8b", "output.dir=out"],
        ["points", "many.csv", "out.csv", "--driver", "des"],
        ["search", "grid=default", "output.dir=out"],
    ],
    ids=lambda line: line[0],
)
def test_an_interrupted_verb_is_one_line_at_any_time(tmp_path: Path, line: list[str], delay_s: float) -> None:
    if line[0] == "search":
        pytest.importorskip("pymoo")
    rows = [f"{i},llama_3_1_8b,h100_sxm,1,{500 + i % 999},1024,{1 + i % 64}\n" for i in range(20_000)]
    (tmp_path / "many.csv").write_text(HEAD + "".join(rows))
    status, err, seconds = interrupted(line, tmp_path, after(delay_s))
    assert status == 130
    assert err.splitlines()[0].startswith(f"servesweep {line[0]}: interrupted")
    assert err.count("\n") == 1
    assert seconds < 20
    assert not (tmp_path / "out.csv").exists()


def test_an_interruption_says_what_the_verb_says_of_going_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> int:
        raise KeyboardInterrupt("run it again to continue")

    monkeypatch.setattr(cli, "_run", stopped)
    assert cli.main(["nightly"]) == 130
    assert capsys.readouterr().err == "servesweep nightly: interrupted; run it again to continue\n"


def test_an_interruption_in_code_that_a_library_made_ends_with_130_too(tmp_path: Path) -> None:
    """Python remembers such a one (`exec` of a text) and would die of the signal at its end."""
    script = (
        "from sweep import cli\n"
        "cli._run = lambda *_: exec('raise KeyboardInterrupt')\n"
        "import sys; sys.argv = ['servesweep', 'flags']\n"
        "cli.program()\n"
    )
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=here, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, "servesweep flags: interrupted\n")
