"""Collectives priced by the network simulator ns-3 (`--network-backend ns3`, optional package `ns3`).

An explicit topology of point-to-point links (GPUs around a switch, a full mesh, PCIe, bridged pairs, and a NIC per GPU
into one network switch) carries the packets of the collective's steps; a rank starts a step when its bytes of the
step before have arrived. The time is the network's alone: no launch, no protocol overhead, no reduction in the switch.

Times are simulated on a grid of message sizes, kept as JSON in the user's cache folder and interpolated in between
(linearly in bytes: exact for latency plus bytes over bandwidth).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sweep.errors import UserError
from sweep.files import write_atomic

GRID_BYTES = tuple(4**exponent for exponent in range(5, 14))
"""1 KiB to 64 MiB; smaller messages take as long as 1 KiB, larger ones at the bandwidth of the last two sizes."""
MAX_RANKS = 128
PACKETS_PER_TRANSFER = 64
MIN_PACKET_BYTES, MAX_PACKET_BYTES = 4096, 60_000
"""Packets are small enough to pipeline through a switch, few enough to simulate; a device takes up to 64 KiB."""
MODULES = ("core", "network", "point-to-point")
DRIVER = Path(__file__).with_name("ns3_collective.cc")
INSTALL = "needs the network simulator: pip install 'servesweep[ns3]' (package ns3)"

Transfer = tuple[int, int, int, int]
"""Step, source rank, destination rank, bytes."""
Link = tuple[int, int, float, float]
"""Two nodes, GB/s per direction, latency in us."""


@dataclass(frozen=True)
class Fabric:
    """What joins `n_gpus` GPUs in domains of `domain_gpus`: GB/s per direction and GPU, us per hop."""

    topology: str
    n_gpus: int
    domain_gpus: int
    mesh_gpus: int
    link_gb_s: float
    link_latency_us: float
    host_link_gb_s: float
    nic_gb_s: float
    nic_latency_us: float

    @property
    def domains(self) -> int:
        return math.ceil(self.n_gpus / self.domain_gpus)

    def domain_of(self, gpu: int) -> int:
        return gpu // self.domain_gpus


@dataclass(frozen=True)
class Topology:
    """Links and static routes; nodes are the GPUs, then one switch per domain, then the network switch."""

    n_nodes: int
    links: tuple[Link, ...]
    routes: tuple[tuple[int, int, int], ...]


def topology(fabric: Fabric) -> Topology:
    """Nodes, links and routes (node, destination GPU, next node) of a fabric. A hop's latency is paid end to end."""
    links: list[Link] = []
    routes: list[tuple[int, int, int]] = []
    network = fabric.n_gpus + fabric.domains
    for a in range(fabric.n_gpus):
        switch = fabric.n_gpus + fabric.domain_of(a)
        rate = fabric.host_link_gb_s if fabric.topology == "pairwise" else fabric.link_gb_s
        links.append((a, switch, rate, fabric.link_latency_us / 2))
        routes.append((switch, a, a))
        if fabric.domains > 1:
            links.append((a, network, fabric.nic_gb_s, fabric.nic_latency_us / 2))
            routes.append((network, a, a))
        for b in range(fabric.n_gpus):
            if b == a:
                continue
            if fabric.domain_of(a) != fabric.domain_of(b):
                routes.append((a, b, network))
            elif fabric.topology == "mesh" or (fabric.topology == "pairwise" and a // 2 == b // 2):
                routes.append((a, b, b))
                if a < b:
                    share = fabric.mesh_gpus - 1 if fabric.topology == "mesh" else 1
                    links.append((a, b, fabric.link_gb_s / share, fabric.link_latency_us))
            else:
                routes.append((a, b, switch))
    return Topology(network + 1, tuple(links), tuple(routes))


def schedule(primitive: str, algorithm: str, fabric: Fabric, n_bytes: int) -> list[Transfer]:
    """The steps of a collective. Raises UserError for a combination that has none."""
    n = fabric.n_gpus
    shard = math.ceil(n_bytes / n)
    match primitive, algorithm:
        case "all_reduce", "ring":
            return _rings(fabric, 2 * (n - 1), shard)
        case "all_reduce", "one_shot":
            return _exchange(n, 0, n_bytes)
        case "all_reduce", "two_shot":
            return _exchange(n, 0, shard) + _exchange(n, 1, shard)
        case "all_reduce", "hierarchical":
            return _hierarchical(fabric, n_bytes)
        case (("all_gather" | "reduce_scatter"), "ring"):
            return _ring(range(n), n - 1, shard)
        case (("all_to_all" | "dispatch" | "combine"), ("direct" | "single_shot")):
            return _exchange(n, 0, shard)
        case "p2p", "direct":
            return [(0, 0, n - 1, n_bytes)]
    raise UserError(f"ns-3 has no schedule for {primitive}", field="algorithm", value=algorithm)


def _ring(ranks: Sequence[int], steps: int, n_bytes: int, first_step: int = 0) -> list[Transfer]:
    n = len(ranks)
    return [
        (first_step + step, ranks[i], ranks[(i + 1) % n], n_bytes) for step in range(steps) for i in range(n)
    ]


def ring_orders(fabric: Fabric) -> list[list[int]]:
    """Rings that share the message, as libraries build them: one around a switch; in a mesh one per stride that
    visits every GPU, on links of its own; across domains one per NIC, entering each domain at another GPU."""
    n, inside = fabric.n_gpus, fabric.domain_gpus
    if fabric.domains > 1 and n == inside * fabric.domains:
        return [
            [
                domain * inside + (i + first) % inside
                for domain in range(fabric.domains)
                for i in range(inside)
            ]
            for first in range(inside)
        ]
    if fabric.topology == "mesh":
        return [[i * stride % n for i in range(n)] for stride in range(1, n) if math.gcd(stride, n) == 1]
    return [list(range(n))]


def _rings(fabric: Fabric, steps: int, n_bytes: int) -> list[Transfer]:
    orders = ring_orders(fabric)
    part = math.ceil(n_bytes / len(orders))
    return [transfer for order in orders for transfer in _ring(order, steps, part)]


def _exchange(n: int, step: int, n_bytes: int) -> list[Transfer]:
    """Every rank to every other, each starting with its next neighbour."""
    return [(step, rank, (rank + away) % n, n_bytes) for rank in range(n) for away in range(1, n)]


def _hierarchical(fabric: Fabric, n_bytes: int) -> list[Transfer]:
    """Ring reduce-scatter in each domain, ring all-reduce of the shards across domains, ring all-gather."""
    inside, domains = fabric.domain_gpus, fabric.domains
    if fabric.n_gpus != inside * domains:
        raise UserError("needs domains of equal size", field="algorithm", value="hierarchical")
    shard = math.ceil(n_bytes / inside)
    across = math.ceil(shard / domains)
    first_across = inside - 1
    first_gather = first_across + 2 * (domains - 1)
    transfers: list[Transfer] = []
    for domain in range(domains):
        ranks = range(domain * inside, (domain + 1) * inside)
        transfers += _ring(ranks, inside - 1, shard)
        transfers += _ring(ranks, inside - 1, shard, first_gather)
    for position in range(inside):
        ranks = range(position, fabric.n_gpus, inside)
        transfers += _ring(ranks, 2 * (domains - 1), across, first_across)
    return transfers


def require() -> None:
    """Raises UserError where the package is not installed."""
    if importlib.util.find_spec("ns3") is None or importlib.util.find_spec("cppyy") is None:
        raise UserError(INSTALL, field="network-backend", value="ns3")


@cache
def _driver() -> Any:
    """The compiled driver: only the three ns-3 libraries it uses are loaded."""
    require()
    import cppyy

    spec = importlib.util.find_spec("ns3")
    assert spec is not None and spec.submodule_search_locations
    root = Path(next(iter(spec.submodule_search_locations)))
    cppyy.add_include_path(str(root / "include"))
    for module in MODULES:
        found = sorted(root.glob(f"lib*/libns3*-{module}.so"))
        if not found:
            raise UserError(f"the installed ns3 has no library {module}; {INSTALL}")
        cppyy.load_library(str(found[0]))
    cppyy.cppdef(DRIVER.read_text(encoding="utf-8"))
    cppyy.gbl.ns3.Time.SetResolution(cppyy.gbl.ns3.Time.PS)
    return cppyy.gbl.servesweep


def simulate_us(fabric: Fabric, transfers: list[Transfer]) -> float:
    """Run the transfers through ns-3: time until the last rank is done, us."""
    if fabric.n_gpus > MAX_RANKS:
        raise UserError(f"ns-3 is run for up to {MAX_RANKS} GPUs", field="n_gpus", value=fabric.n_gpus)
    plan = topology(fabric)
    largest = max(n_bytes for *_, n_bytes in transfers)
    packet = min(max(math.ceil(largest / PACKETS_PER_TRANSFER), MIN_PACKET_BYTES), MAX_PACKET_BYTES)
    steps = 1 + max(step for step, *_ in transfers)
    run = _driver().Collective(plan.n_nodes, fabric.n_gpus, steps, packet)
    for a, b, gb_s, latency_us in plan.links:
        run.AddLink(a, b, gb_s, latency_us * 1e3)
    for node, destination, following in plan.routes:
        run.AddRoute(node, destination, following)
    for transfer in transfers:
        run.AddTransfer(*transfer)
    time_ns = float(run.Run())
    if time_ns < 0:
        raise RuntimeError("ns-3 lost packets on a lossless fabric")
    return time_ns / 1e3


def algorithms(primitive: str, fabric: Fabric) -> tuple[str, ...]:
    """What `auto` chooses from."""
    if primitive == "all_reduce":
        even = fabric.domains > 1 and fabric.n_gpus == fabric.domain_gpus * fabric.domains
        return ("ring", "one_shot", "two_shot") + (("hierarchical",) if even else ())
    if primitive in ("all_gather", "reduce_scatter"):
        return ("ring",)
    return ("direct",)


def collective_us(fabric: Fabric, primitive: str, algorithm: str, n_bytes: int) -> float:
    """Time of one collective from the cached grid, us; simulates the grid sizes around `n_bytes` where they are new."""
    low = max((size for size in GRID_BYTES[:-1] if size <= n_bytes), default=GRID_BYTES[0])
    high = GRID_BYTES[GRID_BYTES.index(low) + 1]
    times = _Table(fabric)
    low_us = times.time_us(primitive, algorithm, low)
    if n_bytes <= low:
        return low_us
    high_us = times.time_us(primitive, algorithm, high)
    slope = (high_us - low_us) / (high - low)
    return float(low_us + slope * (n_bytes - low))


def table(
    fabric: Fabric, primitive: str, algorithm: str = "auto"
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Message bytes and times (us) over the whole grid: what a simulator that steps through time interpolates."""
    return GRID_BYTES, tuple(fastest(fabric, primitive, algorithm, size)[0] for size in GRID_BYTES)


def effective_link(n_ranks: int, gb_s: float, latency_us: float) -> tuple[float, float]:
    """(GB/s, us) of one step of a ring of `n_ranks` as ns-3 times it over links of `gb_s` and `latency_us`.

    A simulator that prices ring steps as latency + bytes / bandwidth takes these two instead of the link's own.
    """
    fabric = Fabric("switch", n_ranks, n_ranks, n_ranks, gb_s, latency_us, gb_s, gb_s, latency_us)
    steps = 2 * (n_ranks - 1)
    low, high = GRID_BYTES[0], GRID_BYTES[-1]
    low_us, high_us = (collective_us(fabric, "all_reduce", "ring", size) / steps for size in (low, high))
    us_per_byte = (high_us - low_us) / ((high - low) / n_ranks)
    return 1.0 / (us_per_byte * 1e3), max(low_us - us_per_byte * low / n_ranks, 0.0)


def cache_folder() -> Path:
    """Where tables are kept: servesweep/ns3 in $XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "servesweep" / "ns3"


class _Table:
    """Simulated times of one fabric, kept in one JSON file that any fabric or driver change renames."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        identity = json.dumps(asdict(fabric), sort_keys=True) + DRIVER.read_text(encoding="utf-8")
        self.file = cache_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"
        self.times = self._read()

    def _read(self) -> dict[str, float]:
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))["times_us"]
            return {str(key): float(value) for key, value in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def time_us(self, primitive: str, algorithm: str, n_bytes: int) -> float:
        key = f"{primitive}/{algorithm}/{n_bytes}"
        if key not in self.times:
            transfers = schedule(primitive, algorithm, self.fabric, n_bytes)
            self.times[key] = simulate_us(self.fabric, transfers)
            self._write()
        return self.times[key]

    def _write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = {"fabric": asdict(self.fabric), "times_us": self.times}
        write_atomic(self.file, json.dumps(content, indent=1, sort_keys=True).encode())


def fabric_of(fields: Any, n_gpus: int, domain_gpus: int) -> Fabric:
    """The fabric of `n_gpus` of an accelerator (values of its `hardware.*` fields by short name)."""
    return Fabric(
        topology=str(fields["topology"]),
        n_gpus=n_gpus,
        domain_gpus=min(domain_gpus, n_gpus),
        mesh_gpus=int(fields["domain_gpus"]),
        link_gb_s=float(fields["link_gb_s"]),
        link_latency_us=float(fields["link_latency_us"]),
        host_link_gb_s=float(fields["host_link_gb_s"]),
        nic_gb_s=float(fields["nic_gb_s"]),
        nic_latency_us=float(fields["nic_latency_us"]),
    )


def fastest(fabric: Fabric, primitive: str, algorithm: str, n_bytes: int) -> tuple[float, str]:
    """(time in us, algorithm): the one asked for, or the fastest for "auto"."""
    wanted = algorithms(primitive, fabric) if algorithm == "auto" else (algorithm,)
    return min((collective_us(fabric, primitive, name, n_bytes), name) for name in wanted)
