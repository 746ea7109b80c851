"""The engine layer: what a served token costs beyond its operators, and how sure an estimate is.

`conf/hardware/fitted/engines.yaml` holds, as `servesweep calibrate engine` wrote them, the terms in five levels that
multiply: common values, then factors of an engine, of an accelerator family under an engine, of an architecture, and
of an architecture on that family and engine. What was never measured has factor 1 and so inherits from its relatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.coefficients import (
    HOST_LAYER_US,
    HOST_MIXED_SCALE,
    HOST_PROMPT_TOKEN_US,
    HOST_PROMPT_US,
    HOST_REQUEST_US,
    HOST_ROUTING_VARIANCE,
    HOST_SEQUENCE_US,
    HOST_STEP_US,
    HOST_STREAM_US,
    LEAST_SHARE,
    OP_HOST,
    OP_SCALE,
)
from kernels.layout import PART_EP_COMM, PART_OTHER, PART_TP_COMM
from sweep.catalog.architecture import architecture
from sweep.catalog.hardware import hardware, maker
from sweep.catalog.losses import scale_losses
from sweep.catalog.models import list_models, model
from sweep.catalog.nearby import POOLS, least_shares, write_nearby
from sweep.catalog.yaml_file import read_yaml
from sweep.fields.engine import ENGINES
from sweep.paths import conf_dir

Floats = npt.NDArray[np.float64]
Apply = Callable[[Floats, Floats], None]
"""(coefficients (n, N_OPS, N_COEF) to change in place, value of the term for each (n,))"""

ROUTING_VARIANCE = 2.0
"""Relative variance of the experts' popularity in benchmark traffic: the best of 0, 0.33, 1, 2 and 3 on combinations left
out of the fit (silicon_dev.csv and amd_dev.csv)."""


@dataclass(frozen=True)
class Term:
    """One coefficient of the layer: its value before any measurement, how far it may move (log), its least value."""

    name: str
    prior: float
    spread: float
    apply: Apply
    least: float = 0.0

    def value(self, logs: Floats) -> Floats:
        """The coefficient at log distances from its prior."""
        return np.maximum(self.least, self.prior * np.exp(logs))


def _host(column: int) -> Apply:
    def apply(c: Floats, value: Floats) -> None:
        c[:, OP_HOST, column] = value

    return apply


def _scale(part: int) -> Apply:
    def apply(c: Floats, value: Floats) -> None:
        c[:, OP_SCALE, part] = value

    return apply


def _losses(*operators: str) -> Apply:
    def apply(c: Floats, value: Floats) -> None:
        for operator in operators:
            scale_losses(c, operator, value)

    return apply


_GEMMS = ("bf16", "fp8", "fp8_block", "int8", "nvfp4", "mxfp4", "int4_wo")
_EXPERTS = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo")

TERMS = (
    Term("mixed_scale", 1.0, 0.25, _host(HOST_MIXED_SCALE), least=1.0),
    Term("step_us", 300.0, 1.0, _host(HOST_STEP_US)),
    Term("sequence_us", 4.0, 1.0, _host(HOST_SEQUENCE_US)),
    Term("layer_us", 1.0, 1.0, _host(HOST_LAYER_US)),
    Term("prompt_us", 1000.0, 1.0, _host(HOST_PROMPT_US)),
    Term("prompt_token_us", 0.3, 1.0, _host(HOST_PROMPT_TOKEN_US)),
    Term("request_us", 30000.0, 1.0, _host(HOST_REQUEST_US)),
    Term("stream_us", 150.0, 1.0, _host(HOST_STREAM_US)),
    Term("tp_comm_scale", 1.0, 0.3, _scale(PART_TP_COMM), least=1.0),
    Term("ep_comm_scale", 1.0, 0.4, _scale(PART_EP_COMM), least=1.0),
    Term("other_scale", 1.0, 0.4, _scale(PART_OTHER), least=1.0),
    Term("gemm_losses", 0.8, 0.4, _losses(*(f"gemm_{dtype}" for dtype in _GEMMS))),
    Term(
        "prefill_losses",
        0.9,
        0.4,
        _losses("prefill_gqa", "prefill_gqa_fp8_kv", "prefill_mla", "prefill_mla_fp8_kv"),
    ),
    Term("decode_gqa_losses", 0.8, 0.4, _losses("decode_gqa", "decode_gqa_fp8_kv")),
    Term("decode_mla_losses", 0.8, 0.4, _losses("decode_mla", "decode_mla_fp8_kv")),
    Term("linear_losses", 0.8, 0.4, _losses("linear_prefill", "linear_decode")),
    *(Term(f"moe_{dtype}_losses", 0.8, 0.5, _losses(f"moe_{dtype}")) for dtype in _EXPERTS),
)
"""Losses are what an operator's curve adds to its roofline; a term scales them, so that no served operator beats it.
Spreads and priors are wide guesses; how much of a spread each level may use is chosen in `sweep.calibrate.engine_fit`."""

NEAR, RELATED, FAR = "measured near", "interpolated", "extrapolated"
"""How close an estimate stands to measurements: same architecture, accelerator and engine; family and engine; neither."""
REACH = 1.0
"""Doublings outside the measured range of a combination up to which an estimate counts as measured near."""
FAR_WIDENING = 1.5
"""Factor on the log width of an interval where neither family nor engine was measured together."""

LEVELS = ("common", "engine", "pair", "architecture", "architecture_pair")
"""Levels of the file; the first holds values, the others factors."""


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


def level_keys(architecture_label: str, family: str, engine: str) -> tuple[str, str, str, str, str]:
    """Key of a deployment at every level of `LEVELS`."""
    pair = f"{family}.{engine}"
    return "common", engine, pair, architecture_label, f"{architecture_label}@{pair}"


def layer_of(family: str, engine: str, architecture_label: str = "") -> Mapping[str, float]:
    """Terms of an accelerator family, engine and architecture, by name; empty where nothing was fitted."""
    levels: Mapping[str, Mapping[str, Mapping[str, float]]] = engines_file().get("levels", {})
    if not levels:
        return {}
    keys = level_keys(architecture_label, family, engine)
    factors = [levels[level].get(key, {}) for level, key in zip(LEVELS, keys, strict=True)]
    return {
        term.name: max(term.least, float(np.prod([factor.get(term.name, 1.0) for factor in factors])))
        for term in TERMS
    }


def write_layer(c: Floats, values: Mapping[str, Floats]) -> None:
    """Put terms (by name, one value per row) into coefficients (n, N_OPS, N_COEF), in place."""
    c[:, OP_HOST, HOST_ROUTING_VARIANCE] = ROUTING_VARIANCE
    for term in TERMS:
        if term.name in values:
            term.apply(c, values[term.name])
    c[:, LEAST_SHARE] = least_shares(c)


def known_architectures() -> tuple[str, ...]:
    """Labels with factors of their own, after the empty one that stands for every other architecture."""
    return ("", *engines_file().get("levels", {}).get("architecture", {}))


def with_engine_layer(operators: Floats, names: Sequence[str]) -> Floats:
    """Coefficients (architecture, hardware, engine, N_OPS, N_COEF) of operators (hardware, engine, N_OPS, N_COEF).

    Architectures in the order of `known_architectures`, hardware in that of `names`.
    """
    labels = known_architectures()
    families = [str(hardware(name).fields["family"]) for name in names]
    layers = [
        layer_of(family, engine, label) for label in labels for family in families for engine in ENGINES
    ]
    table = np.broadcast_to(operators, (len(labels), *operators.shape)).copy()
    if layers[0]:
        values = {term.name: np.array([layer[term.name] for layer in layers]) for term in TERMS}
        write_layer(table.reshape(-1, *operators.shape[2:]), values)
        write_nearby(table, (labels, names, ENGINES), engines_file().get("nearby", {}))
    return table


@cache
def interval(
    model_name: str, hardware_name: str, engine: str, pooled: bool = False, inside: bool = True
) -> Interval:
    """The interval of an estimate for a model (catalogue name) on an accelerator under an engine.

    Spreads are those of held-out residuals of the engine on its maker's accelerators: `near`, of deployments left out of combinations that were
    measured; `unseen`, of whole combinations left out, also where a deployment of a measured combination stands outside of
    what was measured (not `inside`); those of split pools (`pooled`) are kept apart. A name outside the catalogue is a
    model that nobody measured.
    """
    file = engines_file()
    if not file:
        return Interval(0.5, 2.0, 0.5, 2.0, FAR)
    family = str(hardware(hardware_name).fields["family"])
    label = architecture(model(model_name).fields) if model_name in list_models() else ""
    near = inside and f"{label}|{hardware_name}|{engine}" in file["measured"]
    related = f"{family}.{engine}" in file["levels"]["pair"]
    residuals = file["residuals"]
    by_engine = (
        residuals[POOLS] if pooled else residuals.get(f"{maker(hardware_name)}.{engine}") or residuals["all"]
    )
    spread = by_engine["near" if near else "unseen"]
    power = 1.0 if near or related else FAR_WIDENING
    bounds = {k: float(spread[k]) ** power for k in ("ttft_p10", "ttft_p90", "tpot_p10", "tpot_p90")}
    return Interval(**bounds, support=NEAR if near else RELATED if related else FAR)
