"""Samples from the operator tables of the Python package aiconfigurator-core (its folder systems/data).

Layout: <system>/<family>/<engine>/<version>/<table>_perf.parquet. Latencies are milliseconds; a table may hold a
key twice (the faster is kept: engines pick their kernels the same way). Times are of kernels replayed in a graph,
but for a few tables measured eagerly, whose floor of 50 us and more is the host's: those are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from kernels.attention import FUSED_TOKENS
from sweep.calibrate.samples import Floats, Samples, group_labels
from sweep.parquet_file import ParquetDecoder

SYSTEMS = {
    "a100_sxm": "a100_sxm_80",
    "h100_sxm": "h100_sxm",
    "h200_sxm": "h200_sxm",
    "b200_sxm": "b200_sxm",
    "b300_sxm": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx_pro_6000",
}
"""Catalogue name of each system of the package that carries tables."""
ENGINES = ("vllm", "sglang", "trtllm")

GEMM_OPS = {
    "bfloat16": "gemm_bf16",
    "fp8": "gemm_fp8",
    "fp8_block": "gemm_fp8_block",
    "nvfp4": "gemm_nvfp4",
    "int4_wo": "gemm_int4_wo",
    "sq": "gemm_int8",
}
MOE_OPS = {
    "bfloat16": "moe_bf16",
    "fp8": "moe_fp8",
    "fp8_block": "moe_fp8_block",
    "nvfp4": "moe_nvfp4",
    "w4a8_mxfp4_mxfp8": "moe_mxfp4",
    "w4a16_mxfp4": "moe_mxfp4",
    "int4_wo": "moe_int4_wo",
}
"""Rows by the tables' formats; of two formats for one row the first that a GPU has counts."""

FEWEST_POINTS = 300
EAGER_FLOOR_US = 45.0
"""No graph-replayed GEMM takes so long at its 5th percentile; tables above it measured the host's launches."""
MOST_TOKENS = 16384
MOST_QUERIES_PER_KV_HEAD = 32
"""Wider groups fall back to kernels three times slower in some engines; no served model has them."""
KV_WIDTHS = {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0}
WIDEST_EP = 32
"""Wider expert groups hold a few experts per rank and take times that follow no load the tables state."""
MODEL_KEYS = ("hidden_size", "inter_size", "topk", "num_experts")
MOE_KEYS = ("num_tokens", *MODEL_KEYS, "moe_tp_size", "moe_ep_size")
MOE_COLUMNS = (*MOE_KEYS, "distribution", "us")
SSM_STATE_BYTES = 4.0
"""Engines keep the recurrent state of gated delta networks in float32."""


def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version in order, for sorting."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def newest(
    root: Path, system: str, family: str, engine: str, table: str
) -> Iterator[tuple[str, pl.DataFrame]]:
    """(version, table) of one engine, newest first, microseconds in column `us`."""
    files = sorted(
        (root / system / family / engine).glob(f"*/{table}_perf.parquet"),
        key=lambda file: version_key(file.parent.name),
        reverse=True,
    )
    with ParquetDecoder() as decoder:
        for file in files:
            yield file.parent.name, decoder.table(file).with_columns(us=pl.col("latency") * 1e3)


def column(frame: pl.DataFrame, name: str) -> Floats:
    """A column as float64."""
    return frame[name].cast(pl.Float64).to_numpy()


def gemm_samples(root: Path, system: str, engine: str) -> Iterator[Samples]:
    """Dense GEMMs: m rows, (n, k) weights of at least one tile."""
    seen: set[str] = set()
    for version, table in newest(root, system, "gemm", engine, "gemm"):
        shapes = table.filter((pl.col("n") >= 128) & (pl.col("k") >= 128) & (pl.col("m") <= MOST_TOKENS))
        for dtype, op in GEMM_OPS.items():
            frame = shapes.filter(pl.col("gemm_dtype") == dtype)
            if op in seen or frame.height < FEWEST_POINTS:
                continue
            if _floor_us(frame) > EAGER_FLOOR_US:
                continue
            if engine == "trtllm" and dtype == "fp8":
                frame = _without_dynamic_scale(root, system, frame)
            frame = frame.group_by("m", "n", "k").agg(pl.col("us").min()).sort("m", "n", "k")
            seen.add(op)
            yield Samples(
                SYSTEMS[system],
                engine,
                op,
                np.column_stack([column(frame, name) for name in ("m", "n", "k")]),
                column(frame, "us"),
                group_labels([column(frame, "n"), column(frame, "k")]),
                f"gemm/{engine}/{version}",
            )


def _floor_us(frame: pl.DataFrame) -> float:
    return float(np.quantile(column(frame, "us"), 0.05))


def _without_dynamic_scale(root: Path, system: str, frame: pl.DataFrame) -> pl.DataFrame:
    """trtllm's fp8 table searches each activation's scale first; its fp8 checkpoints carry static scales."""
    for _, scale in newest(root, system, "quantize", "trtllm", "computescale"):
        scale = (
            scale.filter(pl.col("quant_dtype") == "fp8").group_by("m", "k").agg(scale_us=pl.col("us").min())
        )
        return frame.join(scale, on=["m", "k"], how="inner").with_columns(
            us=pl.col("us") - pl.col("scale_us")
        )
    return frame


def attention_samples(root: Path, system: str, engine: str) -> Iterator[Samples]:
    """GQA prefill and decode without windows, head dimensions 64 and 128 (256 runs other kernels, of rarer models)."""
    for phase, table_name in (("prefill", "context_attention"), ("decode", "generation_attention")):
        for version, table in newest(root, system, "attention", engine, table_name):
            if "window_size" in table.columns:
                table = table.filter(pl.col("window_size") == 0)
            table = table.filter(pl.col("head_dim").is_in([64, 128])).with_columns(
                kv_heads=pl.when(pl.col("num_key_value_heads") == 0)
                .then(pl.col("num_heads"))
                .otherwise(pl.col("num_key_value_heads")),
                head=pl.col("head_dim"),
            )
            table = table.filter(pl.col("num_heads") <= MOST_QUERIES_PER_KV_HEAD * pl.col("kv_heads"))
            if phase == "prefill" and (table["attn_dtype"] == "fp8").any():
                # This engine computes in fp8 whenever its cache is fp8
                table = table.filter(pl.col("attn_dtype") == pl.col("kv_cache_dtype"))
            for kv_dtype, suffix in (("bfloat16", ""), ("fp8", "_fp8_kv")):
                frame = table.filter(pl.col("kv_cache_dtype") == kv_dtype)
                if frame.height >= FEWEST_POINTS:
                    build = _prefill if phase == "prefill" else _decode
                    yield build(
                        frame, system, engine, f"{phase}_gqa{suffix}", f"attention/{engine}/{version}"
                    )
            break


def mla_samples(root: Path, system: str, engine: str) -> Iterator[Samples]:
    """MLA cores: prefill unabsorbed (192 + 128 dimensions), decode absorbed (latent 512 + 64)."""
    for phase, table_name in (("prefill", "context_mla"), ("decode", "generation_mla")):
        for version, table in newest(root, system, "mla", engine, table_name):
            for kv_dtype, suffix in (("bfloat16", ""), ("fp8", "_fp8_kv")):
                frame = table.filter(pl.col("kv_cache_dtype") == kv_dtype)
                if frame.height < FEWEST_POINTS:
                    continue
                build: Callable[[pl.DataFrame, str, str, str, str], Samples]
                if phase == "prefill":
                    frame = frame.with_columns(
                        kv_heads=pl.col("num_heads"), head=pl.lit(192), v_dim=pl.lit(128)
                    )
                    build = _prefill
                else:
                    frame = frame.with_columns(kv_heads=pl.lit(1), head=pl.lit(576), v_dim=pl.lit(512))
                    build = _decode
                yield build(frame, system, engine, f"{phase}_mla{suffix}", f"mla/{engine}/{version}")
            break


def _prefill(frame: pl.DataFrame, system: str, engine: str, op: str, source: str) -> Samples:
    frame = _attention_keys(frame.filter(pl.col("isl") >= 16), ("batch_size", "isl"))
    n = frame.height
    kv_width = np.full(n, KV_WIDTHS["fp8" if op.endswith("fp8_kv") else "bfloat16"])
    shapes = [column(frame, "batch_size"), column(frame, "isl"), np.zeros(n), column(frame, "num_heads")]
    shapes += [
        column(frame, "kv_heads"),
        column(frame, "head"),
        column(frame, "v_dim"),
        np.zeros(n),
        kv_width,
    ]
    return _attention_samples(frame, system, engine, op, shapes, source)


def _decode(frame: pl.DataFrame, system: str, engine: str, op: str, source: str) -> Samples:
    frame = frame.with_columns(context=pl.col("step") + 1)
    served = (pl.col("context") >= 16) & (pl.col("context") * pl.col("batch_size") <= 3_000_000)
    frame = _attention_keys(frame.filter(served), ("batch_size", "context"))
    n = frame.height
    kv_width = np.full(n, KV_WIDTHS["fp8" if op.endswith("fp8_kv") else "bfloat16"])
    shapes = [column(frame, "batch_size"), column(frame, "context"), np.ones(n), column(frame, "num_heads")]
    shapes += [column(frame, "kv_heads"), column(frame, "head"), column(frame, "v_dim"), kv_width]
    return _attention_samples(frame, system, engine, op, shapes, source)


def _attention_keys(frame: pl.DataFrame, axes: tuple[str, str]) -> pl.DataFrame:
    if "v_dim" not in frame.columns:
        frame = frame.with_columns(v_dim=pl.col("head"))
    keys = [*axes, "num_heads", "kv_heads", "head", "v_dim"]
    return frame.group_by(keys).agg(pl.col("us").min()).sort(keys)


def _attention_samples(
    frame: pl.DataFrame, system: str, engine: str, op: str, shapes: list[Floats], source: str
) -> Samples:
    geometry = [column(frame, name) for name in ("num_heads", "kv_heads", "head")]
    return Samples(
        SYSTEMS[system],
        engine,
        op,
        np.column_stack(shapes),
        column(frame, "us"),
        group_labels(geometry),
        source,
    )


def linear_samples(root: Path, system: str, engine: str) -> Iterator[Samples]:
    """Gated delta networks: the recurrence itself, without its short convolution."""
    for version, table in newest(root, system, "linear_attention", engine, "gdn"):
        keys = ["batch_size", "seq_len", "num_v_heads", "head_k_dim", "head_v_dim"]
        served = pl.col("batch_size") * pl.col("seq_len") <= 131072
        frame = table.filter(served & ~pl.col("kernel_source").str.contains("conv"))
        frame = frame.group_by([*keys, "phase"]).agg(pl.col("us").min()).sort([*keys, "phase"])
        for op, phase in (
            ("linear_prefill", (pl.col("phase") == "context") & (pl.col("seq_len") > FUSED_TOKENS)),
            ("linear_decode", pl.col("phase") == "generation"),
        ):
            own = frame.filter(phase)
            if own.height:
                shapes = [column(own, name) for name in keys] + [np.full(own.height, SSM_STATE_BYTES)]
                groups = group_labels([column(own, "num_v_heads")])
                source = f"linear_attention/{engine}/{version}"
                yield Samples(
                    SYSTEMS[system], engine, op, np.column_stack(shapes), column(own, "us"), groups, source
                )
        return


def moe_samples(root: Path, system: str, engine: str) -> Iterator[Samples]:
    """Gated experts on one rank: inter_size / moe_tp wide, num_experts / moe_ep of them, all tokens in front of it."""
    found: set[str] = set()
    for dtype, op in MOE_OPS.items():
        if op in found:
            continue
        releases: dict[tuple[int, ...], list[tuple[str, pl.DataFrame]]] = {}
        for version, table in newest(root, system, "moe", engine, "moe"):
            frame = _gated(table.filter(pl.col("moe_dtype") == dtype))
            releases.setdefault(version_key(version)[:3], []).append((version, frame))
        for parts in releases.values():
            # Candidates of one release measured different models: the newest counts where they share one
            frame = pl.concat([part.select(MOE_COLUMNS) for _, part in parts]).unique(
                [*MOE_KEYS, "distribution"], keep="first", maintain_order=True
            )
            if frame.height >= FEWEST_POINTS:
                found.add(op)
                yield _moe(frame, system, engine, op, f"moe/{engine}/{parts[0][0]} {dtype}")
                break


def _gated(frame: pl.DataFrame) -> pl.DataFrame:
    """Without experts of two matrices (the tables mark some by kernel; two shapes are known by their model)."""
    plain = (pl.col("topk") == 22) | ((pl.col("hidden_size") == 2688) & (pl.col("inter_size") == 1856))
    frame = frame.filter(~pl.col("kernel_source").str.contains("nongated|situ") & ~plain)
    if (frame["kernel_source"] == "moe_torch_flow_min_latency").any():
        # The engine's low-latency kernels run wherever the table has them; the others' shapes are its fallback
        frame = frame.filter(pl.col("kernel_source") == "moe_torch_flow_min_latency")
    else:
        frame = _most_used_kernel(frame)
    return frame.group_by([*MOE_KEYS, "distribution"]).agg(pl.col("us").min())


def _most_used_kernel(frame: pl.DataFrame) -> pl.DataFrame:
    """The models that run an engine's most used kernel: where models run different ones, one curve fits neither."""
    if frame.is_empty():
        return frame
    models = frame.group_by("kernel_source").agg(models=pl.struct(MODEL_KEYS).n_unique(), rows=pl.len())
    kernel = models.sort("models", "rows", "kernel_source")["kernel_source"][-1]
    return frame.filter((pl.col("kernel_source") == kernel).any().over(MODEL_KEYS))


def _moe(frame: pl.DataFrame, system: str, engine: str, op: str, source: str) -> Samples:
    balanced = pl.col("distribution") == "balanced"
    skewed = (pl.col("distribution") == "power_law_1.01") & (pl.col("moe_ep_size") == 1)
    keys = [*MOE_KEYS, "distribution"]
    served = (pl.col("num_tokens") <= MOST_TOKENS) & (pl.col("moe_ep_size") <= WIDEST_EP)
    frame = frame.filter(served & (balanced | skewed)).sort(keys)
    tokens, hidden, inter, topk, experts, tp, ep = (column(frame, key) for key in MOE_KEYS)
    even = (frame["distribution"] == "balanced").to_numpy()
    pairs = tokens * topk
    touched = (
        np.where(even, np.minimum(experts, pairs), touched_by_power_law(tokens, topk, experts, 1.01)) / ep
    )
    shapes = np.column_stack([pairs, pairs / ep, touched, hidden, inter / tp, np.full(frame.height, 3.0)])
    usable = (touched >= 0.9) & (inter % tp == 0) & (inter / tp >= 64)
    groups = group_labels([hidden, inter, topk, experts])
    return Samples(
        SYSTEMS[system], engine, op, shapes[usable], column(frame, "us")[usable], groups[usable], source
    )


def touched_by_power_law(tokens: Floats, topk: Floats, experts: Floats, alpha: float) -> Floats:
    """Experts with at least half a token when loads follow a truncated power law.

    The tables draw loads x with density x^-alpha on [1, 0.8 tokens], scale them to tokens * topk and round.
    """
    top = np.maximum(0.8 * tokens, 1.0001)
    q = 1.0 - alpha
    mean = q / (q + 1.0) * (top ** (q + 1.0) - 1.0) / (top**q - 1.0)
    least = np.clip(0.5 * experts * mean / (tokens * topk), 1.0, top)
    share = (least**q - top**q) / (1.0 - top**q)
    return np.minimum(share * experts, tokens * topk)


def elementwise_samples(root: Path, system: str, engine: str) -> Iterator[Samples]:
    """The static fp8 cast (bf16 in, one byte out): what a fused element-wise kernel streams."""
    if engine != "vllm":
        return
    for version, table in newest(root, system, "quantize", engine, "scale_matrix"):
        frame = table.group_by("m", "k").agg(pl.col("us").min()).sort("m", "k")
        n_bytes = 3.0 * column(frame, "m") * column(frame, "k")
        yield Samples(
            SYSTEMS[system],
            engine,
            "elementwise",
            n_bytes.reshape(-1, 1),
            column(frame, "us"),
            group_labels([column(frame, "k")]),
            f"quantize/{engine}/{version}",
        )
        return


READERS = (
    gemm_samples,
    attention_samples,
    mla_samples,
    linear_samples,
    moe_samples,
    elementwise_samples,
)


def read_silicon(root: Path, hardware: tuple[str, ...] = ()) -> Iterator[Samples]:
    """Samples of every accelerator (or those of `hardware`), engine and operator below `root`."""
    for system, name in SYSTEMS.items():
        if (root / system).is_dir() and (not hardware or name in hardware):
            for engine in ENGINES:
                for reader in READERS:
                    for samples in reader(root, system, engine):
                        yield replace(samples, source=f"aiconfigurator-core {samples.source}")
