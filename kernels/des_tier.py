"""Second tier of the prefix cache: host memory or CXL behind one instance, or shared by several.

A chunk is several KV blocks, named by the hash of its last one. When an instance has indexed a whole chunk, a copy
goes to its pool; a full pool drops what was written first (look-ups do not refresh). An admission that finds further
chunks after its own blocks' hits recalls them into fresh blocks: they need not be computed, but their bytes pass
through the pool's memory, one recall at a time.
"""

from kernels.des_layout import hash_start, hashes, instances, requests, tier_held, tier_pools, tier_ring
from kernels.jit import internal


@internal
def keep_chunk(w, pool, known):
    """Put the chunk named by hash `known` into pool `pool`."""
    tier = tier_pools(w)[pool]
    if tier.capacity == 0 or tier_held(w)[pool, known] == 1:
        return
    place = tier.written % tier.capacity
    if tier.written >= tier.capacity:
        tier_held(w)[pool, tier_ring(w)[tier.ring_base + place]] = 0
    tier_ring(w)[tier.ring_base + place] = known
    tier_held(w)[pool, known] = 1
    tier.written += 1


@internal
def write_through(w, inst, r, before, now_full):
    """Copy the chunks of request `r` that its blocks [before, now_full) complete."""
    if inst.tier < 0:
        return
    start = hash_start(w)[inst.size_index, r]
    for chunk in range(before // inst.tier_blocks, now_full // inst.tier_blocks):
        keep_chunk(w, inst.tier, hashes(w)[start + (chunk + 1) * inst.tier_blocks - 1])


@internal
def count_recalled(w, inst, r, hits):
    """Blocks beyond the first `hits` that the pool holds for `r`: whole chunks, at least one, and one token left to run."""
    if inst.tier < 0:
        return 0
    start, end = hash_start(w)[inst.size_index, r], hash_start(w)[inst.size_index, r + 1]
    most = min((requests(w)[r].reached - 1) // inst.block_size, end - start) // inst.tier_blocks
    chunk = hits // inst.tier_blocks
    while (
        chunk < most and tier_held(w)[inst.tier, hashes(w)[start + (chunk + 1) * inst.tier_blocks - 1]] == 1
    ):
        chunk += 1
    gained = chunk * inst.tier_blocks - hits
    return gained if gained >= inst.tier_blocks else 0


@internal
def recall_ns(w, batch, now):
    """How long the batch waits for what its admissions recall: latency + bytes / bandwidth, behind earlier recalls."""
    if batch.kv_load_bytes == 0:
        return 0
    inst = instances(w)[batch.instance]
    tier = tier_pools(w)[inst.tier]
    start = max(now, tier.free)
    tier.free = start + tier.latency + batch.kv_load_bytes // tier.bytes_per_ns
    return tier.free - now
