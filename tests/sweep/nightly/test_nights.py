"""The folder of a job after a kill at its worst moments."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from sweep.nightly import nights

NIGHT = date(2026, 3, 4)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir()
    (folder / name / "plan.json").write_text(text)


def test_a_night_that_was_being_replaced_comes_back(tmp_path: Path) -> None:
    write(tmp_path, f".old-{NIGHT}", "old")
    write(tmp_path, f".new-{NIGHT}", "new")
    nights.mend(tmp_path)
    assert (tmp_path / str(NIGHT) / "plan.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == [str(NIGHT)]


def test_what_a_finished_replacement_left_goes(tmp_path: Path) -> None:
    write(tmp_path, f".old-{NIGHT}", "old")
    write(tmp_path, str(NIGHT), "new")
    (tmp_path / ".tmp-0123-history.parquet").write_text("half")
    nights.mend(tmp_path)
    assert (tmp_path / str(NIGHT) / "plan.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == [str(NIGHT)]


@pytest.mark.parametrize("again", [False, True])
def test_a_published_night_is_whole_and_known_by_its_inputs(tmp_path: Path, again: bool) -> None:
    if again:
        nights.publish(tmp_path, NIGHT, "before", {"plan.json": b"[]", "gone.csv": b""})
    folder = nights.publish(tmp_path, NIGHT, "inputs", {"plan.json": b"{}"})
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "plan.json"]
    assert nights.inputs_of(tmp_path, NIGHT) == "inputs"
    (folder / "plan.json").write_bytes(b"{ }")
    assert nights.inputs_of(tmp_path, NIGHT) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"models": [{}]}', '{"models": 3}'])
def test_an_unreadable_night_is_left_out_and_told(tmp_path: Path, text: str) -> None:
    write(tmp_path, str(NIGHT), text)
    found, notes = nights.nights(tmp_path)
    assert found == {}
    assert notes == [f"the night of {NIGHT} cannot be read and was left out"]
