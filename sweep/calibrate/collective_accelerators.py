"""Fits of the collectives of every accelerator.

Per accelerator, in this order, each step keeping what the ones before it found:

1. the library alone: the ring's three protocols and reduction in the switch, on its all-reduce table; all-gather and
   reduce-scatter as an overhead and a bandwidth ratio on top of the ring; all-to-all as two lines;
2. expert dispatch and combine;
3. every engine: its one-shot and two-shot kernels, the size limits up to which it uses them, and the library as the
   engine runs it (inside CUDA graphs).

Accelerators with a handful of published points move a relative's rows to them; those with none name the relative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from kernels import coefficients as k
from kernels import collectives as kc
from kernels.fabric import TOPOLOGY_PAIRWISE, TOPOLOGY_PCIE
from sweep.calibrate import collective_fit as fit
from sweep.calibrate.collective_fit import NO_KERNEL, Array, Samples
from sweep.calibrate.collective_tables import PUBLISHED, QUANTIZED, published_busbw
from sweep.catalog.fitted_collectives import LIBRARY, ROWS
from sweep.catalog.hardware import hardware
from sweep.records import default_records, set_values

REFERENCE_VERSION = {"nccl": "2.29.2", "vllm": "0.19.0", "sglang": "0.5.10", "trtllm": "1.3.0rc10"}
"""Version that speaks for an implementation where a table of it exists; otherwise the newest table."""
NVLS_MIN_RANKS = {"hopper": 5.0, "blackwell": 6.0}
"""Fewest GPUs for which NCCL reduces in the switch (H200: ring at 4, NVLS at 5; B200: from 6; published NCCL logs)."""
ENGINES = ("vllm", "sglang", "trtllm", "atom")
MEASURED = {
    "a100_sxm_80": None,
    "h100_sxm": None,
    "h200_sxm": None,
    "b200_sxm": None,
    "b300_sxm": None,
    "gb200": "b200_sxm",
    "gb300": "b200_sxm",
    "l40s": None,
    "rtx_pro_6000": None,
}
"""Accelerators with whole tables; the relative whose reduction in the switch they take where tables stop at 4 GPUs."""
FEW_POINTS = {
    "a100_sxm_80_pairwise_nvlink": "a100_sxm_80",
    "h100_sxm_pairwise_nvlink": "h100_sxm",
    "h100_pcie": "h100_sxm_pairwise_nvlink",
    "gb10": "rtx_pro_6000",
    "mi300x": "h100_sxm",
    "mi355x": "mi300x",
}
"""Accelerators with a handful of points, and the relative whose rows are moved to them, in order."""
GATHER_WEIGHT = 0.3
"""Weight of all-gather and reduce-scatter in the fit of the ring: all-reduce is what serving waits for."""
SAME_SWITCH = {"h100_sxm": "h200_sxm", "b300_sxm": "b200_sxm"}
"""Accelerators on the same links and switch: published bus bandwidths of one stand for the other."""
PUBLISHED_WEIGHT = 10.0
"""Weight of a published bus bandwidth, which stands for many large messages."""
FEW_POINTS_ANCHOR = 0.1
"""Weight of the relative's rows there, in units of the residual."""
INSTINCT_LIMIT_MIB = 64.0
"""Largest message of AITER's custom kernel, which engines on Instinct call (vllm#57547)."""
QUANTIZED_LEAST_MIB = (1.0, 2.0, 8.0)
"""Smallest message that AITER's QuickReduce packs into 4 bits, for 2, 4 and 8 ranks (its table of kernel tests; bf16 goes as fp16)."""
QUANTIZED_BY_DEFAULT = ("mi355x",)
"""Accelerators on which AMD's public launch scripts of vLLM, SGLang and ATOM turn QuickReduce INT4 on
(recipes of ROCm/ATOM, May to September 2026); InferenceX took it off MI325X again (InferenceX#37)."""
NIC_EFFICIENCY = 0.92
"""Share of the NIC's rate that large transfers reach: 96 of 100 GB/s over four HDR NICs, 85 % over AINIC 400G."""
NIC_OVERHEAD_US = 10.0
"""Launch of a network collective: 31.7 us at 16 KiB over two hops of 10 us (GB10)."""


@dataclass
class Fitted:
    """Coefficients of one accelerator: the library, experts and engines, with the errors of each fit."""

    library: Array
    experts: Array | None = None
    engines: dict[str, Array] = field(default_factory=dict)
    errors: dict[str, Array] = field(default_factory=dict)
    held_out: dict[str, Array] = field(default_factory=dict)


def record(name: str) -> Any:
    """Input record of an accelerator at its datasheet figures."""
    p = default_records(1)[0]
    set_values(p, hardware(name).fields)
    return p


def reference(table: pl.DataFrame) -> pl.DataFrame:
    """Per implementation and group size the reference version's rows, or the newest version's."""
    parts = []
    measured = table.filter(pl.col("version") != PUBLISHED)
    for (implementation, _), rows in measured.group_by("implementation", "n_gpus", maintain_order=True):
        versions = sorted(rows["version"].unique(), key=_age)
        wanted = REFERENCE_VERSION.get(str(implementation), "")
        parts.append(rows.filter(pl.col("version") == (wanted if wanted in versions else versions[-1])))
    return pl.concat(parts) if parts else table


def _age(version: str) -> tuple[int, ...]:
    """Numbers of a version in order: 0.5.14 is newer than 0.5.9."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def within_physics(table: pl.DataFrame, p: Any) -> pl.DataFrame:
    """Drops points that no link could reach: less time than the fewest bytes over the datasheet bandwidth."""
    n = pl.col("n_gpus")
    passes = (
        pl.when(pl.col("primitive") == "all_reduce").then(1.0 if p["multicast"] > 0 else 2.0).otherwise(1.0)
    )
    least_us = passes * pl.col("bytes") * (n - 1) / n / (float(p["link_gb_s"]) * 1e3)
    return table.filter(pl.col("time_us") >= least_us)


def ideal(name: str) -> Array:
    """Roofline coefficients with what is known of networks and of reduction in the switch."""
    c = k.roofline_coefficients()
    c[k.OP_NVLS, kc.MIN_RANKS] = NVLS_MIN_RANKS.get(str(hardware(name).fields["family"]), 0.0)
    c[k.OP_NIC, k.MEMORY_EFFICIENCY] = NIC_EFFICIENCY
    c[k.OP_NIC, k.OVERHEAD_US] = NIC_OVERHEAD_US
    return c


def fit_tables(name: str, table: pl.DataFrame, relative: Fitted | None, cross_validate: bool) -> Fitted:
    """Everything about an accelerator with whole tables."""
    p = record(name)
    start = ideal(name)
    if relative is not None:
        start[k.OP_NVLS] = relative.library[k.OP_NVLS]
    rows = {
        str(key[0]): reference(part)
        for key, part in within_physics(table, p).group_by("primitive", maintain_order=True)
    }
    all_reduce = rows["all_reduce"]
    nccl = all_reduce.filter(pl.col("implementation") == LIBRARY)
    points = published_samples(table.filter(pl.col("version") == PUBLISHED))
    gathers = [
        (k.OP_ALL_GATHER, Samples.of(kc.ALL_GATHER, rows["all_gather"], weight=GATHER_WEIGHT)),
        (k.OP_REDUCE_SCATTER, Samples.of(kc.REDUCE_SCATTER, rows["reduce_scatter"], weight=GATHER_WEIGHT)),
    ]

    def library_of(part: pl.DataFrame) -> Array:
        return fit.fit_library(part, p, start, gathers, points)

    result = Fitted(_with_all_to_all(library_of(nccl), rows, p))
    _note(result, LIBRARY, nccl, library_of, p, cross_validate)
    result.experts = _fit_experts(rows, p, result.library)
    kernel_ranks = 2.0 if p["topology"] == TOPOLOGY_PCIE else np.inf
    for engine in ENGINES:
        own = all_reduce.filter(pl.col("implementation") == engine)
        if not own.is_empty():

            def engine_of(part: pl.DataFrame) -> Array:
                return fit.fit_engine(part, p, result.library, kernel_ranks)

            result.engines[engine] = engine_of(own)
            _note(result, engine, own, engine_of, p, cross_validate)
    _lend_kernels(result)
    return result


def _lend_kernels(result: Fitted) -> None:
    """Forced one-shot and two-shot over the library alone are priced as the first engine runs them."""
    first = next(iter(result.engines.values()), None)
    if first is not None:
        rows = [k.OP_ONE_SHOT, k.OP_TWO_SHOT]
        result.library[rows] = first[rows]
    fit.set_limits(result.library, [NO_KERNEL] * 3)


def published_samples(table: pl.DataFrame) -> list[Samples]:
    """Published bus bandwidths of large messages; those without reduction in the switch as forced rings."""
    kinds = {
        "all_reduce": (kc.ALL_REDUCE, kc.ALGO_AUTO),
        "all_reduce_ring": (kc.ALL_REDUCE, kc.ALGO_RING),
        "all_gather": (kc.ALL_GATHER, 0),
        "reduce_scatter": (kc.REDUCE_SCATTER, 0),
    }
    samples = []
    for (name,), part in table.group_by(["primitive"], maintain_order=True):
        primitive, algorithm = kinds[str(name)]
        samples.append(Samples.of(primitive, part, algorithm, PUBLISHED_WEIGHT))
    return samples


def _note(
    result: Fitted,
    name: str,
    table: pl.DataFrame,
    fitter: Callable[[pl.DataFrame], Array],
    p: Any,
    cross_validate: bool,
) -> None:
    def samples_of(part: pl.DataFrame) -> Samples:
        return Samples.of(kc.ALL_REDUCE, part)

    c = result.library if name == LIBRARY else result.engines[name]
    result.errors[name] = samples_of(table).errors(c, p)
    if cross_validate:
        result.held_out[name] = fit.held_out(fitter, samples_of, table, p)


def _with_all_to_all(c: Array, rows: dict[str, pl.DataFrame], p: Any) -> Array:
    """All-to-all, and expert dispatch and combine by it, on top of the ring's rows."""
    direct = Samples.of(kc.ALL_TO_ALL, rows["all_to_all"], kc.A2A_DIRECT)
    c = fit.fit_exchange(k.OP_ALL_TO_ALL_LL, k.OP_ALL_TO_ALL, direct, p, c)
    return _experts_as_library(c)


def _experts_as_library(c: Array) -> Array:
    """Without a dispatch kernel of its own an engine moves tokens by the library's all-to-all."""
    c[[k.OP_DISPATCH_LL, k.OP_COMBINE_LL]] = c[k.OP_ALL_TO_ALL_LL]
    c[[k.OP_DISPATCH, k.OP_COMBINE]] = c[k.OP_ALL_TO_ALL]
    return c


def _fit_experts(rows: dict[str, pl.DataFrame], p: Any, c: Array) -> Array | None:
    """Dispatch and combine kernels, their low-latency and their bulk form; None where neither was measured."""
    found = False
    c = c.copy()
    for primitive, phase in ((kc.DISPATCH, "dispatch"), (kc.COMBINE, "combine")):
        parts = [rows[key] for key in (f"{phase}_ll", phase) if key in rows]
        if parts:
            low, bulk = ROWS[f"{phase}_ll"], ROWS[phase]
            samples = Samples.of(primitive, fastest(parts), kc.A2A_SINGLE_SHOT)
            c = fit.fit_exchange(low, bulk, samples, p, c)
            found = True
    return c if found else None


def fastest(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The faster kernel per group size and message size (1/8 octave): what a tuned engine picks."""
    return (
        pl.concat(parts)
        .with_columns((pl.col("bytes").log(2.0) * 8).round().alias("octave"))
        .sort("n_gpus", "octave", "time_us", "bytes")
        .group_by("n_gpus", "octave", maintain_order=True)
        .first()
    )


def fit_few_points(name: str, table: pl.DataFrame, relative: Fitted) -> Fitted:
    """A relative's rows moved to a handful of published points."""
    p = record(name)
    rows = {str(key[0]): part for key, part in table.group_by("primitive", maintain_order=True)}
    by_implementation = {
        str(key[0]): part
        for key, part in rows.get("all_reduce", table.clear()).group_by("implementation", maintain_order=True)
    }
    c = relative.library.copy()
    c[k.OP_NVLS, kc.MIN_RANKS] = ideal(name)[k.OP_NVLS, kc.MIN_RANKS]
    if LIBRARY in by_implementation:
        c = _moved_library(by_implementation[LIBRARY], p, c)
    experts = _fit_experts(rows, p, c)
    result = Fitted(c, relative.experts if experts is None else experts)
    for engine in ENGINES:
        if engine in by_implementation:
            result.engines[engine] = fit.fit_kernels(by_implementation[engine], p, c, INSTINCT_LIMIT_MIB)
        elif engine in relative.engines and p["topology"] == TOPOLOGY_PAIRWISE:
            result.engines[engine] = _carried(relative.engines[engine], c)
    _lend_quantized(name, by_implementation.pop(QUANTIZED, None), result, relative, p)
    for implementation, part in by_implementation.items():
        fitted = result.engines.get(implementation, result.library)
        result.errors[implementation] = Samples.of(kc.ALL_REDUCE, part).errors(fitted, p)
    _lend_kernels(result)
    return result


def _lend_quantized(name: str, table: pl.DataFrame | None, result: Fitted, relative: Fitted, p: Any) -> None:
    """The 4-bit kernel of every engine: fitted to samples, or a relative's, as much of the link beside the two-shot's."""
    for engine, c in result.engines.items():
        if table is not None:
            fitted, errors = fit.fit_quantized(table, p, c, QUANTIZED_LEAST_MIB)
            result.engines[engine], result.errors[QUANTIZED] = fitted, errors
        elif relative.engines:
            other = next(iter(relative.engines.values()))
            share = c[k.OP_TWO_SHOT, k.MEMORY_EFFICIENCY] / other[k.OP_TWO_SHOT, k.MEMORY_EFFICIENCY]
            c[k.OP_QUANTIZED] = other[k.OP_QUANTIZED]
            c[k.OP_QUANTIZED, k.MEMORY_EFFICIENCY] = min(
                1.0, share * other[k.OP_QUANTIZED, k.MEMORY_EFFICIENCY]
            )
        result.engines[engine][k.OP_QUANTIZED, kc.BY_DEFAULT] = float(name in QUANTIZED_BY_DEFAULT)


def _moved_library(table: pl.DataFrame, p: Any, c: Array) -> Array:
    """The ring's rows, or the NIC's where every GPU is a domain of its own, moved to a few all-reduces."""
    if p["domain_gpus"] > 1:
        rings = (k.OP_RING_LL, k.OP_RING_LL128, k.OP_RING_SIMPLE)
        return fit.refit(rings, table, p, c, FEW_POINTS_ANCHOR)
    nic = fit.Line(k.OP_NIC, NIC_OVERHEAD_US, (NIC_EFFICIENCY,))
    return fit.fit_lines([nic], Samples.of(kc.ALL_REDUCE, table), p, c, FEW_POINTS_ANCHOR)


def _carried(engine: Array, library: Array) -> Array:
    """A relative's own kernels over this accelerator's library; bridged GPUs run them in pairs only."""
    c = library.copy()
    c[[k.OP_ONE_SHOT, k.OP_TWO_SHOT]] = engine[[k.OP_ONE_SHOT, k.OP_TWO_SHOT]]
    fit.set_limits(c, [fit.limits(c)[0], NO_KERNEL, NO_KERNEL])
    return c


def fit_all(tables: pl.DataFrame, cross_validate: bool = False) -> dict[str, Fitted]:
    """Every accelerator that `tables` (collective_tables.COLUMNS) speak of, relatives first."""
    tables = pl.concat([tables, published_busbw()])
    done: dict[str, Fitted] = {}
    for name, relative in MEASURED.items():
        own = pl.col("hardware") == name
        published = own | (pl.col("hardware") == SAME_SWITCH.get(name, name))
        table = tables.filter(
            pl.when(pl.col("version") == PUBLISHED).then(published).otherwise(own),
            ~pl.col("version").is_in(["csv", "profile"]),
        )
        if set(table["version"]) - {PUBLISHED}:
            done[name] = fit_tables(name, table, done.get(relative or ""), cross_validate)
    for name, relative in FEW_POINTS.items():
        table = tables.filter(pl.col("hardware") == name)
        if not table.is_empty() and relative in done:
            done[name] = fit_few_points(name, table, done[relative])
    return done
