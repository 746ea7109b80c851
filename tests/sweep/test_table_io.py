"""Tables that cannot be read or written."""

import subprocess
import sys

import polars as pl
import pytest

from sweep.errors import UserError
from sweep.table_io import read_table, remarks, write_table

SCRIPT = """
import resource, sys
from pathlib import Path
import polars as pl
from sweep.errors import UserError
from sweep.table_io import write_table
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
frame = pl.DataFrame({"x": [float(i) ** 0.5 for i in range(100_000)]})
try:
    write_table(frame, Path(sys.argv[1]))
except UserError as error:
    print(error.message)
"""


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_disk_that_takes_no_more_is_told_in_one_line_and_leaves_nothing(tmp_path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True)
    assert "cannot be written: File too large" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_decoder_that_panics_is_one_line(tmp_path, monkeypatch):
    def panic(*_, **__):
        raise pl.exceptions.PanicException("slice index starts at 1 but ends at 0")

    file = tmp_path / "t.csv"
    file.write_text("a\n1\n")
    monkeypatch.setattr(pl, "read_csv", panic)
    with pytest.raises(UserError, match="cannot be read: slice index"):
        read_table(file)


@pytest.mark.parametrize("name", ["1e999", "nan", "-inf", "1.50", "9" * 25])
def test_an_id_comes_back_as_it_was_written(tmp_path, name):
    (tmp_path / "t.csv").write_text(f"id,isl\n{name},1\n2,2\n")
    frame = read_table(tmp_path / "t.csv")
    assert [str(one) for one in frame["id"]] == [name, "2"]
    write_table(frame, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == f"id,isl\n{name},1\n2,2\n"


def test_ids_that_are_whole_numbers_stay_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("id,isl\n1,1\n,2\n")
    assert read_table(tmp_path / "t.csv")["id"].to_list() == [1, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"isl": 5}\n\n{"isl": [7]}\n', "line 3: isl: holds lists here and plain values in line 1"),
        ('{"a": null}\n{"a": [1]}\n{"a": {}}\n', "line 3: a: holds objects here and lists in line 2"),
        ('{"a": {"b": 1}}\n{"a": {"b": [1]}}\n', "line 2: a.b: holds lists here and plain values in line 1"),
        ('{"a": [{"b": 1}]}\n{"a": [3]}\n', r"line 2: a\[\]: holds plain values here and objects in line 1"),
        ('{"a": 1}\n[1]\n', "line 2: is not a JSON object"),
        ('{"a": 1}\n{bad\n', "line 2: is not valid JSON"),
        ('{"a": 1}\n{"a": 5e400}\n', "line 2: a: is not a finite number"),
        ("", "is empty"),
    ],
)
def test_lines_that_make_no_table_are_told_with_line_and_column(tmp_path, text: str, said: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(UserError, match=f"t.jsonl: {said}"):
        read_table(tmp_path / "t.jsonl")


def test_numbers_and_text_in_one_column_are_a_column_of_text(tmp_path) -> None:
    (tmp_path / "t.jsonl").write_text('{"isl": 5}\n{"isl": "x"}\n{"isl": null}\n')
    assert read_table(tmp_path / "t.jsonl")["isl"].to_list() == ["5", "x", None]


@pytest.mark.parametrize(
    ("column", "meant"),
    [
        ("ttft_statistic", "ttft_stat"),
        ("TTFT_Stats", "ttft_stat"),
        ("concurrency_per_gpu", "concurrency"),
        ("lenght_range", "length_range"),
        ("workload.length_range", "length_range"),
        ("id_of_run", None),
        ("source", None),
    ],
)
def test_a_column_that_misspells_or_writes_out_one_that_is_missing_is_told(column: str, meant: str | None):
    known = ("id", "ttft_stat", "concurrency", "length_range")
    told = remarks(pl.DataFrame({column: [1]}), known)
    assert told == ([f"column {column} is not read; nearest: {meant}"] if meant else [])
    assert remarks(pl.DataFrame({column: [1]}), known, others=(column,)) == []
    if meant:
        assert remarks(pl.DataFrame({column: [1], meant: [1]}), known) == []


def test_a_column_named_like_an_input_that_tables_do_not_set_is_told() -> None:
    table = pl.DataFrame({"quick_reduce": [True], "note": ["mine"]})
    said = "column quick_reduce is not read: an input of sweeps and estimates that no table sets"
    assert remarks(table, ("id",), inputs=("quick_reduce",)) == [said]
    assert remarks(table, ("id", "quick_reduce"), inputs=("quick_reduce",)) == []
