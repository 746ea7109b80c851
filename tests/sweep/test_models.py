"""The model catalogue: totals agree with the published ones, names and ids mean what they should."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import yaml

from kernels.layout import DERIVED
from kernels.params import parameter_counts
from sweep.catalog.models import list_models, model, resolve_model
from sweep.errors import UserError
from sweep.paths import conf_dir
from sweep.records import default_records, set_values

MODELS = list_models()


def total_params(fields):
    p = default_records(1).view(np.recarray)[0]
    set_values(p, fields)
    d = np.zeros(1, DERIVED).view(np.recarray)[0]
    parameter_counts(p, d)
    return float(d.params_total), float(d.params_active)


@pytest.mark.parametrize("name", MODELS)
def test_parameter_total_agrees_with_the_published_one_within_one_percent(name):
    fields = model(name).fields
    assert fields["published_params"], "every model states its published total"
    assert total_params(fields)[0] == pytest.approx(fields["published_params"], rel=0.01)


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("deepseek_v3", 37e9),
        ("kimi_k2", 32e9),
        ("glm_5", 40e9),
        ("gpt_oss_120b", 5.13e9),
        ("gpt_oss_20b", 3.61e9),
        ("qwen3_235b_a22b", 22e9),
        ("qwen3_5_397b_a17b", 17e9),
        ("llama_4_maverick", 17e9),
        ("minimax_m2_5", 10e9),
        ("mixtral_8x7b", 12.9e9),
        ("gemma_4_26b_a4b", 3.8e9),
        ("nemotron_3_super_120b_a12b", 12e9),
    ],
)
def test_active_parameters_agree_with_the_published_ones(name, active):
    assert total_params(model(name).fields)[1] == pytest.approx(active, rel=0.06)


@pytest.mark.parametrize("name", MODELS)
def test_every_catalogue_file_names_itself_and_its_source(name):
    text = (conf_dir() / "model" / f"{name}.yaml").read_text()
    assert "# source: https://" in text
    assert yaml.safe_load(text)["name"] == name
    assert model(name).fields["hf_ids"]


@pytest.mark.parametrize("name", MODELS)
def test_layer_counts_of_a_model_are_consistent(name):
    f = model(name).fields
    assert f["n_window_layers"] + f["n_linear_layers"] <= f["n_layers"]
    assert f["n_moe_layers"] + f["n_mlp_free_layers"] <= f["n_layers"]
    assert f["n_index_layers"] <= f["n_sparse_layers"] <= f["n_layers"] - f["n_linear_layers"]
    assert (f["n_moe_layers"] > 0) == (f["n_experts"] > 0) == (f["experts_per_token"] > 0)
    assert (f["window_tokens"] > 0) == (f["n_window_layers"] > 0)
    assert (f["n_linear_layers"] > 0) == (f["linear_v_heads"] > 0)
    assert f["n_heads"] % f["n_kv_heads"] == 0
    if f["kv_lora_rank"]:
        assert f["head_dim"] == f["qk_nope_dim"] + f["qk_rope_dim"]


@pytest.mark.parametrize(
    ("name", "window", "linear", "moe", "sparse"),
    [
        ("gemma_3_27b", 52, 0, 0, 0),
        ("gemma_3_4b", 29, 0, 0, 0),
        ("gemma_3_12b", 40, 0, 0, 0),
        ("gemma_2_9b", 21, 0, 0, 0),
        ("gemma_4_31b", 50, 0, 0, 0),
        ("gpt_oss_120b", 18, 0, 36, 0),
        ("llama_4_scout", 36, 0, 48, 0),
        ("llama_4_maverick", 36, 0, 24, 0),
        ("qwen3_5_397b_a17b", 0, 45, 60, 0),
        ("qwen3_next_80b_a3b", 0, 36, 48, 0),
        ("deepseek_v3", 0, 0, 58, 0),
        ("deepseek_v3_2", 0, 0, 58, 61),
        ("minimax_m3", 0, 0, 57, 57),
        ("nemotron_3_nano_30b_a3b", 0, 23, 23, 0),
        ("qwen2_5_7b", 0, 0, 0, 0),
    ],
)
def test_kinds_of_layers_are_counted_right(name, window, linear, moe, sparse):
    f = model(name).fields
    assert (f["n_window_layers"], f["n_linear_layers"], f["n_moe_layers"], f["n_sparse_layers"]) == (
        window,
        linear,
        moe,
        sparse,
    )


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("llama_3_1_8b", 131_072),
        ("qwen2_5_7b", 57_344),
        ("qwen3_8b", 147_456),
        ("codellama_7b", 524_288),
        ("mixtral_8x7b", 131_072),
        ("llama_3_3_70b", 327_680),
        ("mistral_small_3_2_24b", 163_840),
    ],
)
def test_cached_bytes_per_token_of_uniform_models_are_those_that_engines_print(name, bytes_per_token):
    f = model(name).fields
    assert f["n_layers"] * 2 * f["n_kv_heads"] * f["head_dim"] * 2 == bytes_per_token


@pytest.mark.parametrize(("name", "bytes_per_token"), [("kimi_vl_a3b", 31_104), ("kimi_k2_5", 70_272)])
def test_cached_bytes_per_token_of_latent_attention_are_those_that_engines_print(name, bytes_per_token):
    f = model(name).fields
    assert f["n_layers"] * (f["kv_lora_rank"] + f["qk_rope_dim"]) * 2 == bytes_per_token


@pytest.mark.measured
@pytest.mark.parametrize("file", ["silicon_dev", "amd_dev", "kv_capacity_dev", "throughput_dev"])
def test_every_measured_model_id_resolves_but_deepseek_v4(shared, file):
    ids = pl.read_csv(shared / "measured" / f"{file}.csv", infer_schema_length=None)["model"].unique()
    assert len(ids) > 5
    unresolved = []
    for text in ids:
        try:
            resolve_model(text)
        except UserError:
            unresolved.append(text)
    assert [text for text in unresolved if "DeepSeek-V4" not in text] == []


def test_reading_the_catalogue_imports_neither_hydra_nor_numba():
    code = (
        "import sys; from sweep.catalog.models import resolve_model; resolve_model('Qwen/Qwen3-32B-FP8');"
        "print(sorted({'hydra', 'omegaconf', 'numba', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
