"""The list of inputs: complete, documented, and the page of the documentation current."""

from __future__ import annotations

import csv
from pathlib import Path

from kernels.layout import RESULT_COLUMNS
from sweep.inputs_page import markdown, rows
from sweep.schema import ALL_FIELDS

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_inputs_is_current() -> None:
    assert (ROOT / "docs/inputs.md").read_text() == markdown(), (
        "regenerate: servesweep flags --markdown > docs/inputs.md"
    )


def test_every_flag_of_both_specifications_is_known_and_moves_something_unless_it_is_plumbing(
    shared: Path,
) -> None:
    known = {(f["seed"], f["flag"]): row for row in rows() for f in row["flags"]}
    with (shared / "spec/flags.csv").open() as file:
        wanted = list(csv.DictReader(file))
    assert [w["flag"] for w in wanted if (w["seed"], w["flag"]) not in known] == []
    idle = {(w["seed"], w["flag"]) for w in wanted if not known[w["seed"], w["flag"]]["moves"]}
    assert idle == {(w["seed"], w["flag"]) for w in wanted if w["plumbing"]}


def test_an_input_moves_known_columns_or_says_why_it_moves_nothing() -> None:
    for field in ALL_FIELDS:
        assert set(field.moves) <= set(RESULT_COLUMNS), field.key
        assert bool(field.moves) != ("Moves nothing" in field.doc), field.key


def test_every_input_has_a_sentence_a_question_and_an_explained_default() -> None:
    for field in ALL_FIELDS:
        assert field.doc.endswith(".") and field.question, field.key
        assert field.default is not None or field.auto, field.key


def test_a_flag_names_one_field() -> None:
    names = [(s.spec, s.flag) for f in ALL_FIELDS for s in f.seeds]
    assert sorted(names) == sorted(set(names))
