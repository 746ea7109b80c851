"""The store of measured points, and documents that are wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.anchors.anchor import Anchor, anchor
from sweep.anchors.correction import Anchors
from sweep.anchors.points import PointAnchors
from sweep.anchors.readers import read_results
from sweep.anchors.store import load, save
from sweep.errors import UserError
from sweep.points import price_points
from tests.sweep.anchors.measured import (
    PLACE,
    ROW,
    measured,
    vllm_result,
)


def test_reading_a_result_twice_stores_it_once(tmp_path: Path) -> None:
    file = save(tmp_path, [measured()])
    save(tmp_path, [measured(), measured(concurrency=64)])
    assert len(load(file)[0]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["anchors.json"]


def test_a_folder_is_searched_and_what_is_no_result_passed_over(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    save(deep / "own.json", [measured()])
    (tmp_path / "run.json").write_text(json.dumps(vllm_result(**PLACE)))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"rows": []}')
    anchors, passed = load(tmp_path)
    assert len(anchors) == 2
    assert len(passed) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"servesweep_anchors": 2, "anchors": []}, "of another version"),
        ({"servesweep_anchors": 1, "anchors": {}}, "no list"),
        ({"servesweep_anchors": 1, "anchors": [{"deployment": {"modle": "x"}}]}, "modle: is no column"),
        (
            {"servesweep_anchors": 1, "anchors": [{"deployment": ROW, "measured": {"ttft_ms": -1}}]},
            "ttft_ms=-1: is not a time",
        ),
        (
            {"servesweep_anchors": 1, "anchors": [{"deployment": ROW, "measured": {}}]},
            "neither a TTFT nor a TPOT",
        ),
        (
            {"servesweep_anchors": 1, "anchors": [{"deployment": {"model": "m"}, "measured": {}}]},
            "which hardware, isl",
        ),
        ({"a": 1}, "no benchmark result"),
        ([], "no JSON object"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_one_line(tmp_path: Path, content: Any, message: str) -> None:
    file = tmp_path / "store.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message) as caught:
        read_results(file)
    assert "\n" not in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "servesweep_anchors anchors deployment measured meta sweep world_info request_info streaming_metrics engine model_id "
    "total_output_tokens completed mean_ttft_ms mean_tpot_ms max_concurrency request_rate tag server_info tp model".split()
)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, JSON | st.sampled_from([1, "qwen3_32b", 1024]), max_size=12))
def test_no_document_makes_a_reader_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.json"
    file.write_text(json.dumps(document))
    try:
        found = read_results(file, PLACE)
    except UserError as error:
        assert error.message
    else:
        assert all(isinstance(a, Anchor) for a in found)


VALUES = st.sampled_from([0, -1, 1, 7, 1e308, 1 << 40, "", "fp4", "no such thing", "qwen3_32b", True, 0.5])


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from([*ROW, "batch_size", "precision", "kv_cache_dtype", "request_rate", "load"]), VALUES
    )
)
def test_no_stored_value_makes_an_anchor_fail_otherwise(change: dict[str, Any]) -> None:
    try:
        found = anchor({**ROW, **change}, {"ttft_ms": 500.0, "tpot_ms": 30.0}, "a test")
    except UserError:
        return
    known = Anchors([found])
    assert len(known.points) + len(known.unused) == 1
    row = price_points(pl.DataFrame([ROW]), "anchored", PointAnchors(known)).row(0, named=True)
    assert math.isfinite(row["ttft_ms"])
    assert math.isfinite(row["tpot_ms"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"hardware": "L40S"}, ["no measured point is of the regime of any row"]),
        ({"ttft_stat": "p99"}, ["1 points cannot be used", "no measured point is of the regime of any row"]),
    ],
    ids=["fits", "another regime", "of no use"],
)
def test_a_table_is_told_of_points_that_said_nothing(change: dict[str, Any], words: list[str]) -> None:
    anchors = PointAnchors(
        Anchors([anchor({**ROW, **change}, {"ttft_ms": 500.0, "tpot_ms": 30.0}, "a test")])
    )
    price_points(pl.DataFrame([ROW]), "anchored", anchors)
    told = anchors.told()
    assert len(told) == len(words)
    assert all(line.startswith(word) for line, word in zip(told, words, strict=True))
