"""Hand-over: commands, manifests and benchmarks of a deployment, with documented flags alone."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweep.cli import main
from sweep.export.benchmark import row
from sweep.export.bundle import Bundle, bundle
from sweep.export.command import Command
from sweep.export.deployment import deployment
from sweep.export.documented import ENGINES, documented
from sweep.export.source import chosen

LLAMA = "model=llama_3_3_70b hardware=h200_sxm parallelism=tp4"
DEEPSEEK = "model=deepseek_v3 hardware=b200_sxm parallelism=dp8_ep8"
SPLIT = "model=llama_3_1_8b hardware=h100_sxm disagg.disaggregate=true disagg.prefill_replicas=2 disagg.decode_tp=2"
EXPORTED = (
    *(f"{LLAMA} engine={engine}" for engine in ENGINES),
    *(f"{DEEPSEEK} engine={engine} speculation.speculative_num_tokens=2" for engine in ENGINES),
    *(f"{SPLIT} engine={engine}" for engine in ENGINES),
    f"{LLAMA} precision=fp8_kv8 engine=sglang workload.length_range=0.8 workload.prefix_hit_rate=0.5",
    f"{LLAMA} precision=nvfp4_kv8 engine=trtllm hardware=b200_sxm engine.kv_offload_gib_per_gpu=64",
    f"{LLAMA} engine.cudagraph_mode=piecewise engine.chunked_prefill=false workload.load=rate workload.request_rate=2",
    "model=qwen3_30b_a3b hardware=mi300x engine=sglang parallelism.tp=2 parallelism.moe_ep=2 engine.block_size=64",
    "model=deepseek_v3 hardware=h200_sxm parallelism=dp16_ep16 engine=sglang",
)


@cache
def exported(text: str, **more: Any) -> Bundle:
    found = chosen(text.split(), None)
    return bundle(deployment(found.record, found.model, found.hardware, **more))


@pytest.mark.parametrize("text", EXPORTED)
def test_every_flag_and_option_is_one_that_the_engine_documents(text: str) -> None:
    made = exported(text)
    known = documented(made.deployment.engine)
    for command in made.servers.values():
        flags = [word for word in command.words() if word.startswith("--")]
        assert set(flags) <= set(known.serve) and len(flags) == len(set(flags))
    bench = [word for word in made.bench.words() if word.startswith("--")]
    assert set(bench) <= set(known.bench)
    for name, content in made.files.items():
        if name.endswith("-options.yaml"):
            options = yaml.safe_load(content)
            dotted = {
                f"{k}.{inner}" if isinstance(v, dict) else k
                for k, v in options.items()
                for inner in (v if isinstance(v, dict) else [""])
            }
            assert dotted <= set(known.config)


@pytest.mark.parametrize("text", EXPORTED)
def test_scripts_are_bash_and_manifests_hold_the_same_commands(text: str) -> None:
    made = exported(text)
    for name, content in made.files.items():
        if name.endswith(".sh"):
            done = subprocess.run(["bash", "-n"], input=content, text=True, capture_output=True)
            assert done.returncode == 0, done.stderr
    documents = [d for d in yaml.safe_load_all(made.files["kubernetes.yaml"]) if d]
    names = [d["metadata"]["name"] for d in documents]
    assert all(len(name) <= 60 for name in names)
    assert len({(d["kind"], d["metadata"]["name"]) for d in documents}) == len(documents)
    workers = [d for d in documents if d["kind"] in ("Deployment", "StatefulSet")]
    gpus = 0
    for worker in workers:
        container = worker["spec"]["template"]["spec"]["containers"][0]
        limits = container.get("resources", {"limits": {"": 0}})["limits"]
        gpus += sum(limits.values()) * worker["spec"]["replicas"]
        role = worker["spec"]["template"]["metadata"]["labels"]["role"]
        if role in made.servers:
            flags = [word for word in container["command"] if word.startswith("--")]
            assert flags == [word for word in made.servers[role].words() if word.startswith("--")]
    assert gpus == made.deployment.gpus
    selectors = [d["spec"]["selector"] for d in documents if d["kind"] == "Service"]
    pods = [w["spec"]["template"]["metadata"]["labels"] for w in workers]
    routed = made.deployment.engine == "vllm" and made.deployment.split
    for selector in selectors:
        found = any(selector.items() <= labels.items() for labels in pods)
        assert found or (routed and selector["role"] == "router")


def test_a_flag_that_is_not_documented_cannot_be_written() -> None:
    with pytest.raises(KeyError, match="--made-up"):
        Command(("vllm", "serve"), documented("vllm").serve).add("--made-up", 1)


def test_widths_follow_each_engines_own_counting() -> None:
    by_vllm = exported(f"{DEEPSEEK} engine=vllm").servers["serve"]
    assert [by_vllm.value(f) for f in ("--tensor-parallel-size", "--data-parallel-size")] == ["1", "8"]
    assert by_vllm.value("--enable-expert-parallel") == ""
    made = exported(f"{DEEPSEEK} engine=sglang engine.max_num_batched_tokens=4096 engine.max_num_seqs=64")
    by_sglang = made.servers["serve"]
    assert [by_sglang.value(f) for f in ("--tp-size", "--dp-size", "--ep-size")] == ["8", "8", "8"]
    # SGLang divides both limits by its DP attention ranks.
    assert by_sglang.value("--chunked-prefill-size") == str(8 * 4096)
    assert by_sglang.value("--max-running-requests") == str(8 * 64)
    by_trtllm = exported(f"{DEEPSEEK} engine=trtllm")
    assert by_trtllm.servers["serve"].value("--tp_size") == "8"
    options = yaml.safe_load(by_trtllm.files["serve-options.yaml"])
    assert options["enable_attention_dp"] is True and options["moe_expert_parallel_size"] == 8


def test_data_parallel_ranks_of_a_dense_model_are_copies() -> None:
    command = exported(
        "model=llama_3_1_8b hardware=h100_sxm parallelism.tp=2 parallelism.attention_dp=2 engine=sglang"
    ).servers["serve"]
    assert [command.value(f) for f in ("--tp-size", "--dp-size", "--enable-dp-attention")] == ["2", "2", None]


def test_lengths_are_what_was_priced_in_each_clients_own_terms() -> None:
    """Uniform in [0.8, 1.0] x 1000: SGLang's client says it so, the others as a mean and a half width."""
    spans = {}
    for engine in ENGINES:
        bench = exported(f"{LLAMA} engine={engine} workload.isl=1000 workload.length_range=0.8").bench
        length = float(bench.value("--random-input-len") or 0)
        ratio = float(bench.value("--random-range-ratio") or 0)
        low = length * ratio if engine == "sglang" else length * (1 - ratio)
        high = length if engine == "sglang" else length * (1 + ratio)
        spans[engine] = (round(low), round(high))
    assert set(spans.values()) == {(800, 1000)}


def test_the_format_decides_what_is_loaded() -> None:
    assert exported(f"{LLAMA} precision=fp8").servers["serve"].value("--quantization") == "fp8"
    own = exported("model=deepseek_v3 hardware=h200_sxm parallelism=tp8")
    assert own.servers["serve"].value("--quantization") is None
    assert own.checkpoint == "CHECKPOINT=deepseek-ai/DeepSeek-V3"
    unnamed = exported(f"{LLAMA} precision=nvfp4 hardware=b200_sxm")
    assert "${CHECKPOINT:?" in unnamed.checkpoint
    named = exported(
        f"{LLAMA} precision=nvfp4 hardware=b200_sxm", checkpoint="nvidia/Llama-3.3-70B-Instruct-NVFP4"
    )
    assert named.checkpoint == "CHECKPOINT=nvidia/Llama-3.3-70B-Instruct-NVFP4"


def test_a_script_without_a_checkpoint_says_what_it_needs() -> None:
    script = exported(f"{LLAMA} precision=nvfp4 hardware=b200_sxm").files["serve.sh"]
    done = subprocess.run(
        ["bash"], input=script, text=True, capture_output=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode != 0
    assert "a checkpoint of llama_3_3_70b in nvfp4" in done.stderr


@pytest.mark.parametrize("text", [LLAMA, f"{DEEPSEEK} engine=sglang", f"{SPLIT} engine=vllm"])
def test_the_row_beside_the_benchmark_is_the_deployment_that_was_priced(text: str) -> None:
    from sweep import estimate, sweep

    made = exported(text)
    told = {k: v for k, v in row(made.deployment).items() if v is not None}
    back, priced = estimate(told), sweep(*text.split())
    for column in ("ttft_ms", "tpot_ms", "output_tok_s_per_gpu"):
        assert back[column][0] == pytest.approx(priced[column][0], rel=2e-3), column


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("model=llama_3_3_70b hardware=l4", "weights do not fit"),
        ("model=llama_3_3_70b hardware=h200_sxm engine=atom", "engine.engine=atom"),
        ("model=llama_3_1_8b hardware=mi300x engine=trtllm", "trtllm does not run on mi300x"),
        ("model=qwen3_30b_a3b hardware=h100_sxm parallelism.tp=4 parallelism.moe_ep=2", "moe_ep=2"),
        (f"{LLAMA} precision.kv_cache_dtype=int8", "kv_cache_dtype=int8"),
        (f"{LLAMA} speculation.speculative_num_tokens=3", "--draft"),
        (f"{LLAMA} engine.kv_offload_gib_per_gpu=10", "kv_offload_gib_per_gpu"),
        (f"{LLAMA} engine.attention_backend=ck", "attention_backend=ck"),
        (f"{LLAMA} engine=sglang engine.cudagraph_mode=piecewise", "cudagraph_mode=piecewise"),
        (f"{SPLIT} engine=vllm disagg.transfer_backend=mori", "transfer_backend=mori"),
        ("model=deepseek_v3 hardware=h200_sxm parallelism=dp16_ep16", "span 2"),
        (f"{LLAMA} parallelism.cp=2", "cp=2"),
        ("model=llama_3_1_8b hardware=h100_sxm,h200_sxm", "2 deployments"),
        (f"{LLAMA} --row=x", "--row=x"),
        (f"{LLAMA} --replicas=0", "--replicas=0"),
        (f"{LLAMA} precision=nvfp4 --checkpoint=Qwen/Qwen3-32B", "checkpoint of qwen3_32b"),
        (
            f"{LLAMA} precision=nvfp4 hardware=b200_sxm --checkpoint=meta-llama/Llama-3.3-70B-Instruct",
            "bfloat16",
        ),
        ("nowhere", "not a results directory"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(
    arguments: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "export").exists()


def test_a_results_directory_gives_its_cheapest_row_or_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import polars as pl

    monkeypatch.chdir(tmp_path)
    run = "model=llama_3_1_8b hardware=h100_sxm,l40s workload.concurrency=1,32 output.report=false output.dir=run"
    assert main(["sweep", *run.split()]) == 0
    best = pl.read_parquet("run/frontier.parquet").filter("cheapest_in_slo").sort("usd_per_m_total")
    capsys.readouterr()
    assert main(["export", "run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert str(best["hardware"][0]).replace("_", "-") in told["name"]
    assert main(["export", "run", "--row", "0", "--output", "out"]) == 0
    assert "--max-concurrency 1 " in (tmp_path / "out" / "bench.sh").read_text()
    assert main(["export", "run", "--row", "99"]) == 2


def test_flags_of_estimate_name_a_deployment_too() -> None:
    command = exported("--model llama_3_1_8b --hardware h100 --tp 1 --max-concurrency 64 --max-num-seqs 128")
    assert command.servers["serve"].value("--max-num-seqs") == "128"
    # the estimator's own "unlimited" and "contiguous" are no settings of an engine
    assert command.servers["serve"].value("--max-num-batched-tokens") == "8192"
    assert command.servers["serve"].value("--block-size") is None


def test_printed_commands_are_words_for_the_shell() -> None:
    made = exported(f"{DEEPSEEK} engine=vllm speculation.speculative_num_tokens=1")
    words = shlex.split(made.servers["serve"].shell().replace("\\\n", ""))
    assert words == made.servers["serve"].words()
    assert json.loads(words[words.index("--speculative-config") + 1])["num_speculative_tokens"] == 1


def test_help_is_quick() -> None:
    code = "import sys; from sweep.cli import main; main(['export', '--help']); assert 'numba' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
