"""Files that a simulation writes, against each other and against plain arithmetic."""

import json

import numpy as np
import polars as pl
import pytest

from sweep.cli import main
from sweep.simulate.outputs import CSV_COLUMNS

N = 40
SLO_TTFT_MS, SLO_TPOT_MS = 150.0, 30.0


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One run of 40 requests with every output."""
    where = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(3)
    lines = [
        {
            "input_toks": int(rng.integers(50, 1500)),
            "output_toks": int(rng.integers(1, 90)),
            "arrival_time_ns": int(t),
        }
        for t in np.sort(rng.integers(0, 4 * 10**9, N))
    ]
    (where / "trace.jsonl").write_text("\n".join(map(json.dumps, lines)))
    flags = [
        f"--dataset={where / 'trace.jsonl'}",
        f"--output={where / '{run_id}.csv'}",
        "--run-id=first.run",
        f"--parquet={where / 'requests.parquet'}",
        f"--summary={where / 'summary.json'}",
        f"--steps={where / 'steps.json'}",
        f"--chrome-trace={where / 'chrome.json'}",
        f"--plot={where / 'page.png'}",
        f"--slo-ttft-ms={SLO_TTFT_MS}",
        f"--slo-tpot-ms={SLO_TPOT_MS}",
        f"--inputs-root={where / 'kept'}",
        "--save-trace-text",
        "--keep-inputs",
        "--max-num-seqs=8",
    ]
    assert main(["simulate", *flags]) == 0
    return where


@pytest.fixture(scope="module")
def requests(written):
    return pl.read_parquet(written / "requests.parquet")


@pytest.fixture(scope="module")
def summary(written):
    return json.loads((written / "summary.json").read_text())


def test_the_csv_has_the_columns_of_its_specification_and_gaps_that_add_up(written, requests):
    csv = pl.read_csv(written / "first.run.csv", infer_schema_length=None)
    assert csv.columns == [*CSV_COLUMNS, "ITL"]
    assert csv.height == N
    for row in csv.iter_rows(named=True):
        gaps = json.loads(row["ITL"])
        assert len(gaps) == row["output"] - 1
        assert row["TTFT"] + sum(gaps) == row["latency"]
        assert row["TPOT"] == (
            (row["latency"] - row["TTFT"]) // (row["output"] - 1) if row["output"] > 1 else 0
        )
    assert csv["latency"].to_list() == requests["latency"].to_list()


def test_the_parquet_says_what_happened_to_every_request(requests):
    more = {
        "status",
        "reason",
        "queue_wait_ns",
        "cached_tokens",
        "preemptions",
        "instance id",
        "prefill_instance",
    }
    assert more <= set(requests.columns)
    assert sorted(requests["request id"].to_list()) == list(range(N))
    assert (requests["queue_wait_ns"] >= 0).all()
    assert (requests["queue_wait_ns"] < requests["TTFT"]).all()
    assert (requests["output"] == requests["requested_output"]).all()


def test_percentiles_interpolate_linearly_over_the_requests(requests, summary):
    for name, column in (("ttft", "TTFT"), ("e2e", "latency")):
        values = requests[column].to_numpy() / 1e6
        assert summary[f"{name}_ms_mean"] == pytest.approx(values.mean())
        for q in (50, 90, 95, 99):
            assert summary[f"{name}_ms_p{q}"] == pytest.approx(np.percentile(values, q))
    tpot = requests.filter(pl.col("output") > 1)["TPOT"].to_numpy() / 1e6
    assert summary["tpot_ms_p90"] == pytest.approx(np.percentile(tpot, 90))


def test_gap_percentiles_are_those_of_the_gaps_within_half_a_percent(written, summary):
    csv = pl.read_csv(written / "first.run.csv", infer_schema_length=None)
    gaps = np.concatenate([json.loads(text) for text in csv["ITL"]]) / 1e6
    for q in (50, 90, 99):
        assert summary[f"itl_ms_p{q}"] == pytest.approx(
            np.percentile(gaps, q, method="inverted_cdf"), rel=0.006
        )


def test_goodput_counts_requests_within_both_limits(requests, summary):
    met = requests.filter((pl.col("TTFT") <= SLO_TTFT_MS * 1e6) & (pl.col("TPOT") <= SLO_TPOT_MS * 1e6))
    assert 0 < met.height < N
    seconds = (requests["end_time"].max() - requests["arrival"].min()) / 1e9
    assert summary["goodput_per_s"] == pytest.approx(met.height / seconds)
    assert summary["slo_attainment"] == pytest.approx(met.height / N)


def test_the_step_dump_holds_every_step_and_its_occupancy(written, requests, summary):
    whole = json.loads((written / "steps.json").read_text())
    steps = whole["steps"]
    assert len(steps) == summary["steps"] == whole["packing"]["num_steps"]
    ends = [step["time_ms"] for step in steps]
    assert ends == sorted(ends)
    assert max(step["batch_size"] for step in steps) <= 8
    prompt = requests["input"].sum()
    assert sum(s["total_query_tokens"] for s in steps) == prompt + requests["output"].sum() - N
    pool = whole["config"]["n_blocks"][0] * whole["config"]["block_size"][0]
    assert all(0 <= step["kv_tokens_in_use"] <= pool for step in steps)
    assert whole["packing"]["kv_peak_tokens"] >= max(step["kv_tokens_in_use"] for step in steps)


def test_the_chrome_trace_has_a_slice_per_step_and_a_span_per_request(written, requests, summary):
    events = json.loads((written / "chrome.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == summary["steps"]
    assert {e["name"] for e in slices} <= {"prefill", "decode", "mixed"}
    begun = {e["id"]: e["ts"] for e in events if e["ph"] == "b"}
    ended = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    spans = dict(zip(requests["request id"], requests["latency"] / 1e3, strict=True))
    assert {k: ended[k] - begun[k] for k in begun} == pytest.approx(spans)
    counters = [e["args"]["running"] for e in events if e["ph"] == "C"]
    assert max(counters) == 8


def test_the_page_is_a_picture(written):
    assert (written / "page.png").read_bytes().startswith(b"\x89PNG")


def test_inputs_are_kept_and_every_batch_is_readable(written, summary):
    kept = written / "kept"
    assert json.loads((kept / "cluster.json").read_text())["num_nodes"] == 1
    assert json.loads((kept / "memory.json").read_text())[0]["kv_blocks"] > 0
    batches = sorted((kept / "trace").iterdir())
    assert len(batches) == summary["steps"]
    head, count, columns, *rows = batches[0].read_text().splitlines()
    assert head.startswith("COLOCATED")
    assert columns.split()[:2] == ["Layername", "comp_time"]
    assert len(rows) == int(count)
    assert all(len(row.split()) == 11 for row in rows)


def test_heartbeats_tell_throughput_and_queues_of_every_interval(written, tmp_path, capsys):
    assert main(["simulate", f"--dataset={written / 'trace.jsonl'}", "--log-interval=0.5"]) == 0
    lines = capsys.readouterr().err.splitlines()
    times = [float(line[1 : line.index("s]")]) for line in lines if line.startswith("[")]
    assert len(times) > 5
    assert times == pytest.approx(np.arange(1, len(times) + 1) * 0.5)
    assert sum(line.startswith("Running Instance[0]") for line in lines) == len(times)


def test_outputs_go_nowhere_half_written(written, tmp_path, capsys):
    target = tmp_path / "file"
    target.write_text("in the way")
    assert main(["simulate", f"--output={target / 'out.csv'}"]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert target.read_text() == "in the way"
