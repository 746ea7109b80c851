"""Golden runs of the reference simulator, and two real runs whose reference answers are known to the nanosecond."""

import json

import numpy as np
import polars as pl
import pytest

from sweep.cli import main

GOLDENS = {
    "example_single_run": "single_node_single_instance",
    "example_multi_run": "single_node_multi_instance",
    "example_tp_pp_run": "single_node_tp_pp_instance",
    "example_pd_run": "single_node_pd_instance",
    "example_moe_run": "single_node_moe_single_instance",
    "example_cxl_run": "single_node_cxl_instance",
}
EXACT = ("instance id", "TTFT", "TPOT", "end_time", "queuing_delay", "output", "ITL")

pytestmark = pytest.mark.measured


def simulate(shared, tmp_path, cluster, dataset, *flags):
    """Run the command line; returns (per-request table by request id, summary)."""
    out, told = tmp_path / "out.csv", tmp_path / "summary.json"
    status = main(
        [
            "simulate",
            f"--cluster-config={cluster}",
            f"--dataset={dataset}",
            f"--operator-profiles={shared / 'measured/operator_profiles'}",
            "--dtype=bfloat16",
            f"--output={out}",
            f"--summary={told}",
            *flags,
        ]
    )
    assert status == 0
    return pl.read_csv(out, infer_schema_length=None).sort("request id"), json.loads(told.read_text())


@pytest.mark.parametrize("golden", GOLDENS)
def test_compat_reproduces_a_golden_run_to_the_nanosecond(shared, tmp_path, golden):
    ours, _ = simulate(
        shared,
        tmp_path,
        shared / "examples/cluster" / f"{GOLDENS[golden]}.json",
        shared / "examples/example_trace.jsonl",
        "--compat",
        "--num-reqs=10",
    )
    theirs = pl.read_csv(shared / f"examples/golden/{golden}.csv", infer_schema_length=None).sort(
        "request id"
    )
    for column in EXACT:
        assert ours[column].to_list() == theirs[column].to_list(), column


def test_memory_side_attention_is_within_one_transfer_of_its_golden_run(shared, tmp_path):
    ours, _ = simulate(
        shared,
        tmp_path,
        shared / "examples/cluster/single_node_pim_instance.json",
        shared / "examples/example_trace.jsonl",
        "--compat",
        "--enable-attn-offloading",
    )
    theirs = pl.read_csv(shared / "examples/golden/example_pim_run.csv", infer_schema_length=None).sort(
        "request id"
    )
    for column in ("TTFT", "end_time", "queuing_delay"):
        assert (ours[column] - theirs[column]).abs().max() <= 100, column


@pytest.mark.parametrize(
    ("hardware", "flags", "makespan_ns", "preemptions", "recomputed", "hits"),
    [
        ("RTX4090", ("--max-num-seqs=256",), 183_706_634_969, 194, 110_596, 4_848),
        ("RTXPRO6000", (), 64_679_407_283, 0, 0, 19_520),
    ],
)
def test_replay_of_a_real_run_matches_the_reference(
    shared, tmp_path, hardware, flags, makespan_ns, preemptions, recomputed, hits
):
    runs = shared / "measured/vllm_runs"
    _, told = simulate(
        shared,
        tmp_path,
        runs / hardware / "Llama-3.1-8B/config.json",
        runs / "sharegpt-llama-3.1-8b-300-sps10.jsonl",
        "--compat",
        *flags,
    )
    assert told["makespan_ns"] == makespan_ns
    assert told["preemptions"] == preemptions
    assert told["recomputed_tokens"] == recomputed
    assert told["prefix_hit_tokens"] == hits


@pytest.mark.parametrize(("hardware", "flags"), [("RTX4090", ("--max-num-seqs=256",)), ("RTXPRO6000", ())])
def test_default_run_is_close_to_the_real_one(shared, tmp_path, hardware, flags):
    runs = shared / "measured/vllm_runs"
    ours, _ = simulate(
        shared,
        tmp_path,
        runs / hardware / "Llama-3.1-8B/config.json",
        runs / "sharegpt-llama-3.1-8b-300-sps10.jsonl",
        *flags,
    )
    real = pl.read_ndjson(runs / hardware / "Llama-3.1-8B/requests.jsonl")
    first, last, queued = (real[c].to_numpy() for c in ("first_token_ts", "last_token_ts", "queued_ts"))
    pairs = {
        "TTFT": (ours["TTFT"].to_numpy() / 1e9, first - queued),
        "TPOT": (ours["TPOT"].to_numpy() / 1e9, (last - first) / (real["output_toks"].to_numpy() - 1)),
        "latency": (ours["latency"].to_numpy() / 1e9, last - queued),
    }
    assert abs(pairs["TTFT"][0].mean() / pairs["TTFT"][1].mean() - 1) < 0.03
    for name in ("TPOT", "latency"):
        simulated, measured = pairs[name]
        assert abs(simulated.mean() / measured.mean() - 1) < 0.015, name
        for q in (50, 90, 95, 99):
            assert abs(np.percentile(simulated, q) / np.percentile(measured, q) - 1) < 0.015, (name, q)


def test_default_run_differs_from_compat_by_idle_ticks_only(shared, tmp_path):
    cluster = shared / "examples/cluster/single_node_single_instance.json"
    trace = shared / "examples/example_trace.jsonl"
    ours, _ = simulate(shared, tmp_path, cluster, trace, "--sequence-overhead-us=0")
    compat, _ = simulate(shared, tmp_path, cluster, trace, "--compat")
    assert (ours["TTFT"] - compat["TTFT"]).abs().max() <= 1_000_000
