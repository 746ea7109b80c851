"""Traces, tables and benchmark results of every format that is read, damaged: read, or refused in one line."""

from __future__ import annotations

import gzip
import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import strategies as st

from sweep.anchors.readers import read_results
from sweep.calibrate.engine_points import read_measured
from sweep.calibrate.user_table import read_user_table
from sweep.collectives import price_collectives
from sweep.coverage import coverage_values
from sweep.estimation.experiment import read as read_experiment
from sweep.nightly.intake import Intake
from sweep.points import price_points
from sweep.table_io import read_table
from sweep.traces.reader import read, stream
from sweep.validation import figures, score
from sweep.validation_runs import _measured_ms
from tests.sweep.anchors.measured import PLACE, SGLANG, vllm_result
from tests.sweep.fuzzing import CASES, damaged, damaged_text, fuzz, one_decoder

__all__ = ["one_decoder"]


def csv(head: str, *rows: str) -> str:
    return "\n".join((head, *rows)) + "\n"


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


MOONCAKE = [
    {
        "timestamp": 3000 * i,
        "input_length": 1000 + i,
        "output_length": 20,
        "hash_ids": list(range(1 + i % 3)),
    }
    for i in range(12)
]
SESSIONS = [
    {
        "session_id": f"s{i}",
        "arrival_time_ns": i * 1000,
        "sub_requests": [
            {"input_toks": 90, "output_toks": 6, "tool_duration_ns": 2000, "input_tok_ids": [1, 2, 3]},
            {"input_toks": 140, "output_toks": 8},
        ],
    }
    for i in range(6)
]
AZURE = [f"2023-11-16 18:1{i}:46.6805900,{374 + i},{44 + i}" for i in range(9)]
TRACES = {
    "azure.csv": csv("TIMESTAMP,ContextTokens,GeneratedTokens", *AZURE),
    "burst.csv": csv(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
        *(f"{5 * i},ChatGPT,{100 + i},{20 + i},{120 + 2 * i},Conversation log" for i in range(9)),
    ),
    "semicolons.csv": csv("\ufeffcreated_at;isl;osl;model", *(f"17000000{i:02d};10;{i + 1};m" for i in range(12))),
    "mooncake.jsonl": jsonl(MOONCAKE),
    "sessions.jsonl": jsonl(SESSIONS),
    "array.json": json.dumps(MOONCAKE),
}  # fmt: skip


def checked_trace(file: Path) -> None:
    requests = read(file).requests
    assert len(requests) > 0
    assert (requests.isl >= 1).all()
    assert (requests.osl >= 1).all()
    assert (requests.arrival_ns >= 0).all()


def read_night(file: Path) -> None:
    intake = Intake(date(2023, 11, 16), 7)
    stream([file], intake, on_bad_line="skip")
    assert intake.hours.frame().height >= 0
    assert intake.minutes().null_count().sum_horizontal().item() >= 0 if intake.minutes().height else True


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", sorted(TRACES))
def test_traces_of_every_text_format(tmp_path: Path, cases: int, name: str) -> None:
    file = tmp_path / name
    file.write_text(TRACES[name], encoding="utf-8")
    checked_trace(file)

    def take(data: bytes) -> None:
        file.write_bytes(data)
        checked_trace(file)

    fuzz(cases, damaged_text(TRACES[name]), take)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("rows", [MOONCAKE, SESSIONS], ids=["mooncake", "sessions"])
def test_traces_of_any_values(tmp_path: Path, cases: int, rows: list[dict[str, Any]]) -> None:
    file = tmp_path / "trace.jsonl"

    def take(document: list[Any]) -> None:
        file.write_text(jsonl(document))
        checked_trace(file)

    fuzz(cases, damaged(rows[:3]), take)


@st.composite
def damaged_bytes(draw: st.DrawFn, whole: bytes) -> bytes:
    """A binary file with some bytes changed, and sometimes cut short."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 9)) == 0 else data)


def parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


@pytest.mark.usefixtures("one_decoder")
@pytest.mark.parametrize("cases", CASES)
def test_traces_in_parquet(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "t.parquet"
    whole = parquet(pl.DataFrame(MOONCAKE))

    def take(data: bytes) -> None:
        file.write_bytes(data)
        checked_trace(file)

    fuzz(cases, damaged_bytes(whole), take)


@pytest.mark.parametrize("cases", CASES)
def test_traces_in_gzip(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "t.jsonl.gz"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        checked_trace(file)

    fuzz(cases, damaged_bytes(gzip.compress(TRACES["mooncake.jsonl"].encode(), 1)), take)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", ["azure.csv", "night.jsonl"])
def test_nightly_logs(tmp_path: Path, cases: int, name: str) -> None:
    rows = [
        {
            "time": f"2023-11-16T0{i}:00:00Z",
            "model": f"m{i % 2}",
            "prompt_tokens": 900,
            "completion_tokens": 9,
        }
        for i in range(9)
    ]
    text = TRACES.get(name, jsonl(rows))
    file = tmp_path / name

    def take(data: bytes) -> None:
        file.write_bytes(data)
        read_night(file)

    fuzz(cases, damaged_text(text), take)


POINTS = csv(
    "id,mode,model,hardware,backend,backend_version,precision,kv_cache_dtype,isl,osl,concurrency,tp,attention_dp,moe_ep,"
    "prefill_workers,decode_workers,prefill_tp,decode_tp,decode_batch_size,measured_ttft_ms,measured_tpot_ms",
    "1,agg,llama_3_1_8b,h100_sxm,vllm,0.19.0,fp8,fp8,1024,256,64,1,1,,,,,,,90,8.5",
    "2,agg,qwen3_30b_a3b,b200_sxm,sglang,0.5.1,nvfp4,auto,8192,1024,4,2,1,2,,,,,,200,4.5",
    "3,disagg,deepseek_v3,gb200,trtllm,1.2.0,,,1024,1024,,,,,2,1,4,8,64,500,20",
)
LOG = csv(
    "id,model,gpu,gpu_mem_gib,tp,pp,dtype,quantization,kv_dtype,gpu_mem_util,max_model_len,engine,engine_version,weights_gib,kv_tokens",
    "1,codellama/CodeLlama-7b-hf,H100-80GB,79.19,1,1,bfloat16,,auto,0.95,8192,vllm,0.19.0,12.56,126256",
    "2,Qwen/Qwen3-32B,H200,140,2,1,auto,fp8,fp8,0.9,,vllm,0.11,17.1,900000",
)
THROUGHPUT = csv(
    "id,hardware,model,precision,backend,isl,osl,load,tp,measured_output_tok_s_per_gpu",
    "1,gb200,llama_3_1_8b,fp4,trtllm,1000,1000,saturation,1,6939.0",
)


def check_answers(out: pl.DataFrame) -> None:
    """A status per row, figures for those that are ok, and no figure that is no number."""
    assert set(out["status"]) <= {"ok", "infeasible", "invalid"}
    numbers = out.select(pl.selectors.float())
    assert not numbers.select(pl.any_horizontal((pl.all().is_nan() | pl.all().is_infinite()).any())).item()
    bad = out.filter(pl.col("status") != "ok")
    assert (bad["reason"].str.len_chars() > 0).all()
    assert all(reason.isprintable() for reason in out["reason"])


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("text", [POINTS, LOG], ids=["points", "start_up_log"])
def test_tables_of_deployments_and_start_up_logs(tmp_path: Path, cases: int, text: str) -> None:
    file = tmp_path / "in.csv"
    file.write_text(text)
    assert set(price_points(read_table(file))["status"]) == {"ok"}

    def take(data: bytes) -> None:
        file.write_bytes(data)
        frame = read_table(file)
        out = price_points(frame)
        assert out.height == frame.height
        check_answers(out)

    fuzz(cases, damaged_text(text), take)


def test_an_id_that_is_no_number_is_no_figure(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text(LOG.replace("\n1,", "\n1e999,"))
    out = price_points(read_table(file))
    assert out["id"].to_list() == ["1e999", "2"]
    check_answers(out)


@pytest.mark.usefixtures("one_decoder")
@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_tables_of_deployments_of_any_values(tmp_path: Path, suffix: str, cases: int) -> None:
    file = tmp_path / f"in.{suffix}"
    (tmp_path / "in.csv").write_text(POINTS)
    rows = pl.read_csv(tmp_path / "in.csv").to_dicts()
    whole = parquet(pl.DataFrame(rows))

    def take(given: Any) -> None:
        file.write_bytes(given if suffix == "parquet" else jsonl(given).encode())
        frame = read_table(file)
        check_answers(price_points(frame))

    fuzz(cases, damaged_bytes(whole) if suffix == "parquet" else damaged(rows), take)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("text", [POINTS, LOG, THROUGHPUT], ids=["latencies", "start_up_log", "throughput"])
def test_measured_tables(tmp_path: Path, cases: int, text: str) -> None:
    file = tmp_path / "measured.csv"
    file.write_text(text)
    assert figures(read_table(file))

    def take(data: bytes) -> None:
        file.write_bytes(data)
        for figure in figures(read_table(file)):
            assert score(figure).height

    fuzz(cases, damaged_text(text), take)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("text", [POINTS, THROUGHPUT], ids=["latencies", "throughput"])
def test_tables_that_calibrate_the_engine(tmp_path: Path, cases: int, text: str) -> None:
    file = tmp_path / "measured.csv"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        read_measured([file])

    fuzz(cases, damaged_text(text), take)


COLLECTIVES = csv(
    "id,hardware,n_gpus,n_nodes,implementation,nvls,primitive,algorithm,bytes,time_us",
    "1,h100_sxm,8,1,nccl,auto,all_reduce,auto,1048576,30",
    "2,mi300x,8,1,vllm,off,all_gather,ring,4096,9",
    "3,b200_sxm,16,2,nccl,on,all_to_all,auto,65536,20",
)


@pytest.mark.parametrize("cases", CASES)
def test_tables_of_collectives(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "in.csv"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        frame = read_table(file)
        if "time_us" in frame.columns:
            for figure in figures(frame):
                assert score(figure).height
        out = price_collectives(frame)
        assert out.filter(pl.col("status") == "ok")["time_us"].is_finite().all()

    fuzz(cases, damaged_text(COLLECTIVES), take)


STORE = {
    "servesweep_anchors": 1,
    "anchors": [
        {
            "deployment": {
                "model": "llama_3_1_8b", "hardware": "h100_sxm", "backend": "vllm", "tp": 1, "isl": 1024, "osl": 128,
                "concurrency": 8,
            },
            "measured": {"ttft_ms": 100.0, "tpot_ms": 9.0},
            "source": "a",
        }
    ],
}  # fmt: skip
TRTLLM = {
    "engine": {"model": "Qwen/Qwen3-32B", "version": "1.2.0", "kv_cache_dtype": "FP8", "quantization": "FP8"},
    "machine": {"name": "NVIDIA H100 80GB HBM3"},
    "world_info": {"tp_size": 2, "pp_size": 1, "ep_size": None},
    "request_info": {
        "num_requests": 100,
        "avg_num_concurrent_requests": 31.6,
        "avg_input_length": 1024.0,
        "avg_output_length": 256.0,
    },
    "streaming_metrics": {"avg_ttft_ms": 300.0, "avg_tpot_ms": 20.0},
}
ARTIFACT = {
    "backend": "vllm",
    "meta": {"model": "qwen3_32b", "benchmark_tp": 2, "input_len": 1024, "output_len": 256, "batch": 4},
    "sweep": [{"batch": b, "prefill_ms": 40.0 * b, "decode_ms": 15.0} for b in (1, 8)],
    "decode_ctx": [{"batch": 8, "context": 2048, "decode_ms": 15.0}],
    "measured": {"model": {"prefill_ms": 90.0, "decode_ms": 14.0}},
}
RESULTS: dict[str, Any] = {
    "vllm": vllm_result(),
    "sglang": SGLANG,
    "trtllm": TRTLLM,
    "artifact": ARTIFACT,
    "store": STORE,
}


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", sorted(RESULTS))
def test_benchmark_results_of_every_client(tmp_path: Path, cases: int, name: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(RESULTS[name]))
    assert read_results(file, dict(PLACE))

    def take(document: Any) -> None:
        file.write_text(json.dumps(document))
        assert read_results(file, dict(PLACE))

    fuzz(cases, damaged(RESULTS[name]), take)


@pytest.mark.parametrize("cases", CASES)
def test_requests_of_a_real_run(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "requests.jsonl"
    rows = [
        {"queued_ts": 1.0 + i, "first_token_ts": 1.5 + i, "last_token_ts": 4.0 + i, "output_toks": 30}
        for i in range(4)
    ]

    def take(document: list[Any]) -> None:
        file.write_text(jsonl(document))
        assert set(_measured_ms(file)) == {"TTFT", "TPOT", "latency"}

    fuzz(cases, damaged(rows), take)


OPERATORS = csv(
    "hardware,engine,op,m,n,k,us",
    *(f"h100_sxm,vllm,gemm_bf16,{2**i},4096,4096,{10 + i}" for i in range(5)),
)


@pytest.mark.parametrize("cases", CASES)
def test_operator_tables_of_ones_own(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(OPERATORS)
    assert list(read_user_table(file))

    def take(data: bytes) -> None:
        file.write_bytes(data)
        list(read_user_table(file))

    fuzz(cases, damaged_text(OPERATORS), take)


@pytest.mark.parametrize("cases", CASES)
def test_router_coverage(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "coverage.json"

    def take(document: Any) -> None:
        file.write_text(json.dumps(document))
        assert all(0.0 < share <= 1.0 for share in coverage_values(file).values())

    fuzz(cases, damaged({"coverage_vs_uniform": {"1": 0.9, "16": 0.7, "256": 0.8}}), take)


@pytest.mark.parametrize(
    "curve", [{"16": 0.7, "256": 1e-320}, {"3.9999999999999996": 0.5, "4": 0.7}, {"1": 5e-324, "256": 5e-324}]
)
def test_shares_between_two_of_a_curve_lie_between_them(tmp_path: Path, curve: dict[str, float]) -> None:
    (tmp_path / "coverage.json").write_text(json.dumps(curve))
    found = coverage_values(tmp_path / "coverage.json").values()
    assert min(curve.values()) <= min(found)
    assert max(found) <= max(curve.values())


EXPERIMENT = {
    "modules": {"pre_trainer": {"model": "llama3.1_8B.yaml", "overrides": {"tensor_model_parallel_size": 2, "fp8": "x"}}},
    "inference": {
        "input_len": 1024,
        "collective": {"tp_allreduce_algo": "ring"},
        "disaggregation": {"enabled": True, "prefill_tp": 2},
        "hardware_config": {"hbm_bandwidth_gbps": 3000},
    },
}  # fmt: skip


@pytest.mark.parametrize("cases", CASES)
def test_experiments(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "experiment.yaml"

    def take(document: Any) -> None:
        file.write_text(yaml.safe_dump(document))
        read_experiment(str(file), {})

    fuzz(cases, damaged(EXPERIMENT), take)
    fuzz(
        cases,
        damaged_text(yaml.safe_dump(EXPERIMENT)),
        lambda data: (file.write_bytes(data), take_text(file)),
    )


def take_text(file: Path) -> None:
    read_experiment(str(file), {"HOME": "x"})
