"""Decoding requests that advance together.

Whoever decodes takes one token per step. A step therefore needs only the cohort's aggregates: how many decode, and
the sum, least and most of their cached tokens. A member's own record stays as it was when it joined, and is brought up to
date when it leaves: at its end, or when a KV block is missing and the whole cohort disbands. `ticks` counts the steps in
which members got a token, so that

    tokens of a member now = tokens at joining + ticks - ticks at joining.

Who ends next is the top of a heap. Members whose context reaches a block's end in the same steps share a residue
(tokens - ticks) mod block size: how many blocks a step needs is the count of one residue, and where blocks have an
identity, the members are the list of that residue.
"""

from kernels.des_blocks import ceil_div, grow, index_full
from kernels.des_layout import (
    PRICE_TABLES,
    batches,
    due,
    fresh,
    loners,
    requests,
    residues,
    running,
    token_ns,
)
from kernels.des_metrics import count_gap
from kernels.jit import internal


@internal
def residue_of(inst, tokens, ticks):
    """Residue of a member that has `tokens` tokens at `ticks`."""
    return (tokens - ticks) % inst.block_size


@internal
def is_before(w, a, b):
    """Whether heap entry `a` ends before `b`; those that end together go in order of joining."""
    return due(w)[a, 0] < due(w)[b, 0] or (due(w)[a, 0] == due(w)[b, 0] and due(w)[a, 1] < due(w)[b, 1])


@internal
def swap(w, a, b):
    """Exchange two heap entries."""
    for k in range(3):
        kept = due(w)[a, k]
        due(w)[a, k] = due(w)[b, k]
        due(w)[b, k] = kept


@internal
def push_due(w, inst, tick, r):
    """Enter the end of member `r` into the heap; `inst.cohort` is the number of entries before."""
    base, k = inst.running_base, inst.cohort
    due(w)[base + k, 0] = tick
    due(w)[base + k, 1] = inst.joins
    due(w)[base + k, 2] = r
    inst.joins += 1
    while k > 0 and is_before(w, base + k, base + (k - 1) // 2):
        swap(w, base + k, base + (k - 1) // 2)
        k = (k - 1) // 2


@internal
def pop_due(w, inst):
    """Take the member that ends first; `inst.cohort` is the number of entries before."""
    base, last = inst.running_base, inst.cohort - 1
    r = due(w)[base, 2]
    swap(w, base, base + last)
    k = 0
    while 2 * k + 1 < last:
        child = 2 * k + 1
        if child + 1 < last and is_before(w, base + child + 1, base + child):
            child += 1
        if is_before(w, base + k, base + child):
            break
        swap(w, base + k, base + child)
        k = child
    return r


@internal
def append_residue(w, inst, residue, r):
    """Put `r` at the end of its residue's list."""
    here = residues(w)[inst.residue_base + residue]
    here.count += 1
    if inst.identify == 0:
        return
    requests(w)[r].next = -1
    if here.count == 1:
        here.head = r
    else:
        requests(w)[here.tail].next = r
    here.tail = r


@internal
def remove_residue(w, inst, residue, r):
    """Take `r` out of its residue's list."""
    here = residues(w)[inst.residue_base + residue]
    here.count -= 1
    if inst.identify == 0:
        return
    before, j = -1, here.head
    while j != r:
        before, j = j, requests(w)[j].next
    after = requests(w)[r].next
    if before < 0:
        here.head = after
    else:
        requests(w)[before].next = after
    if here.tail == r:
        here.tail = before
    requests(w)[r].next = -1


@internal
def join(w, inst, r):
    """Request `r`, past its first token and with one token to compute, becomes a member."""
    req = requests(w)[r]
    push_due(w, inst, inst.ticks + req.osl - req.generated, r)
    append_residue(w, inst, residue_of(inst, req.computed, inst.ticks), r)
    key = req.computed - inst.ticks
    inst.cohort_min = key if inst.cohort == 0 else min(inst.cohort_min, key)
    inst.cohort_max = key if inst.cohort == 0 else max(inst.cohort_max, key)
    fresh(w)[inst.running_base + inst.n_fresh] = r
    inst.n_fresh += 1
    req.joined = inst.ticks
    inst.cohort += 1
    inst.cohort_tokens += req.computed


@internal
def bring_up_to_date(w, inst, r):
    """Give member `r` the tokens that it has got since it joined."""
    req = requests(w)[r]
    got = inst.ticks - req.joined
    req.joined = -1
    if got == 0:
        return
    req.computed += got
    req.reached += got
    req.generated += got
    req.last_token = inst.last_tick
    if inst.identify == 0:
        req.blocks = max(req.blocks, ceil_div(req.computed, inst.block_size))


@internal
def leave_first(w, inst):
    """Take the member that ends first out of the cohort, up to date; returns it."""
    r = pop_due(w, inst)
    req = requests(w)[r]
    key = req.computed - req.joined
    remove_residue(w, inst, residue_of(inst, req.computed, req.joined), r)
    bring_up_to_date(w, inst, r)
    inst.cohort -= 1
    inst.cohort_tokens -= req.computed
    if inst.pricer == PRICE_TABLES and (key == inst.cohort_min or key == inst.cohort_max):
        find_extremes(w, inst)
    return r


@internal
def find_extremes(w, inst):
    """Least and most of tokens - ticks over the members."""
    for k in range(inst.cohort):
        req = requests(w)[due(w)[inst.running_base + k, 2]]
        key = req.computed - req.joined
        inst.cohort_min = key if k == 0 else min(inst.cohort_min, key)
        inst.cohort_max = key if k == 0 else max(inst.cohort_max, key)


@internal
def disband(w, inst):
    """Bring every member up to date: all who run go by themselves again."""
    for k in range(inst.cohort):
        bring_up_to_date(w, inst, due(w)[inst.running_base + k, 2])
    for k in range(inst.block_size):
        residues(w)[inst.residue_base + k].count = 0
    inst.cohort = 0
    inst.cohort_tokens = 0
    inst.n_fresh = 0
    inst.n_loners = inst.n_running
    for j in range(inst.n_running):
        loners(w)[inst.running_base + j] = running(w)[inst.running_base + j]


@internal
def blocks_due(w, inst):
    """Blocks that the members need for their next token."""
    return residues(w)[inst.residue_base + residue_of(inst, 0, inst.ticks)].count


@internal
def serve_members(w, inst, b):
    """Give every member its block and put the cohort into batch `b`; the blocks are there."""
    batch = batches(w)[b]
    needed = residues(w)[inst.residue_base + residue_of(inst, 0, inst.ticks)]
    if inst.identify == 0:
        inst.n_free -= needed.count
        inst.peak_blocks = max(inst.peak_blocks, inst.n_blocks - inst.n_free)
    elif needed.count > 0:
        r = needed.head
        while r >= 0:
            req = requests(w)[r]
            grow(w, inst, r, req.computed + inst.ticks - req.joined + 1)
            r = req.next
    filled = residues(w)[inst.residue_base + residue_of(inst, 0, inst.ticks + 1)]
    if inst.caching == 1 and filled.count > 0:
        r = filled.head
        while r >= 0:
            req = requests(w)[r]
            index_full(w, inst, r, req.computed + inst.ticks - req.joined + 1)
            r = req.next
    least, most = inst.cohort_min + inst.ticks, inst.cohort_max + inst.ticks
    batch.kv_min = least if batch.n_decode == 0 else min(batch.kv_min, least)
    batch.kv_max = max(batch.kv_max, most)
    batch.kv_sum += inst.cohort_tokens
    batch.n_decode += inst.cohort
    batch.tokens += inst.cohort
    batch.seqs += inst.cohort
    batch.cohort = inst.cohort


@internal
def tick(w, i, inst, now):
    """Every member has its token at `now`; those that end stay in the heap's top for `leave_first`."""
    if token_ns(w).size > 0:
        for k in range(inst.cohort):
            req = requests(w)[due(w)[inst.running_base + k, 2]]
            token_ns(w)[req.token0 + req.generated + inst.ticks - req.joined] = now
    for k in range(inst.n_fresh):
        count_gap(w, i, now - requests(w)[fresh(w)[inst.running_base + k]].last_token, 1)
    if inst.cohort > inst.n_fresh:
        count_gap(w, i, now - inst.last_tick, inst.cohort - inst.n_fresh)
    inst.n_fresh = 0
    inst.last_tick = now
    inst.ticks += 1
    inst.cohort_tokens += inst.cohort
    inst.generated += inst.cohort


@internal
def has_ended(w, inst):
    """Whether the member that ends first has all its tokens."""
    return inst.cohort > 0 and due(w)[inst.running_base, 0] <= inst.ticks


@internal
def gather(w, inst):
    """Loners that decode from now on join; the others stay, in order."""
    base, kept = inst.running_base, 0
    for j in range(inst.n_loners):
        r = loners(w)[base + j]
        req = requests(w)[r]
        if req.initial == 0 and req.reached - req.computed == 1:
            join(w, inst, r)
        else:
            loners(w)[base + kept] = r
            kept += 1
    inst.n_loners = kept
