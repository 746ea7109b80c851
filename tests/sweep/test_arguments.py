"""Command lines that argparse reads: what is missing, contradicts or is too much, each told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.cli import main

WRONG = {
    "nothing": (["points"], "IN, OUT missing, as in: servesweep points points.csv estimates.csv"),
    "one of two": (
        ["collectives", "a.csv"],
        "OUT missing, as in: servesweep collectives sizes.csv times.csv",
    ),
    "no table": (["validate"], "TABLE missing, as in: servesweep validate measured.csv"),
    "no trace": (["workload"], "FILE missing, as in: servesweep workload trace.csv"),
    "no source": (["calibrate", "operators"], "SRC missing, as in: servesweep calibrate operators"),
    "no measurement": (["calibrate", "engine"], "TABLE missing, as in: servesweep calibrate engine"),
    "no directory": (["resume"], "which results directory? servesweep resume DIR"),
    "one too many": (["points", "a", "b", "c"], "'c' is one argument too many: servesweep points points.csv"),
    "one too many of a long form": (
        ["simulate", "x"],
        "'x' is one argument too many: servesweep simulate --help",
    ),
    "no value": (["simulate", "--num-reqs"], "--num-reqs: needs a value"),
    "on and off": (
        ["simulate", "--enable-prefix-caching", "--no-enable-prefix-caching"],
        "--no-enable-prefix-caching: contradicts --enable-prefix-caching",
    ),
    "off and on": (
        ["simulate", "--no-enable-prefix-caching", "--enable-prefix-caching"],
        "--enable-prefix-caching: contradicts --no-enable-prefix-caching",
    ),
    "profiles for nothing": (
        ["validate", "measured.csv", "--operator-profiles", "."],
        "--operator-profiles=.: prices replayed runs, and no folder of runs is given",
    ),
    "an empty trace of a deployment": (
        ["estimate", "--model=llama_3_1_8b", "--hardware=h100", "workload.trace=empty.csv"],
        "empty.csv: is empty",
    ),
    "an empty trace of a sweep": (
        ["sweep", "model=llama_3_1_8b", "hardware=h100_sxm", "workload.trace=empty.csv"],
        "empty.csv: no requests in it",
    ),
    "no sense": (["sweep", "parallelism.tp=1e30"], "is beyond any sense: at most 1,099,511,627,776"),
    "next to nothing": (["sweep", "engine.kv_offload_gb_s=1e-300"], "is beyond any sense: 0, or at least"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").touch()
    Path("measured.csv").touch()
    arguments, said = WRONG[name]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.csv", "measured.csv"]


def test_a_switch_given_twice_is_no_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--enable-prefix-caching", "--enable-prefix-caching", "--num-reqs=none"]
    assert main(["simulate", *twice]) == 2
    assert "--num-reqs" in capsys.readouterr().err
