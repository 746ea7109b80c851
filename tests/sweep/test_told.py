"""What a person did not mean is told: contradictions, slips in tables, limits that nothing meets, runs that end unfinished."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sweep.cli import main

ESTIMATE = ["estimate", "--model", "llama_3_1_8b", "--hardware", "h100_sxm"]
SWEEP = ["sweep", "model=llama_3_1_8b", "hardware=h100_sxm", "output.report=false"]
POINTS = "id,model,hardware,tp,isl,osl,concurrency\n1,llama_3_1_8b,H100,1,1024,256,64\n"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a refusal, after which nothing is on disk that was not there."""
    before = sorted(Path().iterdir())
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()
    assert sorted(Path().iterdir()) == before
    return err


@pytest.mark.parametrize(
    ("given", "both"),
    [
        (["workload.isl=5", "--isl", "6"], ["workload.isl=5", "--isl=6"]),
        (["--input-len", "5", "--isl", "6"], ["--input-len=5", "--isl=6"]),
        (["--tp", "8", "parallelism.tp=4"], ["--tp=8", "parallelism.tp=4"]),
        (["model=qwen3_32b"], ["--model=llama_3_1_8b", "model=qwen3_32b"]),
        (["isl=5", "workload.isl=6"], ["isl=5", "workload.isl=6"]),
    ],
)
def test_two_names_of_one_input_with_two_values_contradict_each_other(
    given: list[str], both: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused([*ESTIMATE, *given], capsys)
    assert all(name in told for name in both)


@pytest.mark.parametrize("given", [["workload.isl=5", "--isl", "5"], ["--isl", "6", "--isl", "5"]])
def test_names_that_agree_and_one_name_given_twice_do_not(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ESTIMATE, "--json", *given]) == 0
    assert main([*ESTIMATE, "--json", "--isl", "5"]) == 0
    decoder = json.JSONDecoder()
    out = capsys.readouterr().out
    first, end = decoder.raw_decode(out)
    assert first["ttft_ms"] == decoder.raw_decode(out[end:].lstrip())[0]["ttft_ms"]


@pytest.mark.parametrize("name", ["slo.ttft_ms", "slo.tpot_ms", "slo.e2e_ms"])
def test_a_limit_of_zero_that_nothing_meets_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{name}=0: is out of range; allowed: number > 0" in refused([*SWEEP, f"{name}=0"], capsys)
    flag = f"--{name.replace('.', '-').replace('_', '-')}"
    assert flag in refused(["simulate", flag, "0"], capsys)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("range(1,513,0)", "stands still; allowed: range(start,stop,step)"),
        ("range(1,5,0.0)", "stands still"),
        ("range(1,inf)", "has no end"),
        ("range(1,5,nan)", "has no end"),
        ("range(1,5,1e-300)", "more than 1000000 values"),
        ("shuffle(range(1,10000000000))", "more than 1000000 values"),
        ("9" * 400, "is not a number"),
        ("9" * 5000, "cannot be read"),
        ("a\x1b[31m\x00b", r"a\x1b[31m\x00b"),
    ],
)
def test_a_sweep_that_cannot_be_listed_is_told_in_our_words(
    value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused([*SWEEP, f"workload.isl={value}"], capsys)
    assert said in told
    assert "arg 3" not in told
    assert len(told) < 1500


def test_a_shuffled_axis_is_the_axis(capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", "shuffle(1,2,3)"), ("b", "1,2,3")):
        assert main([*SWEEP, f"workload.isl={value}", f"output.dir={name}"]) == 0
    a, b = (pl.read_parquet(f"{name}/parts/*.parquet") for name in "ab")
    assert a.equals(b)


def test_a_trace_given_to_a_sweep_or_an_estimate_must_be_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "missing.csv: no such file" in refused([*SWEEP, "workload.trace=missing.csv"], capsys)
    assert "missing.csv: no such file" in refused([*ESTIMATE, "workload.trace=missing.csv"], capsys)


@pytest.mark.parametrize("line", ["workload.isl_sigma=2", "workload.hourly_rates='1 2'", "des.seed=3"])
def test_what_only_simulations_read_is_said_to_change_nothing(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key = line.partition("=")[0]
    assert main([*SWEEP, line, "output.dir=run"]) == 0
    assert f"note: {key} changes nothing here: it needs" in capsys.readouterr().err
    assert key in {one["key"] for one in json.loads(Path("run/manifest.json").read_text())["inert_inputs"]}
    assert main([*ESTIMATE, line]) == 0
    assert f"{key} changes nothing here: it needs" in capsys.readouterr().err


PLAN = ["plan", "model=llama_3_1_8b", "hardware=h100_sxm", "parallelism=tp1", "demand.replicas=1"]


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ([*SWEEP, "demand.spare=1"], "demand.spare changes nothing here: it needs servesweep plan or nightly"),
        ([*SWEEP, "demand=rag"], "demand changes nothing here: it needs servesweep plan or nightly"),
        ([*SWEEP, "search.seed=1"], "search.seed changes nothing here: it needs servesweep search"),
        ([*SWEEP, "job.growth_per_week=0.1"], "job.growth_per_week changes nothing here: it needs servesweep nightly"),
        ([*SWEEP, "serving.num_reqs=5"], "serving.num_reqs changes nothing here: it needs servesweep simulate"),
        ([*ESTIMATE, "demand.spare=1"], "demand.spare changes nothing here: it needs servesweep plan or nightly"),
        ([*ESTIMATE, "output.dir=x"], "output.dir changes nothing here: it needs servesweep sweep or search or plan"),
        ([*PLAN, "search.seed=1"], "search.seed changes nothing here: it needs servesweep search"),
        ([*PLAN, "des.top=2"], "des.top changes nothing here: it needs servesweep sweep or search"),
        ([*PLAN, "des.seed=2"], "des.seed changes nothing here: it needs the discrete-event simulator"),
        ([*PLAN, "moe.ep_load_balance=2"], "moe.ep_load_balance changes nothing here: it needs a model with experts"),
        (["export", *SWEEP[1:3], "demand.spare=1"], "demand.spare changes nothing here: it needs servesweep plan"),
    ],
)  # fmt: skip
def test_a_key_of_another_verb_is_said_to_change_nothing(
    line: list[str], needs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 0
    told = [one for one in capsys.readouterr().err.splitlines() if "changes nothing here" in one]
    assert len(told) == 1
    assert needs in told[0]


def test_a_nightly_job_says_which_keys_it_does_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "job=demo", "search.seed=1", "demand.spare=2", "job.log=none.csv"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("note: search.seed changes nothing here: it needs servesweep search\n")
    assert "demand.spare" not in told


TRACE = "arrival_s,isl,osl\n0,900,200\n1,1500,81\n2,701,350\n"


@pytest.mark.parametrize("verb", [["sweep"], ["search", "search.evaluations=2"]], ids=["sweep", "search"])
def test_a_sweep_takes_the_mean_lengths_of_a_trace_and_says_so(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_text(TRACE)
    axes = [*SWEEP[1:], "workload.concurrency=4,8"]
    assert main([*verb, *axes, "workload.trace=t.csv", "output.dir=traced"]) == 0
    told = capsys.readouterr().err
    assert (
        "workload.trace: the mean lengths of 3 requests, 1,034 -> 210 tokens; their arrivals are for" in told
    )
    assert "changes nothing" not in told
    given = ["workload.isl=1034", "workload.osl=210", "workload.length_range=1"]
    assert main([*verb, *axes, *given, "output.dir=given"]) == 0
    traced, plain = (pl.read_parquet(f"{name}/parts/*.parquet") for name in ("traced", "given"))
    assert traced.equals(plain)
    Path("t.csv").unlink()
    assert main(["resume", "traced"]) == 0


def test_a_trace_that_contradicts_or_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text(TRACE)
    Path("bad.csv").write_text(TRACE + "3,many,1\n")
    for name in ("isl=1024", "osl=1,2", "length_range=0.8"):
        told = refused([*SWEEP, "workload.trace=t.csv", f"workload.{name}"], capsys)
        assert f"workload.{name.partition('=')[0]}: contradicts workload.trace" in told
    assert "workload.trace: is one trace" in refused([*SWEEP, "workload.trace=t.csv,bad.csv"], capsys)
    assert "bad.csv: line 5: isl=many" in refused([*SWEEP, "workload.trace=bad.csv"], capsys)
    assert main([*SWEEP, "workload.trace=bad.csv", "workload.on_bad_line=skip", "output.dir=r"]) == 0
    assert "mean lengths of 3 requests" in capsys.readouterr().err


def test_what_a_trace_alone_needs_is_told_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, "workload.on_bad_line=skip", "output.dir=r"]) == 0
    assert "workload.on_bad_line changes nothing here: it needs workload.trace\n" in capsys.readouterr().err
    Path("t.csv").write_text(TRACE)
    assert main([*ESTIMATE, "workload.trace=t.csv"]) == 0
    assert "workload.trace changes nothing here: it needs servesweep sweep" in capsys.readouterr().err


def test_lengths_that_candidates_cannot_be_given_are_refused_before_a_sweep_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "workload.lengths=empirical" in refused(
        [*SWEEP, "workload.lengths=empirical", "des.top=1"], capsys
    )


@pytest.mark.parametrize(
    ("verb", "table", "said"),
    [
        ("points", POINTS + POINTS.splitlines()[1].replace("64", "32") + "\n", "id=1 stands in 2 rows"),
        ("points", POINTS.replace("concurrency", "concurency"), "column concurency is not read; nearest: concurrency"),
        ("points", POINTS.replace("id,", "quick_reduce,"), "column quick_reduce is not read: an input"),
        ("points", POINTS.replace("id,", "comms.quick_reduce,"), "column comms.quick_reduce is not read: an input"),
        ("collectives", "id,hardware,n_gpus,bytes\n1,H100,8,1024\n1,H100,8,2048\n", "id=1 stands in 2 rows"),
        ("collectives", "id,hardware,n_gpus,bytes,primitve\n1,H100,8,1024,p2p\n", "nearest: primitive"),
    ],
)  # fmt: skip
def test_slips_in_a_table_are_told_and_its_rows_answered(
    verb: str, table: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text(table)
    assert main([verb, "in.csv", "out.csv"]) == 0
    assert said in capsys.readouterr().err
    assert pl.read_csv("out.csv").height == table.count("\n") - 1


@pytest.mark.parametrize(
    ("verb", "table"),
    [
        ("points", POINTS.replace("model", "modl", 1)),
        ("points", POINTS.replace("hardware", "hardwear")),
        ("collectives", "id,hardwear,n_gpus,bytes\n1,H100,8,1024\n"),
    ],
)
def test_a_column_that_is_needed_and_misspelt_is_named_with_the_nearest(
    verb: str, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text(table)
    told = refused([verb, "in.csv", "out.csv"], capsys)
    assert "in.csv: " in told
    assert "column is missing; nearest: " + ("modl" if "modl" in table else "hardwear") in told


MEASURED = (
    "id,model,hardware,backend,isl,osl,concurrency,ttft_statistic,measured_ttft_ms,measured_tpot_ms\n"
    "1,llama_3_1_8b,h100_sxm,vllm,1024,1024,16,median,90,8.5\n"
)


@pytest.mark.parametrize(
    "arguments", [["points", "in.csv", "out.csv"], ["validate", "in.csv"], ["anchor", "--read", "in.csv"]]
)
def test_a_column_next_to_a_known_one_is_told_by_every_verb_that_reads_tables(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text(MEASURED)
    assert main(arguments) == 0
    said = f"servesweep {arguments[0]}: in.csv: column ttft_statistic is not read; nearest: ttft_stat\n"
    assert said in capsys.readouterr().err


def test_a_calibration_tells_a_column_next_to_a_known_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.csv").write_text(MEASURED)
    assert main(["calibrate", "engine", "in.csv", "--output", "out.yaml"]) == 2
    slip, mistake = capsys.readouterr().err.splitlines()
    assert slip.endswith("in.csv: column ttft_statistic is not read; nearest: ttft_stat")
    assert "too few measurements" in mistake


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("median", "p99", "ttft_stat=p99: not a statistic; allowed: mean, median"),
        ("llama_3_1_8b", "llama_9", "model=llama_9"),
        ("1024,1024", "1024,many", "osl=many: is not a number"),
    ],
)
def test_a_measured_row_that_a_table_would_not_take_is_no_anchor(
    was: str, now: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text(MEASURED.replace("ttft_statistic", "ttft_stat").replace(was, now))
    told = refused(["anchor", "--read", "in.csv"], capsys)
    assert "in.csv 1: " in told
    assert said in told
    assert not Path("anchors").exists()


def test_measured_rows_are_scored_once_each_whatever_their_ids(capsys: pytest.CaptureFixture[str]) -> None:
    head = "id,model,hardware,isl,osl,concurrency,measured_ttft_ms,measured_tpot_ms\n"
    row = "1,llama_3_1_8b,h100_sxm,1024,1024,16,90,8.5\n"
    Path("twice.csv").write_text(head + row + row)
    Path("none.csv").write_text((head + row + row).replace("id,", "").replace("1,llama", "llama"))
    for name in ("twice.csv", "none.csv"):
        assert main(["validate", name, "--json"]) == 0
        assert {row["rows"] for row in json.loads(capsys.readouterr().out)} == {2}


def test_a_collective_measured_in_words_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.csv").write_text("id,hardware,n_gpus,bytes,time_us\n1,H100,8,many,3\n")
    assert "line 2: bytes=many: is not a number" in refused(["validate", "in.csv"], capsys)


@pytest.mark.parametrize("more", [["--kv-cache-tokens", "10"], ["--kv-cache-tokens", "10", "--json"]])
def test_a_simulation_of_which_no_request_finishes_says_so_and_has_no_answer(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *more, "--summary", "s.json"]) == 3
    assert "16 of 16 requests did not finish: prompt and output need more" in capsys.readouterr().err
    assert json.loads(Path("s.json").read_text())["finished"] == 0


def test_a_simulation_of_which_some_finish_says_how_many_did_not(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("arrival_s,isl,osl\n0,64,8\n0,900000,8\n")
    assert main(["simulate", "--dataset", "t.csv", "--max-num-batched-tokens", "4096"]) == 0
    assert "1 of 2 requests did not finish: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    [
        ["--step-overhead-us", "1e14"],
        ["--request-overhead-ms", "1e15"],
        ["--seed", str(2**70)],
        ["--max-prefill-seqs", "0.5"],
        ["--stream-interval", "1e12"],
    ],
)
def test_numbers_that_the_clock_cannot_hold_are_refused(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"{given[0]}={given[1]}: out of range; allowed: " in refused(["simulate", *given], capsys)


@pytest.mark.parametrize("body", ["1/0", "raise KeyError('x')", "return 7", "return None"])
def test_a_routing_function_that_fails_is_told(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine_routing.py").write_text(f"def f(request, live):\n    {body}\n")
    given = ["--request-routing-policy", "CUSTOM", "--request-routing-function", "mine_routing:f"]
    __import__("sys").modules.pop("mine_routing", None)
    assert "routing" in refused(["simulate", *given], capsys)
