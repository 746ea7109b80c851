"""Samples from tuned-kernel tables of AMD Instinct GPUs: best times of GEMMs and fused experts (aiter).

Columns: hardware, op, M_or_tokens, N_or_model_dim, K_or_inter_dim, batch_or_experts, topk, dtype, us, notes. One
file serves two accelerators of one chip. Some configurations repeat one time for several token counts: which of
them was measured is unknown, so they are left out. Tuners run with warm caches: points below the roofline drop out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from sweep.calibrate.samples import Floats, Samples, group_labels

CHIPS = {"gfx950": "mi355x", "gfx942": "mi300x"}
"""Accelerator that stands for each chip; its siblings inherit. The fuller table first."""
ENGINE = "vllm"
"""All engines on these GPUs call the same kernels; the others inherit."""
MOST_TOKENS = 16384
FEWEST_POINTS = 15

GEMM_OPS = (
    ("gemm_bf16", pl.col("op").eq("gemm_bf16") & ~pl.col("dtype").str.contains("float32")),
    ("gemm_fp8_block", pl.col("op").str.contains("a8w8_blockscale")),
    (
        "gemm_fp8",
        pl.col("op").is_in(["gemm_a8w8", "gemm_a8w8_bpreshuffle", "gemm_dsv3_a8w8_bpreshuffle"])
        & pl.col("dtype").str.contains("float8|^int8/fp8 *$"),
    ),
    ("gemm_int8", pl.col("op").str.starts_with("gemm_a8w8") & pl.col("dtype").str.ends_with(" int8")),
    ("gemm_mxfp4", pl.col("op").str.contains("a4w4")),
)
MOE_OPS = (
    ("moe_bf16", "w=bfloat16"),
    ("moe_fp8_block", "w=float8.*per_1x128"),
    ("moe_fp8", "w=float8.*(per_Token|per_1x32)"),
    ("moe_mxfp4", "a=float4.*w=float4"),
    ("moe_int4_wo", "w=int4"),
)


def column(frame: pl.DataFrame, name: str) -> Floats:
    """A column as float64."""
    return frame[name].cast(pl.Float64).to_numpy()


def read_instinct(file: Path) -> Iterator[Samples]:
    """Samples of every chip and operator in the file."""
    table = pl.read_csv(file, infer_schema_length=None)
    for chip, hardware in CHIPS.items():
        own = table.filter(pl.col("hardware").str.contains(chip) & (pl.col("M_or_tokens") <= MOST_TOKENS))
        for op, condition in GEMM_OPS:
            yield from _gemm(own.filter(condition), hardware, op, file.name)
        experts = own.filter((pl.col("op") == "fused_moe") & ~pl.col("notes").str.contains("Gelu"))
        for op, formats in MOE_OPS:
            yield from _moe(experts.filter(pl.col("dtype").str.contains(formats)), hardware, op, file.name)


def _gemm(frame: pl.DataFrame, hardware: str, op: str, source: str) -> Iterator[Samples]:
    keys = ["M_or_tokens", "N_or_model_dim", "K_or_inter_dim"]
    wide = (pl.col("N_or_model_dim") >= 128) & (pl.col("K_or_inter_dim") >= 128)
    frame = frame.filter(wide).group_by(keys).agg(pl.col("us").min()).sort(keys)
    if frame.height >= FEWEST_POINTS:
        shapes = np.column_stack([column(frame, key) for key in keys])
        groups = group_labels([shapes[:, 1], shapes[:, 2]])
        yield Samples(hardware, ENGINE, op, shapes, column(frame, "us"), groups, source)


def _moe(frame: pl.DataFrame, hardware: str, op: str, source: str) -> Iterator[Samples]:
    model = ["N_or_model_dim", "K_or_inter_dim", "batch_or_experts", "topk"]
    repeated = pl.len().over([*model, "dtype", "us"]) > 1
    keys = ["M_or_tokens", *model]
    frame = frame.filter(~repeated).group_by(keys).agg(pl.col("us").min()).sort(keys)
    if frame.height < FEWEST_POINTS:
        return
    tokens, hidden, ffn, experts, topk = (column(frame, key) for key in keys)
    touched = experts * (1.0 - (1.0 - topk / experts) ** tokens)
    pairs = tokens * topk
    shapes = np.column_stack([pairs, pairs, touched, hidden, ffn, np.full(frame.height, 3.0)])
    groups = group_labels([hidden, ffn, experts, topk])
    yield Samples(hardware, ENGINE, op, shapes, column(frame, "us"), groups, source)
