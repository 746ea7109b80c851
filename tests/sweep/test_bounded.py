"""Files that lie about their size, name no file, or never end: told in one line, without waiting."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest

from sweep.bounded import read_json, read_text
from sweep.cli import main
from sweep.errors import UserError
from sweep.traces import reader

NO_SIZE = "/dev/zero"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff\xfe", "is not text"), (b"[" * 100_000, "is not valid JSON"), (b"9" * 200, "is larger than 100")],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "f.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_json(file, 10**6 if b"9" not in content else 100)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "f.json", 100) == {"a": 1}


@pytest.mark.parametrize("name", ["absent", "d", "loop", "a\x00b", "x" * 300])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UserError):
        read_text(tmp_path / name, 100)


@pytest.mark.timeout(600)
def test_a_pipe_that_nobody_writes_to_is_told_and_one_with_a_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a pipe that nobody writes to"):
        read_text(tmp_path / "pipe", 100)
    mine, theirs = os.pipe()
    os.write(theirs, b"[1]")
    os.close(theirs)
    assert read_json(Path(f"/dev/fd/{mine}"), 100) == [1]
    os.close(mine)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path(NO_SIZE).exists(), reason="no /dev/zero")
@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--cluster-config", NO_SIZE],
        ["anchor", "--read", NO_SIZE],
        ["estimate", "--model", "llama_3_1_8b", "--hardware", "h100_sxm", "--config", NO_SIZE],
        ["estimate", "--model", "llama_3_1_8b", "--hardware", "h100_sxm", f"moe.router_coverage={NO_SIZE}"],
        ["simulate", "--dataset", NO_SIZE],
        ["points", NO_SIZE, "out.csv"],
    ],
)
def test_a_file_without_an_end_is_told(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


ESTIMATE = ["estimate", "--model", "llama_3_1_8b", "--hardware", "h100_sxm"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "arguments",
    [
        ["workload", "{}"],
        ["simulate", "--dataset", "{}"],
        ["simulate", "--cluster-config", "{}"],
        ["points", "{}", "out.csv"],
        ["validate", "{}"],
        ["collectives", "{}", "out.csv"],
        ["calibrate", "operators", "{}"],
        ["calibrate", "engine", "{}"],
        ["anchor", "--read", "{}"],
        ["nightly", "job=demo", "job.log={}"],
        [*ESTIMATE, "--anchor-store", "{}"],
        [*ESTIMATE, "--config", "{}"],
        ["model=llama_3_1_8b", "hardware=h100_sxm", "workload.trace={}"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_pipe_in_place_of_a_file_is_called_a_pipe_and_not_waited_for(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.csv")
    assert main([one.format("pipe.csv") for one in arguments]) == 2
    told = capsys.readouterr().err
    assert "is a pipe" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folder", "folder: is a folder without a file in it"),
        ("/dev/null", "/dev/null: is a device, not a file"),
        ("dangling", "dangling: is a link to a file that is not there"),
        ("socket", "socket: is a socket, not a file"),
        ("*.jsonl", "*.jsonl: no file has such a name"),
        ("absent", "absent: no such file"),
    ],
)
def test_what_is_in_the_place_of_a_trace_is_said(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("dangling").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert main(["workload", name]) == 2
    assert said in capsys.readouterr().err


def test_a_packed_array_is_bounded_by_what_it_unpacks_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_JSON_BYTES", 2**20)
    file = tmp_path / "t.json.gz"
    file.write_bytes(
        gzip.compress(b"[" + b'{"timestamp":1,"input_length":2,"output_length":3},' * 50_000 + b"]")
    )
    assert file.stat().st_size < 2**20
    with pytest.raises(UserError, match="JSON array over 1 MiB"):
        reader.read(file)
