"""`servesweep points --driver des`: the same table, request by request."""

import polars as pl
import pytest

from sweep.cli import main

ROWS = pl.DataFrame(
    {
        "id": ["loop", "wide", "rate", "split", "wrong", "too big"],
        "mode": ["agg", "agg", "agg", "disagg", "agg", "agg"],
        "model": [
            "llama_3_1_8b",
            "llama_3_1_8b",
            "llama_3_1_8b",
            "llama_3_1_8b",
            "no_model",
            "llama_3_1_405b",
        ],
        "hardware": ["h100_sxm"] * 6,
        "tp": [1, 2, 1, 1, 1, 1],
        "isl": [1024] * 6,
        "osl": [128] * 6,
        "concurrency": [8, 32, 8, 8, 8, 8],
        "load": ["closed_loop", "closed_loop", "rate", "closed_loop", "closed_loop", "closed_loop"],
        "request_rate": [None, None, 4.0, None, None, None],
    }
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    where = tmp_path_factory.mktemp("points")
    ROWS.write_csv(where / "in.csv")
    found = {}
    for driver in ("closed_form", "des"):
        out = where / f"{driver}.parquet"
        assert main(["points", str(where / "in.csv"), str(out), f"--driver={driver}"]) == 0
        found[driver] = pl.read_parquet(out)
    return found


def test_every_row_keeps_its_status_and_says_what_answered_it(tables):
    closed, des = tables["closed_form"], tables["des"]
    assert des["id"].to_list() == ROWS["id"].to_list()
    assert des["status"].to_list() == closed["status"].to_list()
    assert des["driver"].to_list()[:4] == ["des"] * 4
    assert des["driver"].to_list()[4:] == [None, None]
    assert "driver" not in closed.columns


def test_the_two_drivers_agree_and_costs_follow_the_throughput(tables):
    closed, des = tables["closed_form"][:4], tables["des"][:4]
    for name, within in (("tpot_ms", 0.06), ("output_tok_s_per_gpu", 0.08), ("ttft_ms", 0.25)):
        assert des[name].to_list() == pytest.approx(closed[name].to_list(), rel=within)
    assert (des["ttft_ms"] != closed["ttft_ms"]).all()
    spent = [t["usd_per_m_total"] * t["total_tok_s_per_gpu"] for t in (closed, des)]
    assert spent[1].to_list() == pytest.approx(spent[0].to_list())


def test_percentiles_are_over_requests_and_intervals_around_the_simulated_mean(tables):
    des = tables["des"][:4]
    for name in ("ttft", "tpot", "e2e"):
        assert (des[f"{name}_p50_ms"] <= des[f"{name}_p90_ms"]).all()
        assert (des[f"{name}_p90_ms"] <= des[f"{name}_p99_ms"]).all()
    assert (des["ttft_ms_p10"] < des["ttft_ms"]).all()
    assert (des["ttft_ms"] < des["ttft_ms_p90"]).all()


def test_a_load_that_is_not_simulated_keeps_the_closed_form_and_says_so(tmp_path):
    ROWS[:1].with_columns(load=pl.lit("static")).write_csv(tmp_path / "in.csv")
    assert main(["points", str(tmp_path / "in.csv"), str(tmp_path / "out.parquet"), "--driver=des"]) == 0
    row = pl.read_parquet(tmp_path / "out.parquet").row(0, named=True)
    assert (row["status"], row["driver"]) == ("ok", "closed_form")
    assert "closed loops" in row["driver_note"]


def test_a_driver_that_is_none_is_one_line(tmp_path, capsys):
    assert main(["points", "in.csv", "out.csv", "--driver=dess"]) == 2
    assert "closed_form, des" in capsys.readouterr().err
