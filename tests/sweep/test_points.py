"""What a table's columns ask of an estimate."""

from __future__ import annotations

import polars as pl
import pytest

from sweep.points import price_points

ROW = {"model": "llama_3_1_8b", "hardware": "h100_sxm", "tp": 1, "isl": 2048, "osl": 256, "concurrency": 64}


def priced(**columns: object) -> dict[str, object]:
    return price_points(pl.DataFrame([ROW | columns])).to_dicts()[0]


def test_a_median_ttft_is_the_one_of_a_loop_without_an_opening_burst() -> None:
    mean, median, endless = priced(), priced(ttft_stat="Median"), priced(num_prompts=10**9)
    assert median["ttft_ms"] < 0.8 * mean["ttft_ms"]
    assert median["ttft_ms"] == pytest.approx(endless["ttft_ms"], rel=1e-6)
    assert priced(ttft_stat="mean") == mean


def test_a_row_that_states_one_length_has_requests_that_end_together() -> None:
    stated, assumed = priced(length_range=1.0), priced(client="vendor_lab")
    assert stated["ttft_ms"] > 1.05 * assumed["ttft_ms"]
    assert stated["tpot_ms"] < assumed["tpot_ms"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"ttft_stat": "p99"}, "ttft_stat=p99: not a statistic; allowed: mean, median"),
        (
            {"ttft_stat": "median", "load": "rate", "request_rate": 1.0},
            "ttft_stat=median: only of closed loops",
        ),
        ({"length_range": "many"}, "workload.length_range=many: is not a number"),
        ({"ttft_stat": "median", "num_prompts": "many"}, "workload.num_prompts=many: is not a number"),
        ({"concurrency": None, "batch_size": "many"}, "batch_size=many: is not a whole number"),
        (
            {"mode": "disagg", "concurrency": None, "decode_batch_size": "x"},
            "decode_batch_size=x: is not a whole",
        ),
    ],
)
def test_what_a_row_cannot_ask_is_refused_by_name(columns: dict[str, object], words: str) -> None:
    row = priced(**columns)
    assert row["status"] == "invalid"
    assert words in str(row["reason"])
