"""Tables of engine start-up logs through `points`: the memory account is the answer."""

import polars as pl
import pytest

from sweep.point_rows import is_start_up_log
from sweep.points import price_points

LOG = {
    "id": ["fits", "short", "unknown length", "marketed size"],
    "model": ["meta-llama/Llama-3.1-8B", "deepseek_v3", "google/gemma-4-31b-it", "meta-llama/Llama-3.1-8B"],
    "gpu": ["H100-80GB", "H100-80GB", "H200", "RTX 4090"],
    "gpu_mem_gib": [79.19, 79.19, None, 24.0],
    "tp": [1, 2, 1, 1],
    "kv_dtype": ["auto", "auto", None, None],
    "gpu_mem_util": [0.95, 0.95, None, 0.9],
    "max_model_len": [8192, 8192, None, None],
    "engine": ["vllm"] * 4,
    "engine_version": ["0.19.0", "0.19.0", "0.24.0+build", "0.19.0"],
}


@pytest.fixture(scope="module")
def priced():
    return {row["id"]: row for row in price_points(pl.DataFrame(LOG)).iter_rows(named=True)}


def test_a_row_that_does_not_fit_is_answered_with_its_verdict_and_no_latency(priced):
    row = priced["short"]
    assert row["status"] == "ok"
    assert row["reason"] == "weights do not fit in GPU memory"
    assert row["weights_gib"] > 300.0
    assert row["kv_capacity_tokens"] == 0.0
    assert row["ttft_ms"] is None and row["tpot_ms"] is None


def test_without_a_length_the_models_own_context_counts_where_it_fits(priced):
    # The engine printed 626,949 at its own context of 262,144; another length would print another size.
    assert priced["unknown length"]["kv_capacity_tokens"] == pytest.approx(626949, rel=0.01)
    assert priced["marketed size"]["reason"] == ""


def test_the_size_on_the_box_means_what_the_driver_reports(priced):
    assert priced["marketed size"]["kv_capacity_tokens"] < 45000


def test_the_same_rows_with_a_load_are_infeasible_where_they_do_not_fit():
    table = pl.DataFrame(LOG).with_columns(isl=1024, osl=128)
    assert is_start_up_log(pl.DataFrame(LOG)) and not is_start_up_log(table)
    priced = {row["id"]: row for row in price_points(table).iter_rows(named=True)}
    assert priced["short"]["status"] == "infeasible"
    assert priced["fits"]["status"] == "ok"
