"""The page docs/models.md, made from the catalogue: `python -m sweep.catalog.models_page > docs/models.md`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.layout import DERIVED
from kernels.params import parameter_counts
from sweep.catalog.hf_families import FAMILIES
from sweep.catalog.models import list_models, model
from sweep.records import default_records, set_values

INTRO = """# Models

Made from `conf/model` by `python -m sweep.catalog.models_page`. Every figure comes from the model's public config.json,
named in its file; totals are counted from the architecture (`kernels/params.py`) and a test holds each of them to the
published one within 1 %.

- Parameters are those of the language part, without multi-token-prediction layers; a tied embedding counts once.
  "active" are those that one token is multiplied with: all but the experts it does not visit and the embedding's rows.
- Layers: F full attention, W windowed, L linear attention, S sparse (an indexer picks what a token reads), and how many of
  them have experts.
- KV bytes per token are what the full and sparse layers of one engine cache at 16 bit without tensor parallelism; windowed
  layers hold a window and linear layers a state per request besides.
- Formats: attention / dense MLP / experts, as the checkpoint stores them.

A model is named by its name here, by its Hugging Face id in any case (also `-Instruct`, `-2507`, `-Thinking` and the like),
or by the path of a config.json (`model.path=...`, `--model ./config.json`). Ids of repackaged checkpoints mean their
architecture with the formats that the name states, class by class as those checkpoints store them:
`nvidia/*-NVFP4`, `nvidia/*-FP8`, `amd/*-MXFP4*`, `amd/*-ptpc`, `amd/*-FP8-KV`, `RedHatAI/*-FP8-dynamic`,
`*-quantized.w8a8`, `*-quantized.w4a16`, `*-AWQ`, `*-GPTQ-Int4`, vendors' own `*-FP8`. A fine-tune by others is taken for its
base and said so; GGUF, MLX and bitsandbytes are refused.
"""
CONFIGURATIONS = """## Configurations by path

`model_type` of the configurations that are read; any other is refused by name, as is a setting of a known type that changes
the architecture in a way no kernel prices. Formats come from `quantization_config` or an `hf_quant_config.json` beside the
file: fp8, fbgemm_fp8, mxfp4, awq, gptq, compressed-tensors, modelopt and quark, with the modules they leave out. Of a
multimodal model the language part is priced; the encoder adds its weights to the memory, nothing to the time.

"""


def page() -> str:
    """The whole page as Markdown."""
    head = "name|total|active|layers|experts|heads, KV heads|context|KV B/token|formats|config.json".split(
        "|"
    )
    rows = [head, ["---"] * len(head), *(_row(model(name).fields) for name in list_models())]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{INTRO}\n{table}\n\n{CONFIGURATIONS}{', '.join(f'`{name}`' for name in sorted(FAMILIES))}.\n"


def _row(f: Mapping[str, Any]) -> list[str]:
    total, active = _params(f)
    experts = f"{f['experts_per_token']} of {f['n_experts']}" if f["n_experts"] else ""
    return [
        f["name"],
        _billions(total),
        _billions(active),
        _layers(f),
        experts,
        f"{f['n_heads']}, latent" if f["kv_lora_rank"] else f"{f['n_heads']}, {f['n_kv_heads']}",
        f"{f['max_position']:,}",
        f"{_cached_bytes(f):,}",
        _formats(f),
        f["source"].removeprefix("huggingface.co/").removesuffix(" config.json"),
    ]


def _params(f: Mapping[str, Any]) -> tuple[float, float]:
    p, d = default_records(1), np.zeros(1, DERIVED)
    set_values(p[0], f)
    parameter_counts(p[0], d[0])
    return float(d["params_total"][0]), float(d["params_active"][0])


def _billions(params: float) -> str:
    return f"{params / 1e9:.4g} B"


def _full_layers(f: Mapping[str, Any]) -> int:
    return int(f["n_layers"] - f["n_window_layers"] - f["n_linear_layers"])


def _layers(f: Mapping[str, Any]) -> str:
    full = _full_layers(f) - f["n_sparse_layers"]
    kinds = (
        ("F", full),
        ("W", f["n_window_layers"]),
        ("L", f["n_linear_layers"]),
        ("S", f["n_sparse_layers"]),
    )
    text = " + ".join(f"{n} {kind}" for kind, n in kinds if n)
    return f"{text}; {f['n_moe_layers']} MoE" if f["n_moe_layers"] else text


def _cached_bytes(f: Mapping[str, Any]) -> int:
    width = f["kv_lora_rank"] + f["qk_rope_dim"]
    if not f["kv_lora_rank"]:
        width = f["n_kv_heads"] * (f["head_dim"] + f["v_head_dim"])
    return int(_full_layers(f) * width * 2)


def _formats(f: Mapping[str, Any]) -> str:
    names = [f["checkpoint_attn"]]
    if f["ffn_dim"]:
        names.append(f["checkpoint_mlp"])
    if f["n_experts"]:
        names.append(f["checkpoint_experts"])
    return str(names[0]) if len(set(names)) == 1 else " / ".join(names)


if __name__ == "__main__":
    sys.stdout.write(page())
