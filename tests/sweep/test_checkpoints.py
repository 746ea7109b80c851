"""A label of a number format picks a checkpoint, or says what the checkpoint has already."""

import pytest

from sweep.catalog.checkpoints import bits, loaded_checkpoint
from sweep.catalog.models import resolve_model

BF16 = "bfloat16"


def loaded(text, linear, experts):
    run = loaded_checkpoint(resolve_model(text), linear, experts)
    stored = tuple(run.model.fields[f"checkpoint_{name}"] for name in ("attn", "mlp", "experts"))
    return stored, run.linear_dtype, run.expert_dtype


@pytest.mark.parametrize(
    ("text", "linear", "experts", "stored", "overrides"),
    [
        # 4-bit labels of models that others repackage
        ("deepseek-ai/DeepSeek-R1", "nvfp4", "nvfp4", ("nvfp4", "nvfp4", "nvfp4"), (None, None)),
        ("moonshotai/Kimi-K2.5", "nvfp4", "nvfp4", (BF16, "nvfp4", "nvfp4"), (None, None)),
        ("MiniMaxAI/MiniMax-M2.5", "nvfp4", "nvfp4", (BF16, "nvfp4", "nvfp4"), (None, None)),
        ("meta-llama/Llama-3.1-70B", "nvfp4", "nvfp4", ("nvfp4", "nvfp4", "nvfp4"), (None, None)),
        # the checkpoint has it already
        ("openai/gpt-oss-120b", "nvfp4", "nvfp4", (BF16, BF16, "mxfp4"), (None, None)),
        ("openai/gpt-oss-120b", BF16, "mxfp4", (BF16, BF16, "mxfp4"), (None, None)),
        ("moonshotai/Kimi-K2.5", "int4_wo", "int4_wo", (BF16, BF16, "int4_wo"), (None, None)),
        ("deepseek-ai/DeepSeek-V3", "fp8", "fp8_block", ("fp8_block",) * 3, (None, None)),
        (
            "amd/DeepSeek-R1-0528-MXFP4-MTP-MoEFP4",
            "fp8",
            "mxfp4",
            ("fp8_ptpc", "mxfp4", "mxfp4"),
            (None, None),
        ),
        # quantised at load time
        ("Qwen/Qwen3-32B", "fp8", None, (BF16, BF16, BF16), ("fp8", None)),
        ("amd/GLM-5.2-MXFP4", "fp8_ptpc", "mxfp4", (BF16, BF16, "mxfp4"), ("fp8_ptpc", None)),
        ("Qwen/Qwen3-32B", None, None, (BF16, BF16, BF16), (None, None)),
    ],
)
def test_which_checkpoint_a_run_loads_and_what_is_left_to_override(text, linear, experts, stored, overrides):
    got, linear_left, experts_left = loaded(text, linear, experts)
    assert got == stored
    assert (linear_left, experts_left) == overrides


def test_bits_leave_scales_apart():
    assert [bits(d) for d in ("bfloat16", "fp8_block", "int8", "nvfp4", "mxfp4", "int4_wo")] == [
        16,
        8,
        8,
        4,
        4,
        4,
    ]
