"""`servesweep collectives`: a table of collectives in, their times out.

Columns in: id, hardware, n_gpus, n_nodes, implementation, nvls, primitive, algorithm, bytes (message bytes as the
kernels define them: the whole message of an all-reduce, the gathered total of an all-gather). Columns out: id, status,
reason, time_us, busbw_gbps, algorithm, priced_by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kernels import collectives as kc
from kernels.coefficients import OP_NVLS, roofline_coefficients
from sweep import network_ns3
from sweep.catalog.fitted_collectives import LIBRARY, fitted_collectives
from sweep.catalog.hardware import HardwareEntry, resolve_hardware
from sweep.errors import UserError, nearest
from sweep.records import default_records, set_values
from sweep.table_io import need

IMPLEMENTATIONS = (LIBRARY, "vllm", "sglang", "trtllm", "atom")
IMPLEMENTATION_ALIASES = {"rccl": LIBRARY}
NVLS = ("auto", "on", "off")
FIDELITIES = ("fitted", "roofline")
BACKENDS = ("analytical", "ns3")
ALL_REDUCE_ALGORITHMS = {
    "auto": kc.ALGO_AUTO,
    "ring": kc.ALGO_RING,
    "one_shot": kc.ALGO_ONE_SHOT,
    "two_shot": kc.ALGO_TWO_SHOT,
    "hierarchical": kc.ALGO_HIERARCHICAL,
    "nvls": kc.ALGO_NVLS,
}
ALL_TO_ALL_ALGORITHMS = {
    "auto": kc.A2A_AUTO,
    "direct": kc.A2A_DIRECT,
    "single_shot": kc.A2A_SINGLE_SHOT,
    "hierarchical": kc.A2A_HIERARCHICAL,
}


class Primitive(NamedTuple):
    """Kernel code, algorithms by name, and bus bytes of one message byte over n ranks (nccl-tests' convention)."""

    code: int
    algorithms: Mapping[str, int]
    bus_share: Callable[[int], float]


def _one_pass(n: int) -> float:
    return (n - 1) / n


PRIMITIVES = {
    "all_reduce": Primitive(kc.ALL_REDUCE, ALL_REDUCE_ALGORITHMS, lambda n: 2 * (n - 1) / n),
    "all_gather": Primitive(kc.ALL_GATHER, {"auto": 0, "ring": 0}, _one_pass),
    "reduce_scatter": Primitive(kc.REDUCE_SCATTER, {"auto": 0, "ring": 0}, _one_pass),
    "all_to_all": Primitive(kc.ALL_TO_ALL, ALL_TO_ALL_ALGORITHMS, _one_pass),
    "p2p": Primitive(kc.POINT_TO_POINT, {"auto": 0, "direct": 0}, lambda n: 1.0),
    "dispatch": Primitive(kc.DISPATCH, ALL_TO_ALL_ALGORITHMS, _one_pass),
    "combine": Primitive(kc.COMBINE, ALL_TO_ALL_ALGORITHMS, _one_pass),
}
DEFAULTS: Mapping[str, Any] = {
    "n_nodes": None,
    "implementation": LIBRARY,
    "nvls": "auto",
    "primitive": "all_reduce",
    "algorithm": "auto",
}
REQUIRED = ("hardware", "n_gpus", "bytes")
COLUMNS = ("id", *REQUIRED, *DEFAULTS)
"""What a table may say of a row."""
MAX_BYTES = 2**50
MAX_GPUS = 2**20
SERVER_GPUS = 16
"""Most GPUs that a PCIe server of the row's own making may hold."""


@dataclass(frozen=True)
class Collective:
    """One checked row."""

    hardware: HardwareEntry
    n_gpus: int
    domain_gpus: int
    implementation: str
    nvls: str
    primitive: str
    algorithm: str
    n_bytes: int


@dataclass(frozen=True)
class Price:
    """What one collective takes, the algorithm that priced it and what that price stands on."""

    time_us: float
    algorithm: str
    priced_by: str


def price_collectives(
    frame: pl.DataFrame, *, fidelity: str = "fitted", network_backend: str = "analytical"
) -> pl.DataFrame:
    """Price every row of `frame`; a row with an impossible value gets status `invalid` and its reason.

    Raises UserError where a needed column is missing or no row could be priced.
    """
    need(frame, REQUIRED)
    price = price_fitted if fidelity == "fitted" else price_roofline
    if network_backend == "ns3":
        network_ns3.require()
        price = price_ns3
    out = [_priced(number, row, price) for number, row in enumerate(frame.iter_rows(named=True))]
    result = pl.DataFrame(
        out,
        schema={
            "id": frame.schema.get("id", pl.Int64),
            "status": pl.String,
            "reason": pl.String,
            "time_us": pl.Float64,
            "busbw_gbps": pl.Float64,
            "algorithm": pl.String,
            "priced_by": pl.String,
        },
        orient="row",
    )
    if result.is_empty():
        raise UserError("the table has no rows")
    if not (result["status"] == "ok").any():
        raise UserError(f"no row could be priced; first: {result['reason'][0]}")
    return result


def _priced(number: int, row: Mapping[str, Any], price: Callable[[Collective], Price]) -> tuple[Any, ...]:
    name = row.get("id", number)
    try:
        collective = checked(row)
        found = price(collective)
    except UserError as error:
        return (name, "invalid", error.message, None, None, None, None)
    bus_bytes = PRIMITIVES[collective.primitive].bus_share(collective.n_gpus) * collective.n_bytes
    return (
        name,
        "ok",
        "",
        found.time_us,
        bus_bytes / (found.time_us * 1e3),
        found.algorithm,
        found.priced_by,
    )


def checked(row: Mapping[str, Any]) -> Collective:
    """The row with its defaults filled in. Raises UserError for an impossible value."""
    values = {k: (row.get(k) if row.get(k) is not None else default) for k, default in DEFAULTS.items()}
    if row["hardware"] is None:
        raise UserError("is missing", field="hardware")
    hardware = resolve_hardware(str(row["hardware"]))
    n_gpus = _count(row, "n_gpus", 2, MAX_GPUS)
    n_bytes = _count(row, "bytes", 1, MAX_BYTES)
    implementation = str(values["implementation"]).strip().casefold()
    implementation = _choice(
        "implementation", IMPLEMENTATION_ALIASES.get(implementation, implementation), IMPLEMENTATIONS
    )
    nvls = _choice("nvls", values["nvls"], NVLS)
    primitive = _choice("primitive", values["primitive"], tuple(PRIMITIVES))
    algorithm = _choice("algorithm", values["algorithm"], tuple(PRIMITIVES[primitive].algorithms))
    if not hardware.fields["multicast"] and (nvls == "on" or algorithm == "nvls"):
        raise UserError(
            f"{hardware.name} has no reduction in the switch",
            field="nvls",
            value=values["nvls"],
            allowed="auto, off",
        )
    domain_gpus = _domain(hardware, n_gpus, row)
    if algorithm == "nvls" and (nvls == "off" or n_gpus > domain_gpus):
        raise UserError("needs nvls and one scale-up domain", field="algorithm", value="nvls")
    return Collective(hardware, n_gpus, domain_gpus, implementation, nvls, primitive, algorithm, n_bytes)


def _choice(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    name = str(value).strip().casefold()
    if name not in allowed:
        raise UserError(
            "is no choice", field=field, value=value, allowed=", ".join(allowed), near=nearest(name, allowed)
        )
    return name


def _count(row: Mapping[str, Any], field: str, low: int, high: int) -> int:
    value = row.get(field)
    if value is None:
        raise UserError("is missing", field=field)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number.is_integer() or not low <= number <= high:
        raise UserError(
            "is no such count", field=field, value=value, allowed=f"whole numbers {low} to {high}"
        )
    return int(number)


def _domain(hardware: HardwareEntry, n_gpus: int, row: Mapping[str, Any]) -> int:
    """GPUs that share a scale-up fabric in this row.

    The accelerator's domain, or the row's own nodes where a domain is one node. Raises UserError where the nodes
    cannot hold the GPUs.
    """
    domain, node = int(hardware.fields["domain_gpus"]), int(hardware.fields["node_gpus"])
    if row.get("n_nodes") is None:
        return domain
    n_nodes = _count(row, "n_nodes", 1, n_gpus)
    if domain > node:
        return domain
    per_node = math.ceil(n_gpus / n_nodes)
    room = SERVER_GPUS if hardware.fields["topology"] in ("pcie", "pairwise") else domain
    if per_node > room:
        raise UserError(
            f"{n_gpus} GPUs do not fit in so few nodes of {room}",
            field="n_nodes",
            value=n_nodes,
            allowed=f"{math.ceil(n_gpus / room)} or more",
        )
    return per_node if n_nodes > 1 else max(domain, per_node)


@cache
def _coefficients(
    hardware: str, implementation: str, nvls: str, fidelity: str
) -> tuple[NDArray[np.float64], str]:
    c = roofline_coefficients()
    origin = "roofline"
    if fidelity == "fitted":
        fitted = fitted_collectives(hardware, implementation)
        fitted.fill(c)
        origin = fitted.origin
    if nvls == "on":
        c[OP_NVLS, kc.MIN_RANKS] = 0.0
    return c, origin


@cache
def _record(hardware: str, domain_gpus: int, multicast: bool) -> Any:
    p = default_records(1)[0]
    set_values(p, resolve_hardware(hardware).fields)
    p["quick_reduce"] = 0.0  # rows are of 16-bit messages
    p["scale_up_gpus"] = domain_gpus
    p["multicast"] = float(multicast)
    return p


def record_of(collective: Collective) -> Any:
    """The kernels' input record of a row: datasheet figures within the row's domain."""
    multicast = bool(collective.hardware.fields["multicast"]) and collective.nvls != "off"
    return _record(collective.hardware.name, collective.domain_gpus, multicast)


def price_fitted(collective: Collective) -> Price:
    """By coefficients fitted to measured tables."""
    return _kernel_price(collective, "fitted")


def price_roofline(collective: Collective) -> Price:
    """By datasheet bandwidth and latency alone."""
    return _kernel_price(collective, "roofline")


def price_ns3(collective: Collective) -> Price:
    """By packets through ns-3: the network's time alone, without launch and protocol."""
    fabric = network_ns3.fabric_of(collective.hardware.fields, collective.n_gpus, collective.domain_gpus)
    time_us, algorithm = network_ns3.fastest(
        fabric, collective.primitive, collective.algorithm, collective.n_bytes
    )
    return Price(time_us, algorithm, "ns3")


def _kernel_price(collective: Collective, fidelity: str) -> Price:
    c, origin = _coefficients(collective.hardware.name, collective.implementation, collective.nvls, fidelity)
    primitive = PRIMITIVES[collective.primitive]
    time_us, code = kc.collective(
        primitive.code,
        float(collective.n_bytes),
        float(collective.n_gpus),
        float(primitive.algorithms[collective.algorithm]),
        record_of(collective),
        c,
    )
    return Price(float(time_us), _algorithm_name(primitive, int(code)), origin)


def _algorithm_name(primitive: Primitive, code: int) -> str:
    names = {value: name for name, value in primitive.algorithms.items() if name != "auto"}
    return names.get(code, "auto")
