"""Builds the arrays of a simulation from instances and requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels import des_blocks, des_price
from kernels.coefficients import N_COEF, N_OPS
from kernels.des_layout import (
    BATCH,
    BLOCK,
    BUCKET,
    INSTANCE,
    ITEM,
    NEVER,
    REQUEST,
    RESIDUE,
    STEP,
    WORLD,
)
from kernels.des_metrics import N_BINS
from kernels.des_price import N_GRID
from kernels.layout import DERIVED
from kernels.mode import record_type
from kernels.priced import PRICED
from kernels.tables import TABLES
from kernels.views import bind
from sweep.fields import record_dtype
from sweep.profiles import Profile, stack
from sweep.simulate import tier
from sweep.traces.blocks import block_hashes
from sweep.traces.requests import Requests

UNLIMITED = 2**40
NS_PER_MS = 1_000_000


class World:
    """The record that the kernels work on, and the arrays whose addresses it holds."""

    def __init__(self, record: NDArray[Any]) -> None:
        self.record = record
        record["self"] = record.ctypes.data
        self.arrays: dict[str, NDArray[Any]] = {}
        self.tables = np.zeros(1, TABLES)

    def add(self, **arrays: NDArray[Any]) -> None:
        """Enter arrays into the record."""
        for name, array in arrays.items():
            self.arrays[name] = array
            bind(self.record, name, array)

    def add_tables(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Enter operator tables."""
        for name, array in arrays.items():
            self.arrays[name] = array
            bind(self.tables, name, array)
        bind(self.record, "tables", self.tables)

    @property
    def req(self) -> NDArray[Any]:
        return self.arrays["req"]

    @property
    def inst(self) -> NDArray[Any]:
        return self.arrays["inst"]

    def __getitem__(self, name: str) -> Any:
        return self.record[0][name]


@dataclass
class Instance:
    """One engine: `settings` are fields of `kernels.des_layout.INSTANCE`; the rest prices its steps."""

    settings: dict[str, Any]
    profile: Profile | None = None
    record: NDArray[Any] | None = None
    derived: NDArray[Any] | None = None
    coefficients: NDArray[np.float64] | None = None
    weight_ready: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunOptions:
    """What concerns a whole run."""

    policy: int = 0
    compat: bool = False
    closed_loop: int = 0
    seed: int = 42
    record_tokens: bool = False
    log_steps: int = 0
    n_buckets: int = 4096
    bucket_ns: int = 1_000_000_000
    first_alarm_ns: int = 1_000_000_000
    pools: tuple[tier.Pool, ...] = ()
    request_overhead_ns: int = 0


def hash_blocks(requests: Requests, sizes: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Dense hash ids of all full blocks for each block size: (ids, starts of shape (sizes, n + 1), distinct ids)."""
    starts = np.zeros((len(sizes), len(requests) + 1), np.int64)
    pieces: list[NDArray[Any]] = []
    end = 0
    for s, size in enumerate(sizes):
        found = block_hashes(requests, size)
        if found is None:
            return np.zeros(0, np.int64), starts, 0
        starts[s] = end + found.offset
        end += int(found.offset[-1])
        pieces.append(found.value)
    distinct, ids = np.unique(np.concatenate(pieces), return_inverse=True)
    return ids.astype(np.int64), starts, len(distinct)


def _instances(instances: list[Instance], n_requests: int) -> NDArray[Any]:
    table = np.zeros(len(instances), INSTANCE)
    table["tier"] = -1
    running = batches = items = 0
    for i, one in enumerate(instances):
        row = table[i]
        for name, value in one.settings.items():
            row[name] = value
        cap = int(min(row["max_seqs"], n_requests, row["n_blocks"], row["budget"] * row["pp"]))
        row["running_base"], row["running_cap"] = running, cap
        row["batch_base"], row["item_base"] = batches, items
        running += cap
        batches += int(row["pp"])
        items += cap * int(row["pp"])
    return table


def request_records(requests: Requests, options: RunOptions) -> NDArray[Any]:
    """Records of requests that have not arrived yet."""
    table = np.zeros(len(requests), REQUEST)
    for name in (
        "next",
        "last_token",
        "first_token",
        "finish",
        "started",
        "instance",
        "prefill_instance",
        "joined",
    ):
        table[name] = -1
    table["arrival"] = requests.arrival_ns
    table["isl"], table["osl"] = requests.isl, requests.osl
    table["next_in_session"] = -1
    if requests.parent is not None:
        turns = np.flatnonzero(requests.parent >= 0)
        before = requests.parent[turns]
        table["next_in_session"][before] = turns
        if requests.tool_ns is not None:
            table["tool_ns"][before] = requests.tool_ns[turns]
    table["token0"] = -1
    if options.record_tokens:
        table["token0"] = np.concatenate([[0], np.cumsum(requests.osl, dtype=np.int64)[:-1]])
    return table


def _tables(instances: list[Instance], table: NDArray[Any], n_requests: int) -> dict[str, NDArray[Any]]:
    """Stack the distinct bundles and note in each instance which one is its own."""
    profiles: list[Profile] = []
    for i, one in enumerate(instances):
        if one.profile is None:
            continue
        if one.profile not in profiles:
            profiles.append(one.profile)
        table[i]["table"] = profiles.index(one.profile)
    if not profiles:
        profiles = [_no_profile()]
    max_tokens = int(min(table["budget"].max(), 2**17))
    return stack(
        profiles,
        max_tokens,
        int(min(table["max_seqs"].max() + max_tokens, max_tokens, n_requests + max_tokens)),
    )


def _no_profile() -> Profile:
    from pathlib import Path

    one = np.zeros(1)
    return Profile(Path(), {}, {}, {(0, 1): {0: (one, one)}})


def build(
    instances: list[Instance],
    requests: Requests,
    options: RunOptions,
    streamed: bool = False,
) -> World:
    """Arrays of a run, ready for `kernels.des_loop.run`; `streamed`: more requests will follow these."""
    most_open = UNLIMITED if streamed else len(requests)
    inst = _instances(instances, most_open)
    sizes = sorted({int(size) for size in inst["block_size"]})
    for row in inst:
        row["size_index"] = sizes.index(int(row["block_size"]))
    hashes, hash_start, n_hashes = hash_blocks(requests, sizes)
    req = request_records(requests, options)
    caching = (inst["caching"] == 1) & (n_hashes > 0)
    inst["identify"] = caching
    inst["caching"] = caching
    inst["owner_base"] = np.arange(len(inst)) * n_hashes
    inst["block_base"] = np.concatenate([[0], np.cumsum(inst["n_blocks"])[:-1]])
    inst["residue_base"] = np.concatenate([[0], np.cumsum(inst["block_size"])[:-1]])
    inst["cohorts"] = _may_form_cohorts(inst)
    n_cells = 0
    if n_hashes:
        cells = -(-(requests.isl.astype(np.int64) + requests.osl) // min(sizes)) + 1
        req["block0"] = np.concatenate([[0], np.cumsum(cells)[:-1]])
        n_cells = int(cells.sum())
    world = World(_clock(requests, options))
    n_inst, cap = len(inst), int(inst["running_cap"].max())
    ranks, n_running = int(inst["tp"].max()) * n_inst, int(inst["running_cap"].sum())
    world.add(
        req=req,
        inst=inst,
        batch=np.zeros(int(inst["pp"].sum()), BATCH),
        items=np.zeros(int((inst["running_cap"] * inst["pp"]).sum()), ITEM),
        running=np.zeros(n_running, np.int64),
        blocks=np.zeros(int(inst["n_blocks"].sum()) if n_hashes else 0, BLOCK),
        **tier.arrays(options.pools, n_hashes),
        owner=np.full(n_inst * n_hashes, -1, np.int64),
        hashes=hashes,
        hash_start=hash_start,
        block_table=np.zeros(n_cells, np.int64),
        order=np.arange(len(requests)),
        heap=np.zeros((len(requests) + 1, 2), np.int64),
        token_ns=np.zeros(int(requests.osl.sum()) if options.record_tokens else 0, np.int64),
        log=np.zeros(options.log_steps, STEP),
        bucket=np.zeros((n_inst, options.n_buckets), BUCKET),
        gaps=np.zeros((n_inst, N_BINS)),
        event=np.full(n_inst, NEVER, np.int64),
        members=np.zeros(n_inst, np.int64),
        loners=np.zeros(n_running, np.int64),
        fresh=np.zeros(n_running, np.int64),
        due=np.zeros((n_running, 3), np.int64),
        residues=np.zeros(int(inst["block_size"].sum()), RESIDUE),
        stage_free=np.zeros((n_inst, int(inst["pp"].max())), np.int64),
        weight_ready=_weight_ready(instances),
        node_free=np.zeros(int(inst["node"].max()) + 1, np.int64),
        rank_clock=np.zeros(ranks, np.int64),
        rank_link=np.zeros(ranks, np.int64),
        ring_scratch=np.zeros(ranks, np.int64),
        p=np.concatenate([_or_zeros(one.record, record_dtype()) for one in instances]),
        d=np.concatenate([_or_zeros(one.derived, DERIVED) for one in instances]),
        c=np.stack([_or_empty(one.coefficients) for one in instances]),
        memo=np.full((n_inst, _memo_rows(instances, cap), N_GRID), np.nan),
        priced=np.zeros(1, PRICED),
    )
    if any(one.record is not None for one in instances):
        world.record["pricer"] = _step_pricer().address
    world.add_tables(_tables(instances, inst, most_open))
    des_blocks.reset(world.record)
    return world


def _may_form_cohorts(inst: NDArray[Any]) -> NDArray[np.bool_]:
    """Instances whose decoding requests all take one token in every step, whoever they are."""
    plain = (inst["pp"] == 1) & (inst["group"] < 0) & (inst["spec_tokens"] == 0)
    return np.asarray(plain & (inst["threshold"] == 0) & (inst["pim_channels"] == 0))


def _clock(requests: Requests, options: RunOptions) -> NDArray[Any]:
    clock = np.zeros(1, record_type(WORLD))
    first = clock[0]
    first["now"] = max(1, min(int(requests.arrival_ns[0]), options.first_alarm_ns)) if options.compat else 0
    first["n_requests"] = len(requests)
    first["n_static"] = options.closed_loop if options.closed_loop else requests.n_open
    first["n_released"] = first["n_static"]
    first["closed_loop"] = 1 if options.closed_loop else 0
    first["compat"] = int(options.compat)
    first["policy"] = options.policy
    first["asked"] = first["answer"] = -1
    first["random"] = options.seed * 1_000_003
    first["tick_ns"] = NS_PER_MS
    first["bucket_ns"] = options.bucket_ns
    first["request_overhead_ns"] = options.request_overhead_ns
    return clock


@cache
def _step_pricer() -> Any:
    """The step model as a compiled callback; only simulations that it prices pay for loading it."""
    return des_price.step_pricer(record_dtype())


def _weight_ready(instances: list[Instance]) -> NDArray[np.int64]:
    """Arrival of offloaded weights, one row per instance."""
    width = max(len(one.weight_ready) for one in instances)
    out = np.zeros((len(instances), width), np.int64)
    for i, one in enumerate(instances):
        out[i, : len(one.weight_ready)] = one.weight_ready
    return out


def _memo_rows(instances: list[Instance], cap: int) -> int:
    """Batch sizes whose decode steps are kept."""
    return 1 + min(cap, 4096) if any(one.record is not None for one in instances) else 1


def _or_zeros(record: NDArray[Any] | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.zeros(1, dtype) if record is None else record.reshape(1)


def _or_empty(coefficients: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return np.zeros((N_OPS, N_COEF)) if coefficients is None else coefficients
