"""What each weight class of a repackaged checkpoint is stored in, from the scheme that its name states.

Repackagers quantise the linear layers and leave some at 16 bit; which, depends on their tool and on the
architecture. The rules below were read off hf_quant_config.json and config.json of the checkpoints named.
Embedding, LM head and router stay at 16 bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernels.dtypes import NAMES, WIDTH_BYTES

CLASSES = ("attn", "mlp", "experts", "shared")
BF16 = "bfloat16"

BLOCK_FP8 = frozenset(
    {"qwen", "deepseek-ai", "minimaxai", "moonshotai", "xiaomimimo", "zai-org", "zhipuai", "thudm"}
)
"""Who publish FP8 of their own models in 128 x 128 blocks."""


@dataclass(frozen=True)
class Source:
    """The checkpoint: who made it, the folded name of its model, the revision of the packaging."""

    org: str
    base: str
    revision: int = 1


Rule = Callable[[Mapping[str, Any], Source], dict[str, object]]


def stored_formats(fields: Mapping[str, Any], scheme: str, source: Source) -> dict[str, object]:
    """`checkpoint_*` fields of a checkpoint of `scheme` (`ids.FORMATS`) of the architecture in `fields`."""
    rules: dict[str, Rule] = {"fp8": _fp8, "nvfp4": _nvfp4, "mxfp4": _mxfp4}
    fixed: dict[str, dict[str, object]] = {
        "fp8+kv": _all("fp8") | {"checkpoint_kv": "fp8"},
        "fp8_tensor": _all("fp8") | {"checkpoint_kv": "fp8"},
        "mxfp4+fp8": _all("mxfp4") | {"checkpoint_attn": "fp8_ptpc"},
    }
    stored = rules[scheme](fields, source) if scheme in rules else fixed.get(scheme) or _all(scheme)
    plain = {f"checkpoint_{name}": BF16 for name in ("router", "embed", "head", "kv")}
    widths = {f"checkpoint_{name}_width": None for name in CLASSES}
    return plain | widths | stored


def _all(dtype: str, *, kept: tuple[str, ...] = ()) -> dict[str, object]:
    """Every linear layer in `dtype`, the classes in `kept` at 16 bit."""
    return {f"checkpoint_{name}": BF16 if name in kept else dtype for name in CLASSES}


def _fp8(fields: Mapping[str, Any], source: Source) -> dict[str, object]:
    """Vendors' own FP8: blocks, but GLM-4.x per channel; Meta's leaves attention out; else one scale per tensor."""
    if source.org in BLOCK_FP8:
        per_channel = fields["model_family"] == "glm" and not fields["n_sparse_layers"]
        return _all("fp8_ptpc" if per_channel else "fp8_block")
    if source.org == "meta-llama" and fields["n_moe_layers"]:  # Llama-4-Maverick-*-FP8: routed experts alone
        return _all("fp8_ptpc", kept=("attn", "mlp", "shared"))
    if (
        source.org == "meta-llama"
    ):  # Meta-Llama-3.1-405B-Instruct-FP8: MLPs, the first and last layer's left out
        width = (fields["n_layers"] + 2) / fields["n_layers"]
        return _all("fp8_ptpc", kept=("attn",)) | {"checkpoint_mlp_width": round(width, 6)}
    return _all("fp8") | ({"checkpoint_kv": "fp8"} if source.org == "nvidia" else {})


def _nvfp4(fields: Mapping[str, Any], source: Source) -> dict[str, object]:
    """NVIDIA's NVFP4 keeps more at 16 bit the newer the architecture; other packagers quantise every linear layer."""
    if source.org not in ("", "nvidia"):
        return _all("nvfp4")
    kv: dict[str, object] = {"checkpoint_kv": "fp8"}
    if source.base.startswith("qwen3_6"):  # Qwen3.6-*-NVFP4: mixed, the LM head as well
        return _all("nvfp4") | {"checkpoint_attn": "fp8", "checkpoint_head": "nvfp4"} | kv
    if source.base.startswith("minimax_m3"):  # MiniMax-M3-NVFP4
        return _all("mxfp8") | {"checkpoint_experts": "nvfp4"}
    if fields["model_family"] == "deepseek":
        return _all("nvfp4") | _deepseek_attention(fields, source) | kv
    if fields["n_linear_layers"] and source.revision > 1:  # Qwen3.5-397B-A17B-NVFP4-V2
        return _all("fp8") | {"checkpoint_experts": "nvfp4"} | kv
    if fields["model_family"] == "nemotron":  # NVIDIA-Nemotron-3-Super-*-NVFP4
        return _all("nvfp4") | kv
    if (
        source.base in ("glm_5", "kimi_k2_5") or not fields["n_moe_layers"]
    ):  # GLM-5-, Kimi-K2.5-, Gemma-4-31B-IT-NVFP4
        return _all("nvfp4", kept=("attn",) if _special_attention(fields) else ()) | kv
    if _special_attention(fields):  # GLM-5.1-, Kimi-K2.6-, Qwen3.5-*-, Gemma-4-26B-A4B-NVFP4
        return _all("nvfp4", kept=("attn", "mlp", "shared")) | kv
    if fields["model_family"] == "minimax":  # MiniMax-M2.5-NVFP4
        return _all("nvfp4", kept=("attn",)) | kv
    return _all("nvfp4") | kv  # Qwen3-235B-A22B-NVFP4


def _special_attention(fields: Mapping[str, Any]) -> bool:
    """Latent, linear or windowed attention."""
    return any(fields[name] for name in ("kv_lora_rank", "n_linear_layers", "n_window_layers"))


def _deepseek_attention(fields: Mapping[str, Any], source: Source) -> dict[str, object]:
    """DeepSeek NVFP4: attention at 16 bit; from V3.1 and the second revision of R1 on the output projection is NVFP4."""
    if source.base.startswith(("deepseek_r1", "deepseek_v3_0324")) and source.revision < 2:
        return {"checkpoint_attn": BF16}
    hidden, heads = fields["hidden_size"], fields["n_heads"]
    out = heads * fields["v_head_dim"] * hidden
    rank, kv_rank = fields["q_lora_rank"], fields["kv_lora_rank"]
    rest = rank * (hidden + heads * fields["head_dim"]) + hidden * (kv_rank + fields["qk_rope_dim"])
    rest += kv_rank * heads * (fields["qk_nope_dim"] + fields["v_head_dim"])
    if fields["n_index_layers"]:
        dim = fields["index_head_dim"]
        rest += (rank * fields["index_heads"] + hidden) * dim
    width = (out * float(WIDTH_BYTES[NAMES.index("nvfp4")]) + rest * 2.0) / (out + rest)
    return {"checkpoint_attn": "nvfp4", "checkpoint_attn_width": round(width, 6)}


def _mxfp4(fields: Mapping[str, Any], source: Source) -> dict[str, object]:
    """AMD's MXFP4: routed experts alone, in DeepSeek every MLP; dense models whole, with an FP8 KV cache."""
    if not fields["n_moe_layers"]:
        return _all("mxfp4") | {"checkpoint_kv": "fp8"}
    return _all(
        "mxfp4", kept=("attn",) if fields["model_family"] == "deepseek" else ("attn", "mlp", "shared")
    )
