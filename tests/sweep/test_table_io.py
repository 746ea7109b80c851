"""Tables that cannot be read or written."""

import subprocess
import sys

import polars as pl
import pytest

from sweep.errors import UserError
from sweep.table_io import read_table, write_table

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
