"""Spellings of number formats that users, checkpoints and engine logs use."""

from __future__ import annotations

from kernels.dtypes import NAMES

ALIASES = {
    "fp32": "float32",
    "float": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "f16": "float16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "float8": "fp8",
    "fp8_static": "fp8",
    "fp8_dynamic": "fp8_ptpc",
    "ptpc": "fp8_ptpc",
    "fp8_blockwise": "fp8_block",
    "w8a8": "int8",
    "w8a8_int8": "int8",
    "int8_wo": "int8",
    "fp4": "nvfp4",
    "nvfp4_wo": "nvfp4",
    "w4a16": "int4_wo",
    "int4": "int4_wo",
    "awq": "int4_wo",
    "gptq": "int4_wo",
    "awq_marlin": "int4_wo",
    "gptq_marlin": "int4_wo",
    "mxfp4_moe": "mxfp4",
    "w4a4": "nvfp4",
}
"""Alias -> name in `kernels.dtypes.NAMES`. Plain "fp4" is NVIDIA's; AMD parts read it as mxfp4 (see `canonical`)."""


def canonical(text: str, *, amd: bool = False) -> str | None:
    """The format's name in the registry, or None where the spelling is unknown."""
    folded = text.strip().lower().replace("-", "_").replace(" ", "_")
    if folded in NAMES:
        return folded
    if amd and folded == "fp4":
        return "mxfp4"
    return ALIASES.get(folded)


def spellings() -> tuple[str, ...]:
    """Every spelling `canonical` takes."""
    return (*NAMES, *ALIASES)
