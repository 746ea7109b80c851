"""The engine layer: host costs and scales that a served token has beyond its operators, and how sure an estimate is.

`conf/hardware/fitted/engines.yaml` holds, as `servesweep calibrate engine` wrote them, the values of every term per
accelerator family and engine, the combinations that were measured, and the spread of held-out residuals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.coefficients import (
    HOST_DECODE_SCALE,
    HOST_LAYER_US,
    HOST_MIXED_SCALE,
    HOST_PROMPT_TOKEN_US,
    HOST_PROMPT_US,
    HOST_REQUEST_US,
    HOST_SEQUENCE_US,
    HOST_STEP_US,
    OP_HOST,
    OP_SCALE,
)
from kernels.layout import PART_ATTENTION, PART_EP_COMM, PART_GEMM, PART_MOE, PART_OTHER, PART_TP_COMM
from sweep.catalog.hardware import hardware
from sweep.catalog.yaml_file import read_yaml
from sweep.fields.engine import ENGINES
from sweep.paths import conf_dir

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Term:
    """One coefficient of the layer: where it acts, its value before any measurement and how far it may move (log).

    A scale is never below 1: a served token is not faster than its operators, nor than the roofline.
    """

    name: str
    op: int
    column: int
    prior: float
    spread: float

    def value(self, log: float) -> float:
        """The coefficient at a log distance from its prior."""
        found = float(self.prior * np.exp(log))
        return max(1.0, found) if self.name.endswith("_scale") else found


TERMS = (
    Term("decode_scale", OP_HOST, HOST_DECODE_SCALE, 1.0, 0.15),
    Term("mixed_scale", OP_HOST, HOST_MIXED_SCALE, 1.0, 0.25),
    Term("step_us", OP_HOST, HOST_STEP_US, 300.0, 1.0),
    Term("sequence_us", OP_HOST, HOST_SEQUENCE_US, 4.0, 1.0),
    Term("layer_us", OP_HOST, HOST_LAYER_US, 3.0, 1.0),
    Term("prompt_us", OP_HOST, HOST_PROMPT_US, 1000.0, 1.0),
    Term("prompt_token_us", OP_HOST, HOST_PROMPT_TOKEN_US, 0.3, 1.0),
    Term("request_us", OP_HOST, HOST_REQUEST_US, 15000.0, 1.0),
    Term("gemm_scale", OP_SCALE, PART_GEMM, 1.0, 0.2),
    Term("attention_scale", OP_SCALE, PART_ATTENTION, 1.0, 0.3),
    Term("moe_scale", OP_SCALE, PART_MOE, 1.0, 0.3),
    Term("tp_comm_scale", OP_SCALE, PART_TP_COMM, 1.0, 0.4),
    Term("ep_comm_scale", OP_SCALE, PART_EP_COMM, 1.0, 0.4),
    Term("other_scale", OP_SCALE, PART_OTHER, 1.0, 0.4),
)

NEAR, RELATED, FAR = "measured near", "interpolated", "extrapolated"
"""How close an estimate stands to measurements: the same model, accelerator and engine; the family and engine; neither."""
FAR_WIDENING = 1.5
"""Factor on the log width of an interval where neither family nor engine was measured together."""


@dataclass(frozen=True)
class Interval:
    """Factors on an estimate for its 10th and 90th percentile, and how close measurements stand."""

    ttft_p10: float
    ttft_p90: float
    tpot_p10: float
    tpot_p90: float
    support: str


@cache
def engines_file() -> Mapping[str, Any]:
    """The layer as it ships; empty where nothing was fitted."""
    file = conf_dir() / "hardware" / "fitted" / "engines.yaml"
    return read_yaml(file) if file.is_file() else {}


def layer_of(family: str, engine: str) -> Mapping[str, float]:
    """Terms of an accelerator family and engine; the engine's own where the pair was not measured, else the common ones."""
    layers: Mapping[str, Mapping[str, float]] = engines_file().get("layers", {})
    return layers.get(f"{family}.{engine}") or layers.get(engine) or layers.get("common") or {}


def write_layer(
    table: Floats, hardware_position: int, engine_position: int, values: Mapping[str, float]
) -> None:
    """Put terms (by name) into the coefficients of one accelerator and engine."""
    for term in TERMS:
        if term.name in values:
            table[hardware_position, engine_position, term.op, term.column] = values[term.name]


def apply_engine_layer(table: Floats, names: Sequence[str]) -> None:
    """Write the layer into coefficients (hardware in the order of `names`, engine, N_OPS, N_COEF), in place."""
    for i, name in enumerate(names):
        family = str(hardware(name).fields["family"])
        for j, engine in enumerate(ENGINES):
            write_layer(table, i, j, layer_of(family, engine))


@cache
def interval(model: str, hardware_name: str, engine: str) -> Interval:
    """The interval of an estimate for a model (catalogue name) on an accelerator under an engine.

    Spreads are those of held-out residuals of the engine: `near` for combinations that were measured, `unseen` else.
    """
    file = engines_file()
    if not file:
        return Interval(0.5, 2.0, 0.5, 2.0, FAR)
    family = str(hardware(hardware_name).fields["family"])
    near = f"{model}|{hardware_name}|{engine}" in file["measured"]
    related = f"{family}.{engine}" in file["layers"]
    by_engine = file["residuals"].get(engine) or file["residuals"]["all"]
    spread = by_engine["near" if near else "unseen"]
    power = 1.0 if near or related else FAR_WIDENING
    bounds = {k: float(spread[k]) ** power for k in ("ttft_p10", "ttft_p90", "tpot_p10", "tpot_p90")}
    return Interval(**bounds, support=NEAR if near else RELATED if related else FAR)
