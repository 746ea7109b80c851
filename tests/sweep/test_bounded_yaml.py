"""YAML that anyone may have written: aliases of aliases, references of references, values that contain themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweep.bounded_yaml import MOST_REPEATED, parse_yaml
from sweep.catalog.yaml_file import read_yaml
from sweep.cli import main
from sweep.errors import UserError
from sweep.hydra_sweeper import compose_grid
from sweep.profiles import read_profile

ROOT = Path(__file__).resolve().parents[2]
LEVELS, TIMES = 9, 9


def bomb(item: str, joined: str) -> str:
    """A few hundred bytes that stand for 9^9 values: each line names the one before nine times."""
    lines = [f"a0: &a0 {item}"]
    again = [", ".join([f"*a{k}"] * TIMES) for k in range(LEVELS)]
    lines += [f"a{k}: &a{k} {joined.format(names)}" for k, names in enumerate(again, 1)]
    return "\n".join(lines) + "\n"


BOMBS = {
    "lists": bomb("[lol]", "[{}]"),
    "mappings": bomb("{x: lol}", "{{<<: [{}]}}"),
    "a value in itself": "a0: &a0 [*a0]\n",
    "a mapping in itself": "a0: &a0 {x: *a0}\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_one_line_at_once(name: str) -> None:
    began = time.perf_counter()
    with pytest.raises(UserError, match="alias") as caught:
        parse_yaml(BOMBS[name], "mine.yaml")
    assert time.perf_counter() - began < 0.1
    assert caught.value.message.startswith("mine.yaml")
    assert "\n" not in caught.value.message


def test_aliases_that_a_person_writes_are_read() -> None:
    text = "base: &base {tp: 2, pp: 1}\nwide: {<<: *base, tp: 8}\nboth: [*base, *base]\n"
    assert parse_yaml(text, "f") == yaml.safe_load(text)
    long = f"a: &a [{', '.join('1' * 99)}]\nb: [{', '.join(['*a'] * (MOST_REPEATED // 100))}]\n"
    assert len(parse_yaml(long, "f")["b"]) == MOST_REPEATED // 100
    with pytest.raises(UserError, match="aliases repeat more than 10,000 values"):
        parse_yaml(long.replace("[*a,", "[*a, *a, *a,"), "f")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("a&*<:{}[] \n", max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text("ab&*", max_size=3), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_what_is_no_bomb_is_read_as_the_library_reads_it(document: object) -> None:
    text = yaml.safe_dump([document, document])
    assert parse_yaml(text, "f") == [document, document]


def test_what_is_not_yaml_is_told_with_its_line() -> None:
    with pytest.raises(UserError, match=r"^mine.yaml: line 3: is not YAML: "):
        parse_yaml("a: 1\nb: [1, 2\nc: 3\n", "mine.yaml")
    with pytest.raises(UserError, match="is not YAML"):
        parse_yaml("[" * 100_000, "mine.yaml")


@pytest.mark.parametrize("name", BOMBS)
def test_every_reader_refuses_bombs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    book = f"{BOMBS[name]}book: *a0\n"
    for folder in ("price", "run/parts"):
        Path(folder).mkdir(parents=True)
    for file in ("price/mine.yaml", "run/config.yaml", "experiment.yaml"):
        Path(file).write_text(book)
    bundle = tmp_path / "profiles" / "H100" / "m" / "v"
    (bundle / "tp1").mkdir(parents=True)
    (bundle / "meta.yaml").write_text(book)
    with pytest.raises(UserError, match="alias"):
        read_yaml(tmp_path / "price" / "mine.yaml")
    with pytest.raises(UserError, match="alias"):
        read_profile(tmp_path / "profiles", "H100", "m", "v", 1)
    lines = (
        ["resume", "run"],
        ["report", "run"],
        ["estimate", "--config", "experiment.yaml", "--hardware", "h100"],
        ["sweep", "--config-dir", ".", "model=llama_3_1_8b", "price=mine"],
        ["sweep", "--config-dir", ".", "model=llama_3_1_8b", "price=mine,on_demand"],
        ["plan", "--config-dir", ".", "model=llama_3_1_8b", "price=mine"],
    )
    for line in lines:
        assert main(line) == 2
        told = capsys.readouterr().err
        assert "alias" in told
        assert told.count("\n") == 1


MULTIPLYING = [f"a{k}: " + f"${{price.book.a{k - 1}}}" * TIMES for k in range(1, LEVELS)]
REFERENCES = ["a0: lollol", *MULTIPLYING]


def test_references_that_multiply_are_refused_before_they_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "price").mkdir()
    file = tmp_path / "price" / "mine.yaml"
    file.write_text("book:\n" + "".join(f"  {line}\n" for line in REFERENCES))
    with pytest.raises(UserError, match=r"mine.yaml: holds more than 16 references"):
        compose_grid(["price=mine", "model=llama_3_1_8b"], config_dirs=[tmp_path])


def test_the_program_refuses_a_bomb_in_a_second(tmp_path: Path) -> None:
    """Its start included, which is nearly all of it."""
    (tmp_path / "price").mkdir()
    (tmp_path / "price" / "mine.yaml").write_text(BOMBS["lists"])
    command = [sys.executable, "-m", "sweep", "--config-dir", ".", "model=llama_3_1_8b", "price=mine"]
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=here, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith("price/mine.yaml: aliases repeat more than 10,000 values\n")
    assert ended.stderr.count("\n") == 1
