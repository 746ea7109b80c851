"""Samples from LLMServingSim profile bundles: DIR/<hardware>/<model id>/<variant>/tp<N>/*.csv.

Per-layer kernel times of one decoder layer: dense.csv (layer, tokens, time_us), per_sequence.csv (layer,
sequences, time_us), attention.csv (prefill_chunk, kv_prefill, n_decode, kv_decode, time_us) and moe.csv (tokens,
activated_experts, time_us). Shapes come from the catalogue entry of the model id; bf16 variants only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sweep.calibrate.samples import Floats, Samples, group_labels
from sweep.catalog.hardware import resolve_hardware
from sweep.catalog.models import resolve_model

ENGINE = "vllm"
VARIANT = "bf16"
HIDDEN_PASSES = {"layernorm": 4.0, "final_layernorm": 2.0}
"""Reads and writes of the hidden state: a norm inside the stack also carries the residual."""


def gemm_shapes(model: Mapping[str, Any], tp: int) -> dict[str, tuple[float, float]]:
    """(n, k) of every GEMM layer of a bundle on one of `tp` ranks."""
    hidden, head_dim = float(model["hidden_size"]), float(model["head_dim"])
    heads, kv_heads = model["n_heads"] / tp, max(1.0, model["n_kv_heads"] / tp)
    shapes = {
        "qkv_proj": ((heads + 2 * kv_heads) * head_dim, hidden),
        "o_proj": (hidden, heads * head_dim),
        "lm_head": (model["vocab_size"] / tp, hidden),
    }
    if model.get("ffn_dim"):
        shapes["gate_up_proj"] = (2.0 * model["ffn_dim"] / tp, hidden)
        shapes["down_proj"] = (hidden, model["ffn_dim"] / tp)
    return shapes


def read_profiles(root: Path) -> Iterator[Samples]:
    """Samples of every accelerator in the bundle, all its models and widths together.

    Raises UserError for a model or an accelerator that the catalogue does not know.
    """
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        rows: dict[str, list[tuple[Floats, Floats, int]]] = {}
        for group, variant in enumerate(sorted(folder.glob(f"*/*/{VARIANT}/tp*"))):
            model = resolve_model("/".join(variant.parts[-4:-2])).fields
            for op, shapes, us in _layer(variant, model, int(variant.name.removeprefix("tp"))):
                rows.setdefault(op, []).append((shapes, us, group))
        hardware = resolve_hardware(folder.name).name
        for op, parts in rows.items():
            shapes = np.vstack([part[0] for part in parts])
            us = np.concatenate([part[1] for part in parts])
            geometry = shapes[:, 1:3] if op.startswith("gemm") else shapes[:, :0]
            of_part = np.concatenate([np.full(len(part[1]), float(part[2])) for part in parts])
            groups = group_labels([of_part, *geometry.T])
            yield Samples(hardware, ENGINE, op, shapes, us, groups, f"profile bundle {folder.name}")


def _layer(folder: Path, model: Mapping[str, Any], tp: int) -> Iterator[tuple[str, Floats, Floats]]:
    """(operator, shapes, microseconds) of one width of one model."""
    gemms = gemm_shapes(model, tp)
    for name, rows in (("dense.csv", "tokens"), ("per_sequence.csv", "sequences")):
        if not (folder / name).is_file():
            continue
        table = pl.read_csv(folder / name)
        for layer, (n, k) in gemms.items():
            own = table.filter(pl.col("layer") == layer)
            if own.height:
                m = own[rows].cast(pl.Float64).to_numpy()
                yield "gemm_bf16", np.column_stack([m, np.full(len(m), n), np.full(len(m), k)]), _us(own)
        for layer, passes in HIDDEN_PASSES.items():
            own = table.filter(pl.col("layer") == layer)
            if own.height:
                n_bytes = passes * 2.0 * model["hidden_size"] * own[rows].cast(pl.Float64).to_numpy()
                yield "elementwise", n_bytes.reshape(-1, 1), _us(own)
    if (folder / "attention.csv").is_file():
        yield from _attention(pl.read_csv(folder / "attention.csv"), model, tp)
    if (folder / "moe.csv").is_file():
        yield _experts(pl.read_csv(folder / "moe.csv"), model)


def _us(table: pl.DataFrame) -> Floats:
    return table["time_us"].cast(pl.Float64).to_numpy()


def _attention(
    table: pl.DataFrame, model: Mapping[str, Any], tp: int
) -> Iterator[tuple[str, Floats, Floats]]:
    heads, kv_heads = model["n_heads"] / tp, max(1.0, model["n_kv_heads"] / tp)
    head_dim, v_dim = float(model["head_dim"]), float(model["v_head_dim"])
    prefill = table.filter((pl.col("n_decode") == 0) & (pl.col("prefill_chunk") > 0))
    chunk, prior = (prefill[name].cast(pl.Float64).to_numpy() for name in ("prefill_chunk", "kv_prefill"))
    fixed = [np.full(len(chunk), value) for value in (heads, kv_heads, head_dim, v_dim, 0.0, 2.0)]
    yield "prefill_gqa", np.column_stack([np.ones(len(chunk)), chunk, prior, *fixed]), _us(prefill)
    decode = table.filter((pl.col("prefill_chunk") == 0) & (pl.col("n_decode") > 0))
    n_seqs, context = (decode[name].cast(pl.Float64).to_numpy() for name in ("n_decode", "kv_decode"))
    fixed = [np.full(len(n_seqs), value) for value in (1.0, heads, kv_heads, head_dim, v_dim, 2.0)]
    yield "decode_gqa", np.column_stack([n_seqs, context + 1.0, *fixed]), _us(decode)


def _experts(table: pl.DataFrame, model: Mapping[str, Any]) -> tuple[str, Floats, Floats]:
    tokens, touched = (table[name].cast(pl.Float64).to_numpy() for name in ("tokens", "activated_experts"))
    pairs = tokens * model["experts_per_token"]
    fixed = [np.full(len(tokens), float(value)) for value in (model["hidden_size"], model["moe_ffn_dim"], 3)]
    return "moe_bf16", np.column_stack([pairs, pairs, touched, *fixed]), _us(table)
