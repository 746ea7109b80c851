"""What an estimate stands on: where the operator times of this deployment were measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.attention import NARROW_KV_BYTES
from kernels.gemm import OP_BY_DTYPE as GEMM_OPS
from kernels.layout import DERIVED
from kernels.moe import OP_BY_DTYPE as MOE_OPS
from kernels.resolve import resolve
from sweep.catalog.fitted import OPS, Source, operator_row

NAMES = {row: name for name, row in OPS.items()}


def operators_of(record: npt.NDArray[Any]) -> tuple[str, ...]:
    """Names of the fitted operators that a deployment's layers run; `record` has shape (1,)."""
    p, d = record[0], np.zeros(1, DERIVED)
    resolve(p, d[0])
    formats = d[0]
    rows = [GEMM_OPS[int(formats["attn_dtype"])], GEMM_OPS[int(formats["mlp_dtype"])]]
    if p["n_moe_layers"] > 0:
        rows.append(MOE_OPS[int(formats["expert_dtype"])])
    kind = "mla" if p["kv_lora_rank"] > 0 else "gqa"
    suffix = "_fp8_kv" if formats["kv_width"] < NARROW_KV_BYTES else ""
    attention = [f"{phase}_{kind}{suffix}" for phase in ("prefill", "decode")]
    return tuple(dict.fromkeys([*(NAMES[int(row)] for row in rows), *attention, "elementwise"]))


def sources_of(record: npt.NDArray[Any], hardware: str, engine: str) -> dict[str, Source]:
    """Where each of a deployment's operators was measured."""
    return {op: operator_row(hardware, engine, op)[1] for op in operators_of(record)}


def in_words(sources: dict[str, Source]) -> str:
    """One line: the tables, and what was carried over from relatives."""
    tables = dict.fromkeys(source.table for source in sources.values())
    borrowed = [
        f"{op} from {source.op} on {source.hardware} ({source.engine})"
        for op, source in sources.items()
        if source.inherited
    ]
    line = f"operator times: {'; '.join(tables)}"
    return line + (f"; carried over: {', '.join(borrowed)}" if borrowed else "")
