"""The regime of a deployment: what must be equal before one measurement says anything about another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.dtypes import NAMES as DTYPES
from sweep.fields.engine import ATTENTION_BACKENDS, ENGINES, GRAPH_MODES

EAGER = GRAPH_MODES.index("none")


@dataclass(frozen=True)
class Regime:
    """Words by axis; None where it is not known. Equal as far as both know is the same regime."""

    model: str
    hardware: str
    engine: str
    pools: str
    linear: str | None
    experts: str | None
    kv_cache: str | None
    attention_backend: str | None
    graphs: str
    speculation: str
    kernels: str

    def differences(self, other: Regime) -> list[str]:
        """Axes on which both are known and differ, each as "axis: ours against theirs"."""
        mine, theirs = vars(self), vars(other)
        return [
            f"{axis}: {mine[axis]} against {theirs[axis]}"
            for axis in mine
            if mine[axis] is not None and theirs[axis] is not None and mine[axis] != theirs[axis]
        ]


def regime_of(
    model: str, hardware: str, p: Any, d: Any, *, formats_unknown: bool = False, kernels: str = ""
) -> Regime:
    """Regime of an input record `p` and its derived record `d` (kernels.layout.DERIVED), formats as resolved."""
    weights = not formats_unknown
    backend = p["attention_backend"]
    draft = p["speculative_num_tokens"]
    return Regime(
        model=model,
        hardware=hardware,
        engine=ENGINES[int(p["engine"])],
        pools="split" if p["disaggregate"] > 0 else "one",
        linear=DTYPES[int(d["mlp_dtype"])] if weights else None,
        experts=DTYPES[int(d["expert_dtype"])] if weights and p["n_experts"] > 0 else None,
        kv_cache=DTYPES[int(d["kv_dtype"])],
        attention_backend=None if np.isnan(backend) else ATTENTION_BACKENDS[int(backend)],
        graphs="eager" if d["graph_mode"] == EAGER else "graphs",
        speculation="off" if math.isnan(draft) or draft <= 0 else f"{draft:.0f} draft tokens",
        kernels=kernels,
    )
