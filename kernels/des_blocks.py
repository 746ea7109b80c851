"""KV block pool of one instance: allocation, prefix index, free-order eviction.

The free list holds blocks in the order in which they were freed; an allocation takes its head. A freed block keeps
its hash and can be found again until it is taken for something else. A request's blocks are freed last block
first, so that the head of a prompt survives longest (vLLM v1's block pool). Where no request of a run carries
token ids, blocks have no identity and only their number is kept (`inst.identify == 0`).
"""

from kernels.des_layout import block_table, blocks, hash_start, hashes, instances, owner, requests
from kernels.des_tier import write_through
from kernels.jit import internal, kernel


@internal
def ceil_div(a, b):
    """Smallest integer not below a / b, for a >= 0."""
    return (a + b - 1) // b


@internal
def hash_range(w, inst, r):
    """First hash of request `r` at this instance's block size, and the end of them."""
    return hash_start(w)[inst.size_index, r], hash_start(w)[inst.size_index, r + 1]


@kernel
def reset(world):
    """Fill the free lists in block order; forget all hashes. `world` has shape (1,) and dtype WORLD."""
    w = world[0]
    owner(w)[:] = -1
    for i in range(instances(w).size):
        inst = instances(w)[i]
        inst.n_free = inst.n_blocks
        inst.waiting_head = -1
        inst.waiting_tail = -1
        inst.pending_batch = -1
        if inst.identify == 0:
            continue
        first = inst.block_base
        last = first + inst.n_blocks - 1
        inst.free_head = first
        inst.free_tail = last
        for b in range(first, last + 1):
            blocks(w)[b].users = 0
            blocks(w)[b].hash = -1
            blocks(w)[b].next = b + 1 if b < last else -1
            blocks(w)[b].previous = b - 1 if b > first else -1


@internal
def unlink(w, inst, b):
    """Take block `b` out of the free list."""
    before, after = blocks(w)[b].previous, blocks(w)[b].next
    if before >= 0:
        blocks(w)[before].next = after
    else:
        inst.free_head = after
    if after >= 0:
        blocks(w)[after].previous = before
    else:
        inst.free_tail = before
    inst.n_free -= 1


@internal
def append_free(w, inst, b):
    """Put block `b` at the tail of the free list."""
    tail = inst.free_tail
    blocks(w)[b].previous = tail
    blocks(w)[b].next = -1
    if tail >= 0:
        blocks(w)[tail].next = b
    else:
        inst.free_head = b
    inst.free_tail = b
    inst.n_free += 1


@internal
def take_fresh(w, inst):
    """Pop the head of the free list and drop what it was known for."""
    b = inst.free_head
    unlink(w, inst, b)
    known = blocks(w)[b].hash
    if known >= 0:
        if owner(w)[inst.owner_base + known] == b:
            owner(w)[inst.owner_base + known] = -1
        blocks(w)[b].hash = -1
    blocks(w)[b].users = 1
    return b


@internal
def grow(w, inst, r, n_tokens):
    """Give request `r` the blocks that `n_tokens` tokens need; all or nothing. True if it has them."""
    req = requests(w)[r]
    need = ceil_div(n_tokens, inst.block_size) - req.blocks
    if need <= 0:
        return True
    if need > inst.n_free:
        return False
    if inst.identify == 0:
        inst.n_free -= need
    else:
        for j in range(need):
            block_table(w)[req.block0 + req.blocks + j] = take_fresh(w, inst)
    req.blocks += need
    inst.peak_blocks = max(inst.peak_blocks, inst.n_blocks - inst.n_free)
    return True


@internal
def index_full(w, inst, r, n_tokens):
    """Make the blocks of `r` that `n_tokens` tokens fill findable; the newest block answers for a hash."""
    req = requests(w)[r]
    if inst.caching == 0:
        return
    start, end = hash_range(w, inst, r)
    full = min(n_tokens // inst.block_size, end - start, req.blocks)
    for j in range(req.indexed, full):
        b = block_table(w)[req.block0 + j]
        known = hashes(w)[start + j]
        blocks(w)[b].hash = known
        owner(w)[inst.owner_base + known] = b
    if full > req.indexed:
        write_through(w, inst, r, req.indexed, full)
        req.indexed = full


@internal
def count_hits(w, inst, r):
    """Leading full blocks of `r` that are findable, at least one token left to compute."""
    req = requests(w)[r]
    if inst.caching == 0:
        return 0
    start, end = hash_range(w, inst, r)
    most = min((req.reached - 1) // inst.block_size, end - start)
    hits = 0
    while hits < most and owner(w)[inst.owner_base + hashes(w)[start + hits]] >= 0:
        hits += 1
    return hits


@internal
def count_idle_hits(w, inst, r, hits):
    """How many of the first `hits` blocks are in the free list (pinning them uses free blocks up)."""
    start, _ = hash_range(w, inst, r)
    idle = 0
    for j in range(hits):
        if blocks(w)[owner(w)[inst.owner_base + hashes(w)[start + j]]].users == 0:
            idle += 1
    return idle


@internal
def pin_hits(w, inst, r, hits):
    """Hand the first `hits` findable blocks to request `r`."""
    req = requests(w)[r]
    start, _ = hash_range(w, inst, r)
    for j in range(hits):
        b = owner(w)[inst.owner_base + hashes(w)[start + j]]
        if blocks(w)[b].users == 0:
            unlink(w, inst, b)
        blocks(w)[b].users += 1
        block_table(w)[req.block0 + j] = b
    req.blocks = hits
    req.indexed = hits


@internal
def release(w, inst, r):
    """Free the blocks of `r`, last one first; their hashes survive."""
    req = requests(w)[r]
    if inst.identify == 0:
        inst.n_free += req.blocks
    else:
        for j in range(req.blocks - 1, -1, -1):
            b = block_table(w)[req.block0 + j]
            blocks(w)[b].users -= 1
            if blocks(w)[b].users == 0:
                append_free(w, inst, b)
    req.blocks = 0
    req.indexed = 0
