"""Files that are there whole or not at all, and what a person is told where the system refuses."""

from __future__ import annotations

import ast
import errno
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep import files
from sweep.cli import main
from sweep.errors import UserError
from sweep.files import TEMPORARY, check_folder, replaced, write_atomic

ROOT = Path(__file__).resolve().parents[2]
MEASURED = "id,model,hardware,backend,tp,isl,osl,concurrency,measured_ttft_ms,measured_tpot_ms\n"
ROW = "1,llama_3_1_8b,h100_sxm,vllm,1,1024,1024,16,90,8.5\n"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "f"
    write_atomic(file, b"old")
    with pytest.raises(RuntimeError), replaced(file) as half:
        half.write(b"ne")
        raise RuntimeError
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(tmp_path / "pipe", b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/dev/null"])
def test_a_stream_is_written_to_and_not_replaced(name: str, tmp_path: Path) -> None:
    script = f"from pathlib import Path; from sweep.files import write_atomic; write_atomic(Path({name!r}), b'new')"
    with open(tmp_path / "out", "wb") as out:
        here = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True, env=here)
    assert (tmp_path / "out").read_bytes() == (b"" if name == "/dev/null" else b"new")
    assert Path("/dev/null").is_char_device()


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        write_atomic(tmp_path / "d", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize(
    ("table", "more", "said"),
    [
        (ROW.replace("8.5", "abc"), [], "measured_tpot_ms=abc"),
        (ROW.replace("90,8.5", "-90,-5"), [], "no row has a value above 0"),
        (ROW, ["--plot", "folder"], "is a folder"),
        (ROW, ["--plot", "nowhere/x.png"], "--plot=nowhere/x.png: no such folder: nowhere"),
        (ROW, ["--plot", "x.xyz"], "unknown kind of picture; allowed: .png"),
        (ROW, ["--markdown", "nowhere/x.md"], "nowhere"),
        (ROW, ["--markdown", "/dev/full/x.md"], "/dev/full"),
    ],
)
def test_validate_tells_mistakes_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: str,
    more: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text(MEASURED + table)
    Path("folder").mkdir()
    assert main(["validate", "m.csv", *more]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "m.csv"]


def test_validate_says_why_rows_are_not_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.csv"
    file.write_text(MEASURED + ROW + ROW.replace("1,llama", "2,llama").replace("vllm", "vlm"))
    assert main(["validate", str(file)]) == 0
    told = capsys.readouterr().err
    assert "1 of 2 rows are not answered; the first, 2:" in told
    assert "vlm" in told


def test_points_does_not_overwrite_what_it_reads_nor_takes_a_column_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.csv"
    text = "id,model,hardware,tp,isl,osl,concurrency\n1,llama_3_1_8b,H100,1,1024,256,64\n"
    file.write_text(text)
    assert main(["points", str(file), str(file)]) == 2
    assert file.read_text() == text
    file.write_text(text.replace("osl", "tp"))
    assert main(["points", str(file), str(tmp_path / "o.csv")]) == 2
    assert "tp: a column stands twice" in capsys.readouterr().err


def test_a_simulation_into_a_folder_is_refused_before_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--output", str(tmp_path)]) == 2
    assert "--output" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


POINTS = "id,model,hardware,tp,isl,osl,concurrency\n1,llama_3_1_8b,H100,1,1024,256,64\n"
COLLECTIVES = "id,hardware,n_gpus,bytes\n1,h100_sxm,8,1048576\n"
REQUESTS = "timestamp,input_tokens,output_tokens\n0,100,10\n500,100,10\n"
INTO_NOWHERE = {
    "points": ["points", "points.csv", "nowhere/out.csv"],
    "collectives": ["collectives", "collectives.csv", "nowhere/out.csv"],
    "fit": ["workload", "requests.csv", "--fit", "nowhere/mine.yaml"],
    "figure": ["workload", "requests.csv", "--plot", "nowhere/x.png"],
    "csv": ["simulate", "--output", "nowhere/out.csv"],
    "trace": ["simulate", "--chrome-trace", "nowhere/trace.json"],
    "run": ["simulate", "--output", "nowhere/{run_id}/out.csv"],
    "engines": ["calibrate", "engine", "points.csv", "--output", "nowhere/engines.yaml"],
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small tables in an empty working directory; their names."""
    monkeypatch.chdir(tmp_path)
    tables = {"points": POINTS, "collectives": COLLECTIVES, "requests": REQUESTS}
    for name, text in tables.items():
        Path(f"{name}.csv").write_text(text)
    return sorted(f"{name}.csv" for name in tables)


@pytest.mark.parametrize("what", INTO_NOWHERE)
def test_a_file_into_a_folder_that_is_not_there_is_refused_before_anything_is_computed(
    what: str, inputs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readers = (("sweep.points", "read_table"), ("sweep.table_io", "read_table"), ("sweep.traces", "read"))
    for module, reader in (*readers, ("sweep.simulate.command", "read_cluster")):
        early = lambda *_, **__: pytest.fail("something was read before the refusal")  # noqa: E731
        monkeypatch.setattr(importlib.import_module(module), reader, early)
    assert main(INTO_NOWHERE[what]) == 2
    told = capsys.readouterr()
    assert "no such folder: nowhere" in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert sorted(path.name for path in Path().iterdir()) == inputs


def test_two_outputs_into_one_file_are_refused(inputs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--output", "x.csv", "--steps", "./x.csv"]) == 2
    assert "--steps=x.csv: is the file of --output too" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == inputs


FILLS = {
    "sweep": ["sweep", "model=llama_3_1_8b", "hardware=h100_sxm", "output.dir=taken"],
    "plan": ["plan", "model=llama_3_1_8b", "hardware=h100_sxm", "parallelism=tp1", "output.dir=taken"],
    "nightly": ["nightly", "job=demo", "job.folder=taken"],
}


@pytest.mark.parametrize("what", FILLS)
def test_a_folder_that_holds_something_else_is_left_alone(
    what: str, inputs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").mkdir()
    Path("taken/thesis.tex").write_text("do not touch")
    assert main(FILLS[what]) == 2
    told = capsys.readouterr().err
    assert "=taken: holds something else (thesis.tex); allowed: a new or an empty folder" in told
    assert told.count("\n") == 1
    assert [path.name for path in Path("taken").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("what", FILLS)
def test_a_file_in_the_place_of_a_folder_is_refused(
    what: str, inputs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").write_text("a file")
    assert main(FILLS[what]) == 2
    told = capsys.readouterr().err
    assert "=taken: taken is not a folder" in told
    assert told.count("\n") == 1


def test_a_folder_of_temporary_leftovers_is_empty(tmp_path: Path) -> None:
    (tmp_path / f"{TEMPORARY}abc-part-0").touch()
    check_folder(tmp_path, "output.dir", ())
    check_folder(tmp_path / "new" / "newer", "output.dir", ())
    assert [path.name for path in tmp_path.iterdir()] == [f"{TEMPORARY}abc-part-0"]


WRITERS = {"write_bytes", "write_parquet", "write_csv", "write_ndjson", "savefig", "sink_parquet", "sink_csv"}
OPENED_TO_LAST = {
    "sweep/files.py",
    "sweep/nightly/lock.py",
    "sweep/nightly/events.py",
    "kernels/jit_cache.py",
}
"""The one writer; a lock and a log that is appended to; the lock of the kernels' cache."""


def direct_writes(file: Path) -> list[str]:
    """Calls that put bytes under a final name: `open` for writing, and writers that are given a path."""
    found = []
    for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name == "open" and any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts):
            found.append(f"{file.name}:{call.lineno} open")
        to_name = [ast.unparse(a) for a in call.args[:1]]
        streams = ("stream", "handle", "out", "drawn", "buffer")
        module_function = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "outputs"
        if name == "write_text" and isinstance(call.func, ast.Attribute) and not module_function:
            found.append(f"{file.name}:{call.lineno} {name}")
        if name in WRITERS and to_name and to_name[0] not in streams and not module_function:
            found.append(f"{file.name}:{call.lineno} {name}({to_name[0]})")
    return found


def full_at(nth: int) -> Callable[[int], None]:
    """`os.fsync` of a disk that is full at the nth file."""
    calls: list[int] = []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return fsync


@pytest.mark.parametrize(
    ("nth", "file"), [(1, "pareto.png"), (2, "report.html"), (3, "throughput.png"), (4, "breakdown.png")]
)
def test_a_report_on_a_full_disk_names_the_file_in_one_line(
    nth: int,
    file: str,
    inputs: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["model=llama_3_1_8b", "hardware=h100_sxm", "output.dir=r"]) == 0
    before = {path: path.read_bytes() for path in sorted(Path("r").rglob("*")) if path.is_file()}
    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(files, "_sync_folder", lambda _: None)
        patched.setattr(os, "fsync", full_at(nth))
        assert main(["report", "r"]) == 2
    assert capsys.readouterr().err == f"servesweep report: r/{file}: No space left on device\n"
    assert before.items() <= {p: p.read_bytes() for p in Path("r").rglob("*") if p.is_file()}.items()
    assert not list(Path("r").rglob(".tmp-*"))


def test_a_report_into_a_folder_that_cannot_be_written_is_one_line(
    inputs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model=llama_3_1_8b", "hardware=h100_sxm", "output.dir=r"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main(["report", "r"]) == 2
    assert capsys.readouterr().err == "servesweep report: DIR=r: r cannot be written\n"


@pytest.mark.parametrize("option", [["--plot", "p.png"], ["--markdown", "p.md"]])
def test_a_validation_on_a_full_disk_names_the_file_in_one_line(
    option: list[str], inputs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_text(MEASURED + ROW)
    monkeypatch.setattr(os, "fsync", full_at(1))
    assert main(["validate", "t.csv", *option]) == 2
    out, told = capsys.readouterr()
    assert told.startswith("servesweep validate: p.")
    assert told.endswith("No space left on device\n") and told.count("\n") == 1
    assert out == ""
    assert sorted(path.name for path in Path().iterdir()) == sorted([*inputs, "t.csv"])


def test_nothing_is_written_but_by_the_one_writer() -> None:
    files = [file for folder in ("sweep", "kernels") for file in (ROOT / folder).rglob("*.py")]
    found = {str(file.relative_to(ROOT)): direct_writes(file) for file in files}
    assert {name: calls for name, calls in found.items() if calls and name not in OPENED_TO_LAST} == {}
    assert direct_writes(ROOT / "sweep" / "files.py") == []  # its mode is an argument
    assert len(direct_writes(ROOT / "sweep" / "nightly" / "events.py")) == 1


def program(arguments: list[str], stdout: int | None, folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sweep", *arguments]
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, cwd=folder, env=here, check=False)


@pytest.mark.parametrize(
    "arguments", [["flags"], ["--help"], ["estimate", "--help"], ["collectives", "--help"]]
)
def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = program(arguments, writer, tmp_path)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [["flags"], ["--help"], ["report", "--help"], ["--version"]])
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ended = program(arguments, full.fileno(), tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.count(b"\n") == 1
    assert b"output: No space left" in ended.stderr
