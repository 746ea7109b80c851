"""Files and overrides that anyone may have written: read, or refused in one line; never a traceback, a hang or an object.

Each reader sees a few hundred damaged inputs, and ten thousand in the long tests. Tables, traces and benchmark results of every
kind: test_hostile_tables.py.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import strategies as st

from sweep.anchors.readers import read_results
from sweep.catalog.hf_config import architecture_from
from sweep.catalog.hf_read import read_json
from sweep.catalog.prices import usd_in_table
from sweep.catalog.yaml_file import read_yaml
from sweep.errors import UserError
from sweep.hydra_sweeper import compose_grid
from sweep.overrides import parse
from sweep.profiles import read_profile, stack
from sweep.simulate.arguments import parse as simulate_arguments
from sweep.simulate.cluster import read_cluster
from sweep.traces import source
from sweep.traces.reader import read
from tests.sweep.fuzzing import CASES, damaged, damaged_text, fuzz
from tests.sweep.model_configs import LATENT

CSV = "arrival_ns,isl,osl\n" + "".join(f"{i * 1000},{100 + i},{10 + i}\n" for i in range(20))
JSONL = "".join(
    json.dumps({"input_toks": 40, "output_toks": 5, "arrival_time_ns": i * 1000, "input_tok_ids": [1, 2, i]})
    + "\n"
    for i in range(20)
)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize(("name", "text"), [("t.csv", CSV), ("t.jsonl", JSONL), ("t.csv.gz", CSV)])
def test_traces(tmp_path: Path, cases: int, name: str, text: str) -> None:
    file = tmp_path / name

    def take(data: bytes) -> None:
        file.write_bytes(gzip.compress(data, 1) if name.endswith("gz") else data)
        requests = read(file).requests
        assert (requests.isl >= 0).all()
        assert (requests.osl >= 0).all()

    fuzz(cases, damaged_text(text), take)


CLUSTER: dict[str, Any] = {
    "num_nodes": 1,
    "link_bw": 16,
    "link_latency": 20000,
    "cxl_mem": {"mem_size": 64, "mem_bw": 60, "mem_latency": 250, "num_devices": 2},
    "nodes": [
        {
            "num_instances": 2,
            "cpu_mem": {"mem_size": 512, "mem_bw": 256, "mem_latency": 0},
            "power": {"base_node_power": 60},
            "instances": [
                {
                    "model_name": "Qwen/Qwen3-30B-A3B-Instruct-2507",
                    "hardware": "RTXPRO6000",
                    "npu_mem": {"mem_size": 96, "mem_bw": 1597, "mem_latency": 0},
                    "num_npus": 1,
                    "tp_size": 1,
                    "ep_size": 2,
                    "dp_group": "A",
                    "pd_type": None,
                }
            ]
            * 2,
        }
    ],
}


@pytest.mark.parametrize("cases", CASES)
def test_cluster_files(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "cluster.json"

    def take(document: Any) -> None:
        file.write_text(json.dumps(document))
        assert read_cluster(file).instances

    fuzz(cases, damaged(CLUSTER), take)


@pytest.mark.parametrize("cases", CASES)
def test_cluster_files_of_any_bytes(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "cluster.json"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        read_cluster(file)

    fuzz(cases, damaged_text(json.dumps(CLUSTER)), take)


MODEL = LATENT | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "rope_scaling": {"type": "yarn", "factor": 40},
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
        "ignore": ["lm_head"],
    },
}


QUANTISED: dict[str, dict[str, Any]] = {
    "compressed-tensors": MODEL["quantization_config"],
    "modelopt": {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {"model.layers.4.mlp": {"quant_algo": "NVFP4"}, "lm_head": {"quant_algo": "FP8"}},
        "kv_cache_scheme": {"num_bits": 8},
        "exclude_modules": ["model.embed_tokens"],
    },
    "quark": {
        "quant_method": "quark",
        "global_quant_config": {"weight": [{"dtype": "fp4", "qscheme": "per_group", "group_size": 32}]},
        "layer_quant_config": {"*self_attn*": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"}}},
        "kv_cache_quant_config": {"*k_proj": {"weight": {"dtype": "fp8_e4m3"}}},
        "exclude": ["lm_head"],
    },
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": ["lm_head"]},
}


@pytest.mark.parametrize("method", sorted(QUANTISED))
def test_undamaged_quantised_configurations_are_read(method: str) -> None:
    architecture_from({**MODEL, "quantization_config": QUANTISED[method]}, None)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("method", sorted(QUANTISED))
def test_model_configurations(tmp_path: Path, cases: int, method: str) -> None:
    file = tmp_path / "config.json"

    def take(document: Any) -> None:
        file.write_text(json.dumps(document))
        architecture_from(read_json(file), None)

    fuzz(cases, damaged({**MODEL, "quantization_config": QUANTISED[method]}), take)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("method", sorted(QUANTISED))
def test_quantisation_blocks(cases: int, method: str) -> None:
    fuzz(
        cases,
        damaged(QUANTISED[method]),
        lambda block: architecture_from({**MODEL, "quantization_config": block}, None),
    )


@pytest.mark.parametrize("cases", CASES)
def test_model_configurations_of_any_bytes(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "config.json"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        architecture_from(read_json(file), None)

    fuzz(cases, damaged_text(json.dumps(MODEL)), take)


BUNDLE = {
    "dense.csv": "layer,tokens,time_us\n" + "".join(f"qkv_proj,{2**i},{10 + i}\n" for i in range(6)),
    "per_sequence.csv": "layer,sequences,time_us\n" + "".join(f"lm_head,{2**i},{10 + i}\n" for i in range(6)),
    "attention.csv": "prefill_chunk,n_decode,kv_prefill,kv_decode,time_us\n"
    + "".join(f"{c},{n},0,{k},{5 + c + n + k}\n" for c in (0, 64) for n in (0, 4) for k in (16, 512)),
    "moe.csv": "tokens,activated_experts,time_us\n"
    + "".join(f"{t},{e},{t + e}\n" for t in (1, 64) for e in (1, 8)),
}
META: dict[str, Any] = {
    "engine_effective": {"max_num_batched_tokens": 2048, "max_num_seqs": 64},
    "skew_fit": {
        "enabled": True,
        "bucket_axes": {"n_bins": [0, 8, 64], "n_labels": ["small", "large"]},
        "per_tp": {1: {"alpha_default": 0.3, "alpha_by_bucket": {"pc=0|small|a|b|c": 0.2}}},
    },
}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "profiles" / "CARD" / "org" / "model" / "bf16"
    (folder / "tp1").mkdir(parents=True)
    (folder / "meta.yaml").write_text(yaml.safe_dump(META))
    for name, text in BUNDLE.items():
        (folder / "tp1" / name).write_text(text)
    return folder


def read_bundle(folder: Path) -> None:
    root = folder.parents[3]
    tables = stack([read_profile(root, "CARD", "org/model", "bf16", 1)], 128, 16)
    assert all(np.asarray(values).size < 10**8 for values in tables.values())
    assert (tables["linear"] >= 0).all()


def test_the_undamaged_bundle_is_read(bundle: Path) -> None:
    read_bundle(bundle)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", sorted(BUNDLE))
def test_profile_tables(bundle: Path, cases: int, name: str) -> None:
    def take(data: bytes) -> None:
        (bundle / "tp1" / name).write_bytes(data)
        read_bundle(bundle)

    fuzz(cases, damaged_text(BUNDLE[name]), take)


@pytest.mark.parametrize("cases", CASES)
def test_profile_metadata(bundle: Path, cases: int) -> None:
    def take(document: Any) -> None:
        (bundle / "meta.yaml").write_text(yaml.safe_dump(document))
        read_bundle(bundle)

    fuzz(cases, damaged(META), take)


PLACE = {"hardware": "h100_sxm", "backend": "vllm", "tp": 1}
RESULT = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "backend": "vllm",
    "num_prompts": 100,
    "completed": 100,
    "total_input_tokens": 102400,
    "total_output_tokens": 12800,
    "mean_ttft_ms": 120.0,
    "mean_tpot_ms": 9.0,
    "max_concurrency": 8,
    "request_rate": "inf",
    "duration": 100.0,
}


@pytest.mark.parametrize("cases", CASES)
def test_anchors(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "result.json"

    def take(document: Any) -> None:
        file.write_text(json.dumps(document))
        read_results(file, dict(PLACE))

    fuzz(cases, damaged(RESULT), take)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv"])
def test_anchors_of_any_bytes(tmp_path: Path, cases: int, name: str) -> None:
    file = tmp_path / name
    table = "model,hardware,tp,isl,osl,concurrency,measured_ttft_ms,measured_tpot_ms\nllama_3_1_8b,h100_sxm,1,1024,128,8,100,9\n"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        read_results(file, dict(PLACE))

    fuzz(cases, damaged_text(table if name == "a.csv" else json.dumps(RESULT)), take)


BOOK: dict[str, Any] = {
    "name": "mine",
    "tier": "on-demand",
    "date": "2026-11-30",
    "book": {"h100_sxm": {"usd_per_gpu_hour": 2.5, "providers": ["A"]}, "l40s": 1.1, "h20": None},
}


@pytest.mark.parametrize("cases", CASES)
def test_price_books(tmp_path: Path, cases: int) -> None:
    file = tmp_path / "mine.yaml"

    def take(data: bytes) -> None:
        file.write_bytes(data)
        table = read_yaml(file).get("book")
        for name in ("h100_sxm", "l40s", "h20", "none"):
            price = usd_in_table(table, name)
            assert price is None or (math.isfinite(price) and price >= 0)

    fuzz(cases, damaged(BOOK).map(lambda document: yaml.safe_dump(document).encode()), take)
    fuzz(cases, damaged_text(yaml.safe_dump(BOOK)), take)


@pytest.mark.parametrize("cases", [15, pytest.param(300, marks=pytest.mark.long)])
def test_price_books_as_a_choice_of_their_group(tmp_path: Path, cases: int) -> None:
    (tmp_path / "price").mkdir()

    def take(document: Any) -> None:
        (tmp_path / "price" / "mine.yaml").write_text(yaml.safe_dump(document))
        compose_grid(["price=mine", "model=llama_3_1_8b", "hardware=h100_sxm"], config_dirs=[tmp_path])

    fuzz(cases, damaged(BOOK), take)


OVERRIDES = (
    "workload.concurrency=1,2,4",
    "workload.isl=range(1,100,10)",
    "model=llama_3_1_8b",
    "hardware=glob(h*)",
    "engine.gpu_memory_utilization=0.9",
    "slo.ttft_ms=[1,2]",
    "output.keep=top",
    "model={a:1}",
    "workload.osl=choice(1,2)",
    "price.usd_per_gpu_hour=${oc.env:HOME}",
)


@pytest.mark.parametrize("cases", CASES)
def test_overrides(cases: int) -> None:
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path
    from hydra.core.global_hydra import GlobalHydra

    from sweep.hydra_sweeper import register
    from sweep.paths import conf_dir

    register()
    GlobalHydra.instance().clear()
    loader = Hydra.create_main_hydra2("servesweep", create_config_search_path(str(conf_dir()))).config_loader

    def take(data: bytes) -> None:
        parse([data.decode("utf-8", "replace")], loader)

    try:
        fuzz(cases, st.sampled_from(OVERRIDES).flatmap(damaged_text), take)
    finally:
        GlobalHydra.instance().clear()


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system ['touch BAD']", "!!python/name:os.system"])
def test_yaml_makes_no_objects(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.yaml"
    file.write_text(f"book: {tag}\n")
    with pytest.raises(UserError):
        read_yaml(file)
    (bundle / "meta.yaml").write_text(f"engine_effective: {tag}\n")
    with pytest.raises(UserError):
        read_bundle(bundle)
    (tmp_path / "price").mkdir()
    shutil.copy(file, tmp_path / "price" / "mine.yaml")
    with pytest.raises(UserError):
        compose_grid(["price=mine", "model=llama_3_1_8b"], config_dirs=[tmp_path])
    assert not (tmp_path / "BAD").exists()


def test_a_gzip_bomb_is_one_line_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RATIO_FREE_BYTES", 2**20)
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(b"arrival_ns,isl,osl\n" + b"1,2,3\n" * 20_000_000, 9))
    with pytest.raises(UserError, match="unpacks to more than"):
        read(file)


@pytest.mark.parametrize(
    "name", ["../out", "a/b", "/etc/x", "..", ".", "", "a\\b", "a\x00b", "a\nb", "~/x y"]
)
def test_a_run_id_that_leaves_its_folder_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="run-id"):
        simulate_arguments([f"--run-id={name}"])
