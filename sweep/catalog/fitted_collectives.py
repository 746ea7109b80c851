"""Fitted coefficients of collectives: conf/hardware/fitted/<hardware>.collectives.yaml.

A file holds rows of `kernels.coefficients` by name and their columns by name, as `servesweep calibrate collectives`
wrote them: of the communication library, of expert dispatch and combine, and per engine what differs. An accelerator or an engine without
measurements names the relative it takes them from: coefficients are shares of the link's bandwidth and
microseconds, so they carry over to another bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels import coefficients as k
from kernels import collectives as columns
from sweep.catalog.yaml_file import read_yaml
from sweep.paths import conf_dir

LIBRARY = "nccl"
"""Engine name of the communication library alone (NCCL, RCCL)."""
ROWS: Mapping[str, int] = MappingProxyType(
    {
        "one_shot": k.OP_ONE_SHOT,
        "two_shot": k.OP_TWO_SHOT,
        "quantized": k.OP_QUANTIZED,
        "ring_ll": k.OP_RING_LL,
        "ring_ll128": k.OP_RING_LL128,
        "ring_simple": k.OP_RING_SIMPLE,
        "nvls": k.OP_NVLS,
        "all_gather": k.OP_ALL_GATHER,
        "reduce_scatter": k.OP_REDUCE_SCATTER,
        "all_to_all_ll": k.OP_ALL_TO_ALL_LL,
        "all_to_all": k.OP_ALL_TO_ALL,
        "dispatch_ll": k.OP_DISPATCH_LL,
        "dispatch": k.OP_DISPATCH,
        "combine_ll": k.OP_COMBINE_LL,
        "combine": k.OP_COMBINE,
        "nic": k.OP_NIC,
    }
)
COLUMNS: Mapping[str, int] = MappingProxyType(
    {
        "efficiency": k.MEMORY_EFFICIENCY,
        "overhead_us": k.OVERHEAD_US,
        "step_us": columns.STEP_US,
        "pair_slowdown": columns.PAIR_SLOWDOWN,
        "quad_slowdown": columns.QUAD_SLOWDOWN,
        "limit_pair_mib": columns.LIMIT_PAIR_MIB,
        "limit_quad_mib": columns.LIMIT_QUAD_MIB,
        "limit_oct_mib": columns.LIMIT_OCT_MIB,
        "min_ranks": columns.MIN_RANKS,
        "least_pair_mib": columns.LEAST_PAIR_MIB,
        "least_quad_mib": columns.LEAST_QUAD_MIB,
        "least_oct_mib": columns.LEAST_OCT_MIB,
        "by_default": columns.BY_DEFAULT,
    }
)


@dataclass(frozen=True)
class FittedCollectives:
    """Rows of one (accelerator, engine) and where they come from: "fitted" or "inherited from ..."."""

    rows: Mapping[str, Mapping[str, float]]
    origin: str

    def fill(self, c: NDArray[np.float64]) -> None:
        """Write the rows into coefficients `c` of shape (N_OPS, N_COEF)."""
        for row, values in self.rows.items():
            for column, value in values.items():
                c[ROWS[row], COLUMNS[column]] = value


@cache
def _file(hardware: str) -> Mapping[str, Any]:
    file = conf_dir() / "hardware" / "fitted" / f"{hardware}.collectives.yaml"
    if not file.is_file():
        raise LookupError(f"no fitted collectives for {hardware}: conf/hardware/fitted is incomplete")
    return read_yaml(file)


@cache
def fitted_collectives(hardware: str, engine: str) -> FittedCollectives:
    """Coefficients of an accelerator (catalogue name) under an engine, or under `nccl`."""
    name, origin = hardware, "fitted"
    content = _file(name)
    while "inherits" in content:
        name = str(content["inherits"])
        origin = f"inherited from {name}"
        content = _file(name)
    rows = dict(content["library"])
    if engine != LIBRARY:
        rows |= content.get("experts", {})
        if engine not in content["engines"]:
            engine = str(content["other_engines"])
            origin = f"inherited from {name} {engine}"
        rows |= content["engines"].get(engine, {})
    return FittedCollectives(MappingProxyType(rows), origin)
