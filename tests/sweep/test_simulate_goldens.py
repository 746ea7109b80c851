"""Golden runs of the reference simulator, and two real runs whose reference answers are known to the nanosecond."""

import json

import polars as pl
import pytest

from sweep.cli import main

GOLDENS = {
    "example_single_run": "single_node_single_instance",
    "example_multi_run": "single_node_multi_instance",
    "example_tp_pp_run": "single_node_tp_pp_instance",
    "example_pd_run": "single_node_pd_instance",
    "example_moe_run": "single_node_moe_single_instance",
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


def test_default_run_differs_from_compat_by_idle_ticks_only(shared, tmp_path):
    cluster = shared / "examples/cluster/single_node_single_instance.json"
    trace = shared / "examples/example_trace.jsonl"
    ours, _ = simulate(shared, tmp_path, cluster, trace)
    compat, _ = simulate(shared, tmp_path, cluster, trace, "--compat")
    assert (ours["TTFT"] - compat["TTFT"]).abs().max() <= 1_000_000
