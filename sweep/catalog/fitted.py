"""Fitted operator coefficients: conf/hardware/fitted/<hardware>.yaml, one file per measured accelerator.

A file holds, per engine and operator, the columns of `kernels.coefficients` by name, the errors of the fit
(absolute log errors, in sample and on held-out shapes) and its source, as `servesweep calibrate operators` wrote
them. What was never measured is taken from the nearest relative, in this order: another engine on the same
accelerator; the accelerators that it inherits from; a related operator (another number format or cache width, an
unmeasured attention), which keeps the ratio to the roofline. Every row says where it came from and how much wider
its error is for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels import coefficients
from sweep.catalog.fitted_collectives import fitted_collectives
from sweep.catalog.hardware import hardware, maker, relatives
from sweep.catalog.yaml_file import read_yaml
from sweep.fields.engine import ENGINES
from sweep.paths import conf_dir

Floats = npt.NDArray[np.float64]

OPS: Mapping[str, int] = MappingProxyType(
    {
        name.removeprefix("OP_").lower(): int(row)
        for name, row in vars(coefficients).items()
        if name.startswith("OP_")
    }
)
"""Rows of the coefficients by the name that files use."""

_COMMON = ("compute_efficiency", "memory_efficiency", "overhead_us", "exposed")
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gemm": (*_COMMON, "wave_tiles", "narrow_columns", "prologue_k", "cast_passes"),
        "prefill": (*_COMMON, "tile_tokens", "wave_tiles", "softmax_dim", "kv_passes"),
        "decode": (*_COMMON, "pad_rows", "item_us", "qo_passes", "us_per_ktoken"),
        "linear": (*_COMMON, "us_per_ktoken", "tile_tokens"),
        "moe": (
            *_COMMON,
            *("tile_rows", "narrow_columns", "activation_passes", "sort_passes", "shallow_ffn", "routed_us"),
        ),
        "elementwise": _COMMON[:3],
    }
)
"""Names of the columns of each operator class, in their order (`kernels.coefficients` says what they mean)."""

OPERATORS = tuple(name for name in OPS if name.split("_", 1)[0] in COLUMNS)

RELATED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gemm_bf16": (),
        "gemm_fp8": ("gemm_fp8_block", "gemm_bf16"),
        "gemm_fp8_block": ("gemm_fp8", "gemm_bf16"),
        "gemm_int8": ("gemm_fp8", "gemm_bf16"),
        "gemm_nvfp4": ("gemm_mxfp4", "gemm_fp8", "gemm_bf16"),
        "gemm_mxfp4": ("gemm_nvfp4", "gemm_fp8", "gemm_bf16"),
        "gemm_int4_wo": ("gemm_bf16",),
        "prefill_gqa": (),
        "prefill_gqa_fp8_kv": ("prefill_gqa",),
        "prefill_mla": ("prefill_gqa",),
        "prefill_mla_fp8_kv": ("prefill_mla", "prefill_gqa"),
        "decode_gqa": (),
        "decode_gqa_fp8_kv": ("decode_gqa",),
        "decode_mla": ("decode_gqa",),
        "decode_mla_fp8_kv": ("decode_mla", "decode_gqa"),
        "linear_prefill": (),
        "linear_decode": (),
        "moe_bf16": (),
        "moe_fp8": ("moe_fp8_block", "moe_bf16"),
        "moe_fp8_block": ("moe_fp8", "moe_bf16"),
        "moe_nvfp4": ("moe_mxfp4", "moe_fp8_block", "moe_fp8", "moe_bf16"),
        "moe_mxfp4": ("moe_nvfp4", "moe_int4_wo", "moe_fp8_block", "moe_fp8", "moe_bf16"),
        "moe_int4_wo": ("moe_mxfp4", "moe_bf16"),
        "elementwise": (),
    }
)
"""Operators whose ratio to the roofline stands in for one without measurements, nearest first."""

SAME_KERNELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "vllm": ("sglang", "trtllm"),
        "sglang": ("vllm", "trtllm"),
        "trtllm": ("sglang", "vllm"),
        "atom": ("vllm", "sglang", "trtllm"),
    }
)
"""Engines to ask where one has no table, nearest first: they share kernel libraries."""

ANOTHER_MAKER = ("trtllm", "vllm", "sglang")
"""Engines to ask on another maker's accelerator, best tuned first: no kernel library carries over."""

ANOTHER_MAKERS_STREAM = 0.72
"""Most of the memory bandwidth that another maker's decode attention is taken to reach. gpt-oss-120b on one MI355X at batch 64
takes 40.44 ms more at 65,536 tokens than at 16,384 (inferasim, section 17): 5.73 of 8 TB/s. Served combinations left out are as
well met with it as with 0.76."""

FULLEST: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ampere": ("a100_sxm_80",),
        "ada": ("l40s",),
        "hopper": ("h100_sxm",),
        "blackwell": ("b200_sxm",),
        "blackwell_rtx": ("rtx_pro_6000",),
        "cdna3": ("mi300x", "mi355x"),
        "cdna4": ("mi355x", "mi300x"),
    }
)
"""Accelerators of a family (and of its neighbour with the same kernel libraries) that have tables, fullest first."""
LAST_RESORT = "h100_sxm"
"""The accelerator with the fullest tables: what no relative measured is taken from it by ratio to the roofline."""

OTHER_ENGINE, OTHER_HARDWARE, OTHER_OPERATOR = 1.5, 1.5, 2.0
"""Factors on the error of a row per step of inheritance; guesses that the engine layer's intervals absorb."""


@dataclass(frozen=True)
class Source:
    """Where one row of coefficients was measured and how far off it may be.

    `error` is the held-out median absolute log error, times a factor for every step of inheritance.
    """

    hardware: str
    engine: str
    op: str
    table: str
    error: float
    inherited: bool


@dataclass(frozen=True)
class Fitted:
    """Coefficients (hardware, engine, N_OPS, N_COEF) and the source of every operator row."""

    hardware: tuple[str, ...]
    coefficients: Floats
    sources: Mapping[tuple[str, str, str], Source]

    def inherited(self) -> tuple[tuple[str, str, str], ...]:
        """(hardware, engine, operator) of the rows that were not measured themselves."""
        return tuple(key for key, source in self.sources.items() if source.inherited)


def operator_class(op: str) -> str:
    """Class of an operator name: what comes before its first underscore."""
    return op.split("_", 1)[0]


@cache
def fitted_file(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Measured operators of an accelerator by engine; empty where it has none."""
    file = conf_dir() / "hardware" / "fitted" / f"{name}.yaml"
    if not file.is_file():
        return MappingProxyType({})
    return MappingProxyType(read_yaml(file)["operators"])


@cache
def lineage(name: str) -> tuple[str, ...]:
    """Accelerators to ask for what `name` has not measured, itself first, nearest next."""
    family = FULLEST.get(str(hardware(name).fields["family"]), ())
    return tuple(dict.fromkeys((*relatives(name), *family, LAST_RESORT)))


def _candidates(name: str, engine: str, op: str) -> Iterator[tuple[str, str, str, float]]:
    """(hardware, engine, operator, factor on the error) of where a row may come from, nearest first."""
    for other_op in (op, *RELATED[op]):
        for other_name in lineage(name):
            for other_engine in _engines_to_ask(name, other_name, engine):
                factor = OTHER_OPERATOR if other_op != op else 1.0
                factor *= OTHER_HARDWARE if other_name != name else 1.0
                factor *= OTHER_ENGINE if other_engine != engine else 1.0
                yield other_name, other_engine, other_op, factor


def _same_maker(*names: str) -> bool:
    return len({maker(name) for name in names}) == 1


def _engines_to_ask(name: str, other_name: str, engine: str) -> tuple[str, ...]:
    return (engine, *SAME_KERNELS[engine]) if _same_maker(name, other_name) else ANOTHER_MAKER


@cache
def operator_row(name: str, engine: str, op: str) -> tuple[tuple[float, ...], Source]:
    """Coefficients of one operator (in the order of its class's columns) and their source."""
    for other_name, other_engine, other_op, factor in _candidates(name, engine, op):
        entry = fitted_file(other_name).get(other_engine, {}).get(other_op)
        if entry is None:
            continue
        values = entry["coefficients"]
        row = [float(values[column]) for column in COLUMNS[operator_class(op)]]
        if other_name != name:
            row = _rescaled(row, op, other_name, name)
        if operator_class(op) == "decode" and not _same_maker(name, other_name):
            streamed = coefficients.MEMORY_EFFICIENCY
            row[streamed] = min(row[streamed], ANOTHER_MAKERS_STREAM)
        error = float(entry["error"]["held_out_median"]) * factor
        measured = (other_name, other_engine, other_op) == (name, engine, op)
        source = Source(other_name, other_engine, other_op, str(entry["source"]), error, not measured)
        return tuple(row), source
    raise LookupError(f"no fitted coefficients for {op}: conf/hardware/fitted is incomplete")


def _rescaled(row: list[float], op: str, source: str, target: str) -> list[float]:
    """Columns that count work of the whole machine, carried to a machine of another width."""
    from_sms, to_sms = (hardware(name).fields["sm_count"] for name in (source, target))
    if not from_sms or not to_sms:
        return row
    columns = COLUMNS[operator_class(op)]
    for column, power in (("wave_tiles", 1.0), ("item_us", -1.0)):
        if column in columns:
            row[columns.index(column)] *= (to_sms / from_sms) ** power
    return row


def load_fitted(names: Sequence[str]) -> Fitted:
    """Coefficients of accelerators (catalogue names) for every engine of `sweep.fields.engine.ENGINES`.

    Operators and collectives; the engine layer's rows stay neutral. Raises UserError for a name that is not in the catalogue.
    """
    table = np.empty((len(names), len(ENGINES), coefficients.N_OPS, coefficients.N_COEF))
    table[:] = coefficients.roofline_coefficients()
    sources: dict[tuple[str, str, str], Source] = {}
    for i, name in enumerate(names):
        for j, engine in enumerate(ENGINES):
            for op in OPERATORS:
                row, sources[name, engine, op] = operator_row(name, engine, op)
                table[i, j, OPS[op], : len(row)] = row
            fitted_collectives(name, engine).fill(table[i, j])
    return Fitted(tuple(names), table, MappingProxyType(sources))
