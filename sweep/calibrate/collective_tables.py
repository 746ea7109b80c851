"""Measured collectives from three kinds of source, in one table.

Columns of every table here: hardware (catalogue name), implementation (nccl or an engine), version, primitive,
n_gpus, bytes, time_us. `bytes` is what the kernels call message_bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sweep.errors import UserError
from sweep.parquet_file import ParquetDecoder

SYSTEMS = {
    "a100_sxm": "a100_sxm_80",
    "b200_sxm": "b200_sxm",
    "b300_sxm": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100_sxm": "h100_sxm",
    "h200_sxm": "h200_sxm",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx_pro_6000",
}
"""Folders of aiconfigurator-core's database by our catalogue name."""
PRIMITIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
ELEMENT_BYTES = 2
"""The tables count 16-bit elements."""
DEEPEP_DISPATCH_WIDTH = 1 + 4 / 128
"""DeepEP's low-latency kernel sends fp8 with one float32 scale per 128 values."""
COLUMNS = ("hardware", "implementation", "version", "primitive", "n_gpus", "bytes", "time_us")


PUBLISHED = "published"
"""Version of the rows of `published_busbw`."""
LARGE_BYTES = 2**34
PUBLISHED_BUSBW_GB_S = (
    ("h200_sxm", "all_reduce", 8, 480.0),
    ("h200_sxm", "all_reduce_ring", 8, 367.0),
    ("h200_sxm", "all_reduce", 4, 363.0),
    ("h200_sxm", "all_gather", 8, 362.0),
    ("h200_sxm", "reduce_scatter", 8, 362.0),
    ("b200_sxm", "all_reduce", 8, 838.0),
    ("b200_sxm", "all_reduce_ring", 8, 682.0),
    ("mi300x", "all_reduce", 2, 47.7),
    ("mi300x", "all_reduce", 8, 312.9),
)
"""Bus bandwidth of large messages (stas00/ml-engineering, network/README.md); _ring: with NVLS switched off."""


def published_busbw() -> pl.DataFrame:
    """`PUBLISHED_BUSBW_GB_S` as samples of `LARGE_BYTES`."""
    rows = []
    for hardware, primitive, n, gb_s in PUBLISHED_BUSBW_GB_S:
        passes = 2 if primitive.startswith("all_reduce") else 1
        time_us = passes * (n - 1) / n * LARGE_BYTES / (gb_s * 1e3)
        rows.append((hardware, "nccl", PUBLISHED, primitive, n, LARGE_BYTES, time_us))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def default_source() -> Path:
    """The database inside the installed package aiconfigurator-core. Raises UserError without it."""
    import importlib.util

    spec = importlib.util.find_spec("aiconfigurator_core")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            "needs measured tables: pip install aiconfigurator-core, or give the folder of its database"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "systems" / "data"


def read_database(data: Path) -> pl.DataFrame:
    """Every collective table below aiconfigurator-core's systems/data, duplicates merged by their median."""
    with ParquetDecoder() as decoder:
        parts = [
            part
            for folder, hardware in SYSTEMS.items()
            for file in sorted((data / folder / "comm").glob("*/*/*.parquet"))
            for part in _read_table(file, hardware, decoder)
        ]
    if not parts:
        raise UserError(
            "holds no collective tables (expected <gpu>/comm/<library>/<version>/*.parquet)", file=str(data)
        )
    keys = [c for c in COLUMNS if c != "time_us"]
    return pl.concat(parts).group_by(keys).agg(pl.col("time_us").median()).sort(keys)


def _read_table(file: Path, hardware: str, decoder: ParquetDecoder) -> list[pl.DataFrame]:
    implementation, version = file.parent.parent.name, file.parent.name
    named = (pl.lit(hardware).alias("hardware"), pl.lit(version).alias("version"))
    if file.name in ("nccl_perf.parquet", "custom_allreduce_perf.parquet"):
        frame = decoder.table(file)
        dtype = "nccl_dtype" if "nccl_dtype" in frame.columns else "allreduce_dtype"
        frame = frame.filter(pl.col(dtype).is_in(["half", "bfloat16"]))
        if "backend" in frame.columns:
            # Engines serve decode steps from CUDA graphs; eager rows time the launch.
            frame = frame.filter(~pl.col("backend").str.ends_with("_eager"))
        library = pl.lit("nccl" if dtype == "nccl_dtype" else implementation).alias("implementation")
        return [
            frame.select(
                *named,
                library,
                pl.col("op_name").replace_strict(PRIMITIVES).alias("primitive"),
                pl.col("num_gpus").cast(pl.Int64).alias("n_gpus"),
                (pl.col("message_size").cast(pl.Int64) * ELEMENT_BYTES).alias("bytes"),
                (pl.col("latency") * 1e3).alias("time_us"),
            ).select(COLUMNS)
        ]
    if file.name.startswith("wideep_deepep_") and implementation == "sglang":
        return _read_deepep(file, hardware, version, decoder)
    return []


def _read_deepep(file: Path, hardware: str, version: str, decoder: ParquetDecoder) -> list[pl.DataFrame]:
    """DeepEP inside one node: bytes = tokens x distinct ranks reached x hidden x width.

    Of many settings of the streaming multiprocessors the fastest per shape counts.
    """
    n_gpus = 4 if hardware.startswith("gb") else 8
    low_latency = file.name.endswith("ll_perf.parquet")
    suffix = "_ll" if low_latency else ""
    reached = n_gpus * (1 - (1 - 1 / n_gpus) ** pl.col("num_topk"))
    frame = decoder.table(file).filter(pl.col("node_num") == 1, pl.col("num_topk") >= 4)
    parts = []
    for phase in ("dispatch", "combine"):
        width = DEEPEP_DISPATCH_WIDTH if low_latency and phase == "dispatch" else 2.0
        time = f"{phase}_avg_t_us" if low_latency else f"{phase}_transmit_us"
        parts.append(
            frame.select(
                pl.lit(hardware).alias("hardware"),
                pl.lit("sglang").alias("implementation"),
                pl.lit(version).alias("version"),
                pl.lit(phase + suffix).alias("primitive"),
                pl.lit(n_gpus, dtype=pl.Int64).alias("n_gpus"),
                (pl.col("num_token") * reached * pl.col("hidden_size") * width)
                .round()
                .cast(pl.Int64)
                .alias("bytes"),
                pl.col(time).cast(pl.Float64).alias("time_us"),
            )
            .group_by([c for c in COLUMNS if c != "time_us"])
            .agg(pl.col("time_us").min())
            .select(COLUMNS)
        )
    return parts


def read_all_reduce_csv(file: Path) -> pl.DataFrame:
    """A CSV with hardware, n_gpus, n_nodes, implementation, nvls, bytes and time_us or busbw_gbps.

    Rows whose notes say that host synchronisation is inside (Vidur profiles) are kept apart as version "profile".
    """
    ring_bytes = 2 * (pl.col("n_gpus") - 1) / pl.col("n_gpus") * pl.col("bytes")
    return (
        pl.read_csv(file, infer_schema_length=None)
        .filter(pl.col("bytes").is_not_null(), pl.col("nvls") != "off")
        .with_columns(pl.coalesce("time_us", ring_bytes / (pl.col("busbw_gbps") * 1e3)).alias("time_us"))
        .select(
            "hardware",
            "implementation",
            pl.when(pl.col("notes").str.contains("(?i)profile"))
            .then(pl.lit("profile"))
            .otherwise(pl.lit("csv"))
            .alias("version"),
            pl.lit("all_reduce").alias("primitive"),
            "n_gpus",
            "bytes",
            "time_us",
        )
    )


_TOKENS = re.compile(r"(\d+) tok/rank, hidden (\d+), topk ?(\d*)")
_WIDTHS = {"bf16": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e4m3_fnuz": 1.0, "fp4": 0.5}
MORI_TOPK = 8
"""Experts per token where a MoRI row names none (its GB/s column agrees)."""
QUANTIZED = "int4"
"""Implementation name of an all-reduce that packs messages into 4 bits."""
_ALL_REDUCE = {
    "allreduce_custom_allreduce": ("vllm",),
    "allreduce_aiter_2stage_tuned": ("vllm", "atom"),
    "allreduce_quickreduce_int4": (QUANTIZED,),
    "rccl_all_reduce_perf": ("nccl",),
}
"""Implementations that run a measured kernel. vLLM calls AITER's on CDNA 4 (vllm#57547); what it ran before is left out."""
_UNSURE = "approximate"
"""Word in the notes of rows whose size or time was not measured."""


def read_instinct_csv(file: Path) -> pl.DataFrame:
    """Custom and RCCL all-reduce, expert dispatch and combine (MoRI) of shared Instinct measurements."""
    rows = []
    for row in pl.read_csv(file, infer_schema_length=None).iter_rows(named=True):
        if row["unit"] != "us" or row["n_gpus"] is None or _UNSURE in str(row["notes"]):
            continue
        for implementation, primitive, size_bytes in _instinct_kernels(row):
            measured = (int(row["n_gpus"]), size_bytes, float(row["value"]))
            rows.append((row["hardware"], implementation, "csv", primitive, *measured))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _instinct_kernels(row: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Implementation, primitive and bytes of what a row measured; none where it is no collective of known size."""
    op, shape = str(row["op"]), str(row["shape_or_bytes"])
    if op in _ALL_REDUCE and shape.isdigit():
        return [(implementation, "all_reduce", int(shape)) for implementation in _ALL_REDUCE[op]]
    match = _TOKENS.search(shape)
    # what was sent narrower than the bytes it is billed for says nothing
    if (
        not op.startswith("mori_ep_")
        or match is None
        or row["dtype"] not in _WIDTHS
        or "quant" in str(row["notes"])
    ):
        return []
    tokens, hidden, topk = (int(x or MORI_TOPK) for x in match.groups())
    n = int(row["n_gpus"])
    reached = n * (1 - (1 - 1 / n) ** topk)
    phase = "dispatch" if "dispatch" in op else "combine"
    low_latency = "_ll" if op.endswith(("LL", "_v1", "_v2")) else ""
    return [("atom", phase + low_latency, round(tokens * reached * hidden * _WIDTHS[row["dtype"]]))]
