"""KV block pool of one instance: allocation, prefix index, free-order eviction.

The free list holds blocks in the order in which they were freed; an allocation takes its head. A freed block keeps
its hash and can be found again until it is taken for something else. A request's blocks are freed last block
first, so that the head of a prompt survives longest (vLLM v1's block pool). Where no request of a run carries
token ids, blocks have no identity and only their number is kept (`inst.identify == 0`).
"""

from kernels.jit import inlined, kernel


@inlined
def ceil_div(a, b):
    """Smallest integer not below a / b, for a >= 0."""
    return (a + b - 1) // b


@kernel
def reset(w):
    """Fill the free lists in block order; forget all hashes."""
    w.owner[:] = -1
    for i in range(w.inst.size):
        inst = w.inst[i]
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
            w.blocks[b].users = 0
            w.blocks[b].hash = -1
            w.blocks[b].next = b + 1 if b < last else -1
            w.blocks[b].previous = b - 1 if b > first else -1


@inlined
def unlink(w, inst, b):
    """Take block `b` out of the free list."""
    before, after = w.blocks[b].previous, w.blocks[b].next
    if before >= 0:
        w.blocks[before].next = after
    else:
        inst.free_head = after
    if after >= 0:
        w.blocks[after].previous = before
    else:
        inst.free_tail = before
    inst.n_free -= 1


@inlined
def append_free(w, inst, b):
    """Put block `b` at the tail of the free list."""
    tail = inst.free_tail
    w.blocks[b].previous = tail
    w.blocks[b].next = -1
    if tail >= 0:
        w.blocks[tail].next = b
    else:
        inst.free_head = b
    inst.free_tail = b
    inst.n_free += 1


@inlined
def take_fresh(w, inst):
    """Pop the head of the free list and drop what it was known for."""
    b = inst.free_head
    unlink(w, inst, b)
    known = w.blocks[b].hash
    if known >= 0:
        if w.owner[inst.owner_base + known] == b:
            w.owner[inst.owner_base + known] = -1
        w.blocks[b].hash = -1
    w.blocks[b].users = 1
    return b


@kernel
def grow(w, inst, r, n_tokens):
    """Give request `r` the blocks that `n_tokens` tokens need; all or nothing. True if it has them."""
    req = w.req[r]
    need = ceil_div(n_tokens, inst.block_size) - req.blocks
    if need <= 0:
        return True
    if need > inst.n_free:
        return False
    if inst.identify == 0:
        inst.n_free -= need
    else:
        for j in range(need):
            w.table[req.block0 + req.blocks + j] = take_fresh(w, inst)
    req.blocks += need
    inst.peak_blocks = max(inst.peak_blocks, inst.n_blocks - inst.n_free)
    return True


@kernel
def index_full(w, inst, r, n_tokens):
    """Make the blocks of `r` that `n_tokens` tokens fill findable; the newest block answers for a hash."""
    req = w.req[r]
    if inst.caching == 0 or req.n_hashes == 0:
        return
    full = min(n_tokens // inst.block_size, req.n_hashes, req.blocks)
    for j in range(req.indexed, full):
        b = w.table[req.block0 + j]
        known = w.hashes[req.hash0 + j]
        w.blocks[b].hash = known
        w.owner[inst.owner_base + known] = b
    req.indexed = max(req.indexed, full)


@kernel
def count_hits(w, inst, r):
    """Leading full blocks of `r` that are findable, at least one token left to compute."""
    req = w.req[r]
    if inst.caching == 0:
        return 0
    most = min((req.reached - 1) // inst.block_size, req.n_hashes)
    hits = 0
    while hits < most and w.owner[inst.owner_base + w.hashes[req.hash0 + hits]] >= 0:
        hits += 1
    return hits


@kernel
def count_idle_hits(w, inst, r, hits):
    """How many of the first `hits` blocks are in the free list (pinning them uses free blocks up)."""
    req = w.req[r]
    idle = 0
    for j in range(hits):
        if w.blocks[w.owner[inst.owner_base + w.hashes[req.hash0 + j]]].users == 0:
            idle += 1
    return idle


@kernel
def pin_hits(w, inst, r, hits):
    """Hand the first `hits` findable blocks to request `r`."""
    req = w.req[r]
    for j in range(hits):
        b = w.owner[inst.owner_base + w.hashes[req.hash0 + j]]
        if w.blocks[b].users == 0:
            unlink(w, inst, b)
        w.blocks[b].users += 1
        w.table[req.block0 + j] = b
    req.blocks = hits
    req.indexed = hits


@kernel
def release(w, inst, r):
    """Free the blocks of `r`, last one first; their hashes survive."""
    req = w.req[r]
    if inst.identify == 0:
        inst.n_free += req.blocks
    else:
        for j in range(req.blocks - 1, -1, -1):
            b = w.table[req.block0 + j]
            w.blocks[b].users -= 1
            if w.blocks[b].users == 0:
                append_free(w, inst, b)
    req.blocks = 0
    req.indexed = 0
