"""Hugging Face configurations: architecture, stored formats, and what is refused."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.layout import DERIVED
from kernels.params import parameter_counts
from sweep.catalog.hf_config import architecture_from
from sweep.catalog.hf_families import STRUCTURAL_KEYS
from sweep.catalog.models import architecture_of, resolve_model
from sweep.errors import UserError
from sweep.records import default_records, set_values
from tests.sweep.model_configs import LATENT, LLAMA

QWEN3_MOE = LLAMA | {
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}


def fields_of(config, quantization=None):
    return architecture_from(config, quantization).fields


def counts(fields):
    p = default_records(1).view(np.recarray)[0]
    set_values(p, fields)
    d = np.zeros(1, DERIVED).view(np.recarray)[0]
    parameter_counts(p, d)
    return d


def stored(fields):
    return tuple(fields[f"checkpoint_{name}"] for name in ("attn", "mlp", "experts", "shared", "head"))


def test_a_plain_decoder_has_its_exact_parameter_count():
    assert counts(fields_of(LLAMA)).params_total == 8_030_261_248


OLDER = [
    (
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024},
        50257,
        124439808,
    ),
    (
        {
            "model_type": "opt",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "ffn_dim": 16384,
            "max_position_embeddings": 2048,
        },
        50272,
        6658473984,
    ),
    (
        {
            "model_type": "gpt_neox",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "intermediate_size": 16384,
        },
        50432,
        6857302016,
    ),
    (
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "num_hidden_layers": 32,
            "multi_query": True,
        },
        65024,
        6921720704,
    ),
    (
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "num_hidden_layers": 60,
            "new_decoder_architecture": True,
        },
        65024,
        41303293952,
    ),
    (
        {
            "model_type": "starcoder2",
            "hidden_size": 4608,
            "num_attention_heads": 36,
            "num_key_value_heads": 4,
            "num_hidden_layers": 32,
            "intermediate_size": 18432,
        },
        49152,
        7173923840,
    ),
    (
        {
            "model_type": "gpt_bigcode",
            "n_embd": 6144,
            "n_head": 48,
            "n_layer": 40,
            "n_positions": 8192,
            "n_inner": 24576,
        },
        49152,
        15517456384,
    ),
    (
        {
            "model_type": "cohere",
            "hidden_size": 12288,
            "num_attention_heads": 96,
            "num_key_value_heads": 8,
            "num_hidden_layers": 64,
            "intermediate_size": 33792,
            "use_qk_norm": True,
        },
        256000,
        103810674688,
    ),
    (
        {
            "model_type": "internlm2",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_hidden_layers": 32,
            "intermediate_size": 14336,
        },
        92544,
        7737708544,
    ),
    (
        {
            "model_type": "stablelm",
            "hidden_size": 2048,
            "num_attention_heads": 32,
            "num_hidden_layers": 24,
            "intermediate_size": 5632,
            "use_qkv_bias": True,
        },
        100352,
        1644515328,
    ),
]
"""GPT-2, OPT-6.7B, Pythia-6.9B, Falcon 7B and 40B, StarCoder2-7B, StarCoder, Command R+, InternLM2-7B, StableLM 2 1.6B."""


@pytest.mark.parametrize(("config", "vocabulary", "published"), OLDER)
def test_older_families_have_exactly_their_published_parameters(config, vocabulary, published):
    assert counts(fields_of(config | {"vocab_size": vocabulary})).params_total == published


def test_tied_embeddings_default_to_the_familys_own_habit():
    gemma = {k: v for k, v in LLAMA.items() if k != "tie_word_embeddings"} | {"model_type": "gemma"}
    assert fields_of(gemma)["tied_embeddings"] is True
    assert fields_of(gemma | {"tie_word_embeddings": False})["tied_embeddings"] is False
    assert (
        fields_of({k: v for k, v in LLAMA.items() if k != "tie_word_embeddings"})["tied_embeddings"] is False
    )


def test_multi_query_and_multi_head_attention_are_the_ends_of_grouped_queries():
    mha = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    assert fields_of(mha)["n_kv_heads"] == 32
    assert fields_of(LLAMA | {"num_key_value_heads": 1})["n_kv_heads"] == 1


def test_latent_attention_with_shared_experts_and_leading_dense_layers():
    f = fields_of(LATENT)
    assert (f["n_kv_heads"], f["head_dim"], f["v_head_dim"], f["kv_lora_rank"]) == (1, 192, 128, 512)
    assert (f["n_moe_layers"], f["shared_ffn_dim"], f["n_experts"]) == (29, 2816, 64)
    per_expert = 3 * 4096 * 1408
    assert counts(f).params_experts == 29 * 64 * per_expert
    assert counts(f).params_shared == 29 * 2 * per_expert


def test_latent_attention_without_a_compressed_query():
    f = fields_of(LATENT | {"q_lora_rank": None})
    assert f["q_lora_rank"] == 0
    assert counts(f).params_attn == 32 * (
        4096 * 32 * 192 + 4096 * 576 + 512 * 32 * (128 + 128) + 32 * 128 * 4096
    )


@pytest.mark.parametrize(
    ("extra", "layers", "tokens"),
    [
        ({"sliding_window": 4096}, 32, 4096),
        ({"sliding_window": 4096, "use_sliding_window": False}, 0, 0),
        ({"sliding_window": None}, 0, 0),
        ({"sliding_window": 131072}, 0, 0),
        ({"sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention"] * 16}, 16, 1024),
        ({"sliding_window": 1024, "sliding_window_pattern": 4}, 24, 1024),
    ],
)
def test_windows_by_list_by_pattern_or_on_all_layers(extra, layers, tokens):
    f = fields_of(LLAMA | {"model_type": "mistral"} | extra)
    assert (f["n_window_layers"], f.get("window_tokens", 0)) == (layers, tokens)


def test_gemma_3_repeats_five_window_layers_and_a_full_one():
    f = fields_of(
        {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
        }
        | {"sliding_window": 1024}
    )
    assert (f["n_window_layers"], f["n_heads"], f["n_kv_heads"], f["head_dim"]) == (29, 8, 4, 256)


def test_gemma_4_window_layers_have_heads_of_their_own():
    f = fields_of(
        {
            "model_type": "gemma4",
            "text_config": LLAMA
            | {
                "model_type": "gemma4_text",
                "head_dim": 256,
                "global_head_dim": 512,
                "num_global_key_value_heads": 4,
                "num_key_value_heads": 16,
                "attention_k_eq_v": True,
                "sliding_window": 1024,
                "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
            },
        }
    )
    assert (f["head_dim"], f["n_kv_heads"], f["window_head_dim"], f["window_n_kv_heads"]) == (512, 4, 256, 16)
    assert f["k_is_v"] is True
    full, window = 4096 * 32 * 1024 + 4096 * 4 * 512, 4096 * 32 * 512 + 4096 * 16 * 512
    assert counts(f).params_attn == 8 * full + 24 * window


def test_hybrid_linear_attention_is_told_from_full_attention():
    f = fields_of(
        QWEN3_MOE
        | {
            "model_type": "qwen3_next",
            "full_attention_interval": 4,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 32,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "shared_expert_intermediate_size": 512,
        }
    )
    assert (f["n_linear_layers"], f["attn_output_gate"], f["shared_ffn_dim"]) == (24, True, 512)


def test_the_text_part_of_a_multimodal_model_is_priced_and_says_so():
    vision = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304}
    found = architecture_from({"model_type": "mistral3", "text_config": LLAMA, "vision_config": vision})
    assert "encoders beside the language model are left out" in found.notes[0]
    assert found.fields["encoder_params"] == pytest.approx(0.417e9, rel=0.02)
    assert counts(found.fields).params_total == 8_030_261_248
    assert fields_of(LLAMA)["encoder_params"] == 0


def test_an_unquantised_checkpoint_is_stored_in_its_dtype():
    assert stored(fields_of(LLAMA)) == ("bfloat16",) * 5
    assert stored(fields_of(LLAMA | {"torch_dtype": "float16"})) == ("float16",) * 5


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8_block",) * 4 + ("bfloat16",)),
        ({"quant_method": "fp8"}, ("fp8",) * 4 + ("bfloat16",)),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["self_attn", "lm_head"]},
            ("bfloat16", "fp8", "fp8", "fp8", "bfloat16"),
        ),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
            ("bfloat16", "bfloat16", "mxfp4", "bfloat16", "bfloat16"),
        ),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, ("int4_wo",) * 4 + ("bfloat16",)),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, ("int8",) * 4 + ("bfloat16",)),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "ignore": ["model.layers.*.self_attn*", "lm_head"],
            },
            ("bfloat16", "nvfp4", "nvfp4", "nvfp4", "bfloat16"),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "targets": ["Linear"],
                        "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                    }
                },
                "ignore": ["re:.*shared_experts.*", "lm_head"],
            },
            ("fp8_ptpc", "fp8_ptpc", "fp8_ptpc", "bfloat16", "bfloat16"),
        ),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}},
                "layer_quant_config": {
                    "*self_attn*": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"}}
                },
                "exclude": ["lm_head"],
            },
            ("fp8_ptpc", "mxfp4", "mxfp4", "mxfp4", "bfloat16"),
        ),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "MIXED_PRECISION",
                "quantized_layers": {
                    **{f"model.layers.{i}.mlp.experts": {"quant_algo": "NVFP4"} for i in range(32)},
                    **{f"model.layers.{i}.self_attn": {"quant_algo": "FP8"} for i in range(32)},
                    "lm_head": {"quant_algo": "NVFP4"},
                },
            },
            ("fp8", "bfloat16", "nvfp4", "bfloat16", "nvfp4"),
        ),
    ],
)
def test_stored_formats_class_by_class(quantization, expected):
    assert stored(fields_of(LATENT | {"quantization_config": quantization})) == expected


def test_the_width_of_a_class_counts_what_its_group_size_and_its_left_out_layers_cost():
    int4 = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "g": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True},
            }
        },
    }
    assert fields_of(LLAMA | {"quantization_config": int4})["checkpoint_mlp_width"] == 0.5625
    first_kept = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp"]}
    f = fields_of(LLAMA | {"quantization_config": first_kept})
    assert f["checkpoint_mlp"] == "fp8"
    assert f["checkpoint_mlp_width"] == pytest.approx((31 * 1 + 1 * 2) / 32, abs=1e-6)
    assert "checkpoint_attn_width" not in f


def test_layers_of_the_mtp_head_do_not_count_as_layers_of_the_model():
    q = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["mtp.layers.0*", "model.layers.32*"]}
    f = fields_of(QWEN3_MOE | {"quantization_config": q})
    assert "checkpoint_experts_width" not in f


def test_a_module_name_is_not_the_beginning_of_another():
    f = fields_of(
        QWEN3_MOE | {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["gate"]}}
    )
    assert f["checkpoint_experts"] == "fp8"
    assert "checkpoint_experts_width" not in f


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (LLAMA | {"model_type": "mamba3_ultra"}, "mamba3_ultra"),
        (LLAMA | {"model_type": "t5", "is_encoder_decoder": True}, "t5"),
        (LLAMA | {"num_local_experts": 8}, "num_local_experts"),
        (LLAMA | {"kv_lora_rank": 512}, "kv_lora_rank"),
        (LLAMA | {"model_type": "qwen3_moe"}, "num_local_experts"),
        (LLAMA | {"layer_types": ["hyena"] * 32}, "layer_types"),
        (LLAMA | {"layer_types": ["full_attention"] * 3}, "layer_types"),
        (LLAMA | {"hidden_size": "big"}, "hidden_size"),
        (LLAMA | {"hidden_size": -1}, "hidden_size"),
        (LLAMA | {"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"model_type": "llama"}, "hidden_size"),
        ({}, "model_type"),
        (
            LLAMA | {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            "bitsandbytes",
        ),
        (LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": 3}}, "bits"),
        (
            LLAMA | {"quantization_config": {"quant_method": "fp8", "ignore": ["re:(a+)+b"]}},
            "regular expression",
        ),
    ],
)
def test_what_cannot_be_priced_is_refused_by_name(config, named):
    with pytest.raises(UserError) as error:
        architecture_from(config)
    assert named in error.value.message
    assert "\n" not in error.value.message


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(),
    st.sampled_from(["x", "full_attention", "bfloat16"]),
    st.lists(st.sampled_from([0, 1, "x", None, {}]), max_size=70),
    st.dictionaries(st.sampled_from(["weights", "quant_algo", "targets"]), st.none(), max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_configuration_is_read_or_refused_and_never_a_fault(data):
    base = data.draw(st.sampled_from([LLAMA, QWEN3_MOE, LATENT]))
    quantized = base | {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}}
    keys = sorted(STRUCTURAL_KEYS | set(quantized)) + ["moe_layer_freq", "mlp_only_layers", "mlp_layer_types"]
    damage = data.draw(st.dictionaries(st.sampled_from(keys), JUNK, min_size=1, max_size=4))
    try:
        fields = fields_of(quantized | damage)
        assert np.isfinite(counts(fields).params_total)
    except UserError as error:
        assert "\n" not in error.message


def write(folder: Path, config, name="config.json"):
    file = folder / name
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    return file


def test_a_file_and_its_folder_mean_the_same_and_a_quantisation_file_beside_it_is_read(tmp_path):
    file = write(tmp_path, LLAMA)
    write(
        tmp_path,
        {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}},
        "hf_quant_config.json",
    )
    by_file, by_folder = architecture_of(file), resolve_model(f"{tmp_path}/")
    assert by_file.fields["checkpoint_attn"] == by_folder.fields["checkpoint_attn"] == "fp8"
    assert by_file.fields["checkpoint_kv"] == "fp8"
    assert by_file.name == tmp_path.name


@pytest.mark.parametrize(
    "content",
    ["{", "[1, 2]", '{"a":' * 200 + "1" + "}" * 200, "[" * 100_000, "\x00\x01"],
)
def test_files_that_hold_no_bounded_object_are_refused_in_one_line(tmp_path, content):
    with pytest.raises(UserError) as error:
        architecture_of(write(tmp_path, content))
    assert "config.json" in error.value.message
    assert "\n" not in error.value.message


def test_a_missing_file_is_refused_by_its_path(tmp_path):
    with pytest.raises(UserError) as error:
        resolve_model(str(tmp_path / "nowhere.json"))
    assert "nowhere.json" in error.value.message


PUBLISHED = {
    "DeepSeek-V3.2": 671.9e9,
    "DeepSeek-V3": 671.03e9,
    "DeepSeek-R1": 671.03e9,
    "GLM-5": 744e9,
    "Gemma-4-31B": 30.7e9,
    "gemma-4-26B": 25.2e9,
    "Gemma-4-26B": 25.2e9,
    "Kimi-K2": 1.03e12,
    "Llama-3.1-405B": 405.85e9,
    "Llama-3.1-70B": 70.55e9,
    "Llama-3.1-8B": 8.03e9,
    "Llama-4-Maverick": 400.7e9,
    "Llama-4-Scout": 107.8e9,
    "MiMo-7B": 7.62e9,
    "MiMo-V2-Flash": 309e9,
    "MiniMax-M2": 228.7e9,
    "MiniMax-M3": 428e9,
    "Mixtral-8x22B": 140.6e9,
    "Mixtral-8x7B": 46.7e9,
    "Nemotron-3-Nano": 31.6e9,
    "Nemotron-3.5-Lightning": 31.6e9,
    "Nemotron-3-Super": 120.6e9,
    "Nemotron-3-Ultra": 550e9,
    "Nemotron-H-56B": 56.3e9,
    "Qwen3-0.6B": 0.596e9,
    "Qwen3-1.7B": 1.721e9,
    "Qwen3-235B": 235.1e9,
    "Qwen3-30B": 30.53e9,
    "Qwen3-32B": 32.76e9,
    "Qwen3-8B": 8.19e9,
    "Qwen3-Coder-480B": 480.2e9,
    "Qwen3-VL-235B": 235.1e9,
    "Qwen3-VL-2B": 1.721e9,
    "Qwen3-VL-30B": 30.53e9,
    "Qwen3-VL-32B": 32.76e9,
    "Qwen3-VL-4B": 4.022e9,
    "Qwen3-VL-8B": 8.19e9,
    "Qwen3.5-122B": 122e9,
    "Qwen3.5-27B": 27e9,
    "Qwen3.5-35B": 35e9,
    "Qwen3.5-397B": 397e9,
    "Qwen3.6-27B": 27e9,
    "Qwen3.6-35B": 35e9,
    "gpt-oss-120b": 116.83e9,
    "gpt-oss-20b": 20.91e9,
}
"""Published totals of the language parts, MTP layers left out, by the beginning of the name."""


def configurations():
    package = importlib.util.find_spec("aiconfigurator_core")
    if package is None or not package.submodule_search_locations:
        return []
    folder = Path(package.submodule_search_locations[0]) / "model_configs"
    return [f for f in sorted(folder.glob("*_config.json")) if not f.name.endswith("hf_quant_config.json")]


def test_every_configuration_of_aiconfigurator_is_priced_with_its_total_or_refused_by_name():
    files = configurations()
    if not files:
        pytest.skip("the package aiconfigurator-core is not installed (extra `silicon`)")
    priced = 0
    for file in files:
        model_type = json.loads(file.read_text()).get("model_type", "")
        try:
            found = architecture_of(file)
        except UserError as error:
            assert "is not modelled" in error.message, file.name
            assert model_type or "model_type" in error.message
            continue
        name = max((n for n in PUBLISHED if n in file.name), key=len)
        assert counts(found.fields).params_total == pytest.approx(PUBLISHED[name], rel=0.01), file.name
        priced += 1
    assert priced >= 0.8 * len(files)


EXCEPTIONS = {"NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"}
"""Checkpoints whose mix of layers no rule of names foretells."""


def test_formats_told_from_an_id_are_those_of_its_configuration():
    files = [
        f for f in configurations() if f.stem.removesuffix("_config").partition("--")[2] not in EXCEPTIONS
    ]
    if not files:
        pytest.skip("the package aiconfigurator-core is not installed (extra `silicon`)")
    compared = 0
    for file in files:
        try:
            read = architecture_of(file).fields
            told = resolve_model(file.stem.removesuffix("_config").replace("--", "/")).fields
        except UserError:
            continue
        present = {
            "attn": True,
            "mlp": read["ffn_dim"],
            "experts": read["n_experts"],
            "shared": read["shared_ffn_dim"],
            "head": True,
            "kv": True,
        }
        for name in (n for n, there in present.items() if there):
            assert told[f"checkpoint_{name}"] == read[f"checkpoint_{name}"], (file.name, name)
            width = f"checkpoint_{name}_width"
            assert told.get(width) == read.get(width), (file.name, width)
        compared += 1
    assert compared >= 60
