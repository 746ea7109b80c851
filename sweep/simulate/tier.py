"""Second tier of the prefix cache: pools of host or CXL memory, one per instance or shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernels.des_layout import TIER
from kernels.units import GIB
from sweep.errors import UserError

if TYPE_CHECKING:
    from sweep.simulate.cluster import ClusterConfig, Memory
    from sweep.simulate.instances import Built
    from sweep.simulate.world import Instance

CHUNK_TOKENS = 256
"""Tokens that move together; at least one KV block."""
STORAGES = ("None", "CPU", "CXL")


@dataclass(frozen=True)
class Pool:
    """One pool: capacity in chunks, latency (ns) and bandwidth (bytes/ns) of its memory."""

    chunks: int
    latency_ns: int
    bytes_per_ns: int


def chunk_blocks(block_size: int) -> int:
    """KV blocks of one chunk."""
    return max(1, CHUNK_TOKENS // block_size)


def attach(instance: Instance, pool: int, block_bytes: int) -> None:
    """Put `instance` before pool number `pool`; `block_bytes` is one KV block of all its ranks."""
    blocks = chunk_blocks(int(instance.settings["block_size"]))
    instance.settings |= {"tier": pool, "tier_blocks": blocks, "tier_block_bytes": block_bytes}


def pools(built: Sequence[Built], cluster: ClusterConfig, storage: str, shared: bool) -> tuple[Pool, ...]:
    """Pools of a cluster, each instance attached to its own or to the shared one.

    Shared: one pool per node (CPU) or one for the cluster (CXL); a private pool takes the whole memory's size. Chunks of a shared
    pool have the largest instance's bytes. Raises UserError where the cluster has no such memory.
    """
    if storage == "None":
        return ()
    keys = [_key(one, k, storage, shared) for k, one in enumerate(built)]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    sizes = [_block_bytes(one) for one in built]
    for one, key, size in zip(built, keys, sizes, strict=True):
        attach(one.instance, number[key], size)
    out = []
    for key in number:
        members = [k for k, other in enumerate(keys) if other == key]
        memory = _memory(cluster, built[members[0]].config.node, storage)
        chunk = max(sizes[k] * chunk_blocks(int(built[k].instance.settings["block_size"])) for k in members)
        out.append(Pool(int(memory.size * GIB) // chunk, int(memory.latency), max(1, int(memory.bandwidth))))
    return tuple(out)


def _key(one: Built, index: int, storage: str, shared: bool) -> tuple[str, int]:
    if not shared:
        return ("instance", index)
    return ("cluster", 0) if storage == "CXL" else ("node", one.config.node)


def _block_bytes(one: Built) -> int:
    shape, size = one.shape, int(one.instance.settings["block_size"])
    return 2 * shape.kv_dim * shape.n_layers * one.kv_bytes * size


def _memory(cluster: ClusterConfig, node: int, storage: str) -> Memory:
    if storage == "CPU":
        return cluster.nodes[node].cpu
    if cluster.cxl is None:
        raise UserError(
            "the cluster has no cxl_mem", file=str(cluster.path), field="--prefix-storage", value=storage
        )
    return cluster.cxl


def arrays(pools: Sequence[Pool], n_hashes: int) -> dict[str, NDArray[np.generic]]:
    """The simulator's arrays of `pools` for a run with `n_hashes` distinct blocks."""
    table = np.zeros(max(1, len(pools)), TIER)
    capacity = [min(pool.chunks, n_hashes) for pool in pools]
    for row, pool, chunks, base in zip(
        table, pools, capacity, np.cumsum([0, *capacity])[:-1].tolist(), strict=False
    ):
        row["capacity"], row["ring_base"] = chunks, base
        row["latency"], row["bytes_per_ns"] = pool.latency_ns, pool.bytes_per_ns
    return {
        "tier": table,
        "tier_ring": np.zeros(max(1, sum(capacity)), np.int64),
        "tier_held": np.zeros((len(pools), n_hashes if pools else 0), np.int8),
    }
