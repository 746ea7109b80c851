"""Ids of checkpoints: whose, of which model, in which formats."""

import pytest

from sweep.catalog.ids import parse_id
from sweep.catalog.models import model, resolve_model
from sweep.errors import UserError

BF16 = "bfloat16"


def formats(text):
    f = resolve_model(text).fields
    return tuple(f[f"checkpoint_{name}"] for name in ("attn", "mlp", "experts", "shared"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama_3_1_8b", "llama_3_1_8b"),
        ("Llama-3.1-8B", "llama_3_1_8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama_3_1_8b"),
        ("META-LLAMA/llama-3.1-8b", "llama_3_1_8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama_3_1_8b"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "llama_3_1_8b"),
        ("meta-llama/Llama-2-7b", "llama_2_7b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_30b_a3b"),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3_235b_a22b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama_3_3_70b"),
        ("zhipuai/GLM-5", "glm_5"),
        ("zai-org/GLM-5", "glm_5"),
        ("google/gemma-3-27b-it", "gemma_3_27b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral_8x7b"),
        ("qwen3.6-35b-a3b-nvfp4", "qwen3_5_35b_a3b"),
        ("nvidia/Kimi-K2-Thinking-NVFP4", "kimi_k2_thinking"),
        ("amd/gpt-oss-120b-w-mxfp4-a-fp8", "gpt_oss_120b"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "qwen2_5_72b"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "llama_3_1_70b"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama_3_1_8b"),
    ],
)
def test_an_id_means_its_architecture(text, name):
    assert resolve_model(text).name == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Qwen/Qwen3-32B", (BF16, BF16, BF16, BF16)),
        ("Qwen/Qwen3-32B-FP8", ("fp8_block",) * 4),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", ("fp8_ptpc",) * 4),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", ("fp8",) * 4),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", ("int8",) * 4),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", ("int4_wo",) * 4),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", ("int4_wo",) * 4),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", ("fp8",) * 4),
        ("nvidia/Qwen3-32B-NVFP4", ("nvfp4",) * 4),
        ("nvidia/Kimi-K2.5-NVFP4", (BF16, "nvfp4", "nvfp4", "nvfp4")),
        ("moonshotai/Kimi-K2.5", (BF16, BF16, "int4_wo", BF16)),
        ("openai/gpt-oss-120b", (BF16, BF16, "mxfp4", BF16)),
        ("unsloth/gpt-oss-20b-BF16", (BF16, BF16, BF16, BF16)),
        ("nvidia/DeepSeek-R1-FP4", (BF16, "nvfp4", "nvfp4", "nvfp4")),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", ("nvfp4", "nvfp4", "nvfp4", "nvfp4")),
        ("amd/DeepSeek-R1-0528-MXFP4", (BF16, "mxfp4", "mxfp4", "mxfp4")),
        ("amd/DeepSeek-R1-0528-MXFP4-MTP-MoEFP4", ("fp8_ptpc", "mxfp4", "mxfp4", "mxfp4")),
        ("amd/DeepSeek-V3.2-mtp-ptpc", ("fp8_ptpc",) * 4),
        ("amd/Kimi-K2.5-MXFP4", (BF16, BF16, "mxfp4", BF16)),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", (BF16, "fp8_ptpc", "fp8_ptpc", "fp8_ptpc")),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", (BF16, BF16, "fp8_ptpc", BF16)),
        ("cyankiwi/gemma-4-31B-it-AWQ-4bit", ("int4_wo",) * 4),
        ("RedHatAI/Qwen3-32B-NVFP4A16", ("nvfp4",) * 4),
        ("zai-org/GLM-4.7-FP8", ("fp8_ptpc",) * 4),
        ("zai-org/GLM-5-FP8", ("fp8_block",) * 4),
    ],
)
def test_the_precision_that_a_name_states_is_stored_class_by_class(text, expected):
    assert formats(text) == expected


def test_head_embedding_and_router_stay_at_16_bit_and_some_names_ask_for_an_fp8_cache():
    for text in ("nvidia/Llama-3.3-70B-Instruct-FP4", "amd/Llama-3.3-70B-Instruct-FP8-KV"):
        f = resolve_model(text).fields
        assert (f["checkpoint_head"], f["checkpoint_embed"], f["checkpoint_router"]) == (BF16, BF16, BF16)
        assert f["checkpoint_kv"] == "fp8"
    assert resolve_model("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic").fields["checkpoint_kv"] == BF16


def test_the_attention_of_nvidia_deepseek_is_stored_in_a_mix_whose_mean_width_is_kept():
    width = resolve_model("nvidia/DeepSeek-V3.1-NVFP4").fields["checkpoint_attn_width"]
    out, rest = 128 * 128 * 7168, 1536 * (7168 + 128 * 192) + 7168 * 576 + 512 * 128 * 256
    assert width == pytest.approx((out * 0.5625 + rest * 2) / (out + rest), abs=1e-5)


def test_repackaging_forgets_the_width_of_the_original():
    assert resolve_model("moonshotai/Kimi-K2.5").fields["checkpoint_experts_width"] == 0.5625
    assert resolve_model("amd/Kimi-K2.5-MXFP4").fields["checkpoint_experts_width"] is None


def test_a_release_with_a_longer_context_has_it():
    assert model("qwen3_235b_a22b").fields["max_position"] == 40960
    assert resolve_model("Qwen/Qwen3-235B-A22B-Instruct-2507").fields["max_position"] == 262144


def test_a_fine_tune_by_others_is_taken_for_its_base_and_says_so():
    entry = resolve_model("NousResearch/Hermes-3-Llama-3.1-8B")
    assert entry.name == "llama_3_1_8b"
    assert "fine-tune of llama_3_1_8b" in entry.notes[0]


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("meta-llama/Llama-3.1-8B-Instuct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama_3_1_9b", "llama_3_1_8b"),
        ("Qwen/Qwen3-33B", "Qwen/Qwen3-32B"),
        ("deepseek-v33", "deepseek_v3"),
    ],
)
def test_an_unknown_id_is_refused_with_the_nearest_names(text, near):
    with pytest.raises(UserError) as error:
        resolve_model(text)
    assert near in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    "text",
    [
        "bartowski/Llama-3.1-8B-GGUF",
        "unsloth/Llama-3.1-8B-bnb-4bit",
        "nvidia/gpt-oss-120b-Eagle3",
        "",
        "/",
        "---",
    ],
)
def test_packagings_that_are_not_priced_and_names_that_say_nothing_are_refused(text):
    with pytest.raises(UserError):
        resolve_model(text)


@pytest.mark.parametrize(
    ("text", "base", "scheme", "revision"),
    [
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "deepseek_r1_0528", "nvfp4", 2),
        ("RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic", "qwen2_5_7b_instruct", "fp8_ptpc", 1),
        ("Qwen/Qwen3-32B", "qwen3_32b", "", 1),
        ("amd/DeepSeek-V3.2-mtp-ptpc", "deepseek_v3_2", "fp8_ptpc", 1),
    ],
)
def test_an_id_is_taken_apart(text, base, scheme, revision):
    found = parse_id(text)
    assert (found.base, found.scheme, found.revision) == (base, scheme, revision)
