"""`servesweep workload`: what it finds in a trace, and how close its fit comes."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.cli import main
from sweep.hydra_sweeper import compose_grid
from sweep.traces import Requests, Traffic, builtin_log, for_duration, read, synthesize
from sweep.traces.fit import fit
from sweep.traces.summary import prefix_reuse, summarise
from sweep.traces.traffic import as_workload, traffic_of

CSV = "arrival_s,isl,osl\n" + "".join(f"{i * 0.5},{100 + i % 7},{10 + i % 3}\n" for i in range(400))


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    return path


def test_the_summary_is_printed_and_the_plot_named_on_the_last_line(trace, capsys):
    assert main(["workload", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "400 requests in 3.3 minutes, 2.005/s" in out
    plot = Path(out.splitlines()[-1])
    assert plot == Path("results/t.png")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_json_is_one_object_and_draws_nothing(trace, capsys):
    assert main(["workload", str(trace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_requests"] == 400
    assert found["isl"]["p50"] == 103
    assert found["fit"]["process"] == "deterministic"
    assert not Path("results").exists()


def test_bad_lines_stop_or_are_reported_as_asked(trace, capsys):
    trace.write_text(CSV.replace("5.0,103,11", "5.0,x,11"))
    assert main(["workload", str(trace)]) == 2
    assert "line 12: isl=x: not a number" in capsys.readouterr().err
    assert main(["workload", str(trace), "--on-bad-line", "report", "--no-plot"]) == 0
    told = capsys.readouterr()
    assert "line 12" in told.err
    assert "399 requests" in told.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "no such file"),
        (["t.csv", "--on-bad-line", "ignore"], "allowed: stop, skip, report"),
        (["t.csv", "--model", "x"], "no request of this model"),
        (["t.csv", "--columns", "isl=nope"], "no such column"),
        (["t.csv", "--block-tokens", "0"], "at least 1"),
        (["t.csv", "--plto", "x.png"], "nearest: --plot"),
    ],
)
def test_mistakes_are_one_line_and_status_2(trace, capsys, arguments, message):
    assert main(["workload", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_the_written_fit_is_a_workload_that_hydra_composes_into_the_same_traffic(trace, capsys):
    Path("conf/workload").mkdir(parents=True)
    assert main(["workload", str(trace), "--fit", "conf/workload/mine.yaml", "--no-plot"]) == 0
    grid = compose_grid(["workload=mine"], config_dirs=[Path("conf")])
    assert grid.n_rows == 1
    written = yaml.safe_load(Path("conf/workload/mine.yaml").read_text())
    again = traffic_of({f"workload.{key}": value for key, value in written.items()})
    assert (again.isl, again.osl, again.process) == (103, 11, "deterministic")
    assert again.rate_per_s == pytest.approx(2.0, rel=1e-5)


def test_a_fit_of_what_was_made_finds_the_numbers_it_was_made_from():
    made = for_duration(
        Traffic(
            rate_per_s=5,
            process="gamma",
            burstiness=0.5,
            distribution="lognormal",
            isl=900,
            osl=250,
            isl_sigma=0.9,
            osl_sigma=0.6,
            length_correlation=0.4,
        ),
        20_000.0,
    )
    found = fit(made)
    t = found.traffic
    assert t.rate_per_s == pytest.approx(5, rel=0.03)
    assert t.burstiness == pytest.approx(0.5, rel=0.05)
    assert (t.isl, t.osl) == (pytest.approx(900, rel=0.03), pytest.approx(250, rel=0.03))
    assert (t.isl_sigma, t.osl_sigma) == (pytest.approx(0.9, rel=0.03), pytest.approx(0.6, rel=0.03))
    assert t.length_correlation == pytest.approx(0.4, abs=0.03)
    assert max(found.isl_ks, found.osl_ks, found.gap_ks) < 0.03


def test_hourly_rates_are_told_apart_from_burstiness():
    rates = tuple(float(r) for r in (1, 1, 2, 6, 10, 6, 2, 1))
    made = for_duration(Traffic(hourly_rates=rates), 8 * 3600.0)
    found = fit(made).traffic
    assert np.diff(made.arrival_ns).std() / np.diff(made.arrival_ns).mean() > 1.3
    assert found.burstiness == pytest.approx(1.0, rel=0.05)
    assert found.hourly_rates == pytest.approx(rates, rel=0.06)


def test_a_clock_of_whole_seconds_does_not_pass_for_bursts():
    fine = for_duration(Traffic(rate_per_s=4.0), 3600.0)
    coarse = Requests(fine.arrival_ns // 10**9 * 10**9, fine.isl, fine.osl)
    found = summarise(coarse)
    assert found.clock_step_s == 1.0
    assert found.gap_cv == pytest.approx(1.0, rel=0.05)
    assert found.n_simultaneous > 1000
    assert summarise(fine).clock_step_s == 0.0


def test_poisson_arrivals_have_dispersion_one():
    found = summarise(for_duration(Traffic(rate_per_s=20.0), 7200.0))
    assert found.dispersion[1] == pytest.approx(1.0, rel=0.08)
    assert found.dispersion[10] == pytest.approx(1.0, rel=0.2)
    assert found.gap_cv == pytest.approx(1.0, rel=0.02)


def test_prefix_reuse_is_the_share_of_tokens_in_blocks_seen_before():
    made = synthesize(Traffic(n_requests=100, isl=1100, n_prefixes=1, prefix_tokens=512))
    found = prefix_reuse(made)
    assert found.hit_rate == pytest.approx(99 * 512 / (100 * 1100))
    assert (found.n_blocks, found.n_distinct) == (200, 101)
    assert found.cache_hit_rate[0] == 0.0
    assert found.blocks_for(0.9) == 2
    assert np.all(np.diff(found.cache_hit_rate) >= 0)


def test_at_least_one_token_of_a_repeated_prompt_is_computed():
    made = synthesize(Traffic(n_requests=10, isl=1024, n_prefixes=1, prefix_tokens=1024))
    assert prefix_reuse(made).hit_rate == pytest.approx(9 * 512 / (10 * 1024))


@settings(max_examples=40, deadline=None)
@given(
    gap=st.lists(st.integers(0, 10**12), min_size=1, max_size=30),
    isl=st.integers(1, 10**6),
    dated=st.booleans(),
)
def test_any_trace_has_a_finite_summary_and_a_fit_that_can_be_made(gap, isl, dated):
    n = len(gap)
    requests = Requests(
        np.cumsum(np.array(gap)),
        np.full(n, isl, np.int32),
        np.arange(1, n + 1, dtype=np.int32),
        epoch_ns=10**18 if dated else None,
    )
    text = json.dumps([summarise(requests).as_dict(), fit(requests).as_dict()], allow_nan=False)
    assert len(text) > 100
    again = traffic_of({f"workload.{k}": v for k, v in as_workload(fit(requests).traffic, "x").items()})
    assert len(synthesize(again)) == 400


def test_the_built_in_log_is_repeatable_has_two_models_and_a_peak(tmp_path):
    for name in ("a.csv", "b.csv"):
        builtin_log(tmp_path / name, 2, 7)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    trace = read(tmp_path / "a.csv")
    assert trace.report.notes == []
    found = summarise(trace.requests)
    assert set(found.models) == {"llama_3_1_8b", "llama_3_3_70b"}
    assert len(found.hour_rate_per_s) == 48
    assert found.hour_rate_per_s[:24].max() > 3 * found.hour_rate_per_s[:24].min()
    builtin_log(tmp_path / "c.parquet", 1, 7, last_day=date(2026, 3, 29))
    last = pl.read_parquet(tmp_path / "c.parquet")
    assert last.equals(pl.read_csv(tmp_path / "a.csv").filter(pl.col("timestamp") >= "2026-03-29"))


def test_the_public_traces_are_summarised(shared):
    azure = summarise(read(shared / "traces" / "azure_llm_2023_conv.csv").requests)
    mooncake = summarise(read(shared / "traces" / "mooncake_conversation.jsonl").requests)
    assert azure.rate_per_s == pytest.approx(5.53, abs=0.01)
    assert azure.isl["p50"] == 1020
    assert mooncake.clock_step_s == 3.0
    assert mooncake.reuse.hit_rate == pytest.approx(0.373, abs=0.001)
