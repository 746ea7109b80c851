"""End of an engine step: tokens appear, requests finish or move on."""

from kernels.des_blocks import release
from kernels.des_cohort import gather, has_ended, leave_first, tick
from kernels.des_layout import (
    FINISHED,
    HANDED_OVER,
    PREFILL,
    RUNNING,
    batches,
    heap,
    instances,
    items,
    loners,
    requests,
    running,
    token_ns,
)
from kernels.des_metrics import count_gap
from kernels.des_random import uniform
from kernels.jit import internal
from kernels.once import compiled_once


@internal
def push_release(w, time, r):
    """Have request `r` arrive at `time` (a binary heap ordered by time, then request)."""
    k = w.heap_size
    w.heap_size += 1
    while k > 0:
        parent = (k - 1) // 2
        if heap(w)[parent, 0] < time or (heap(w)[parent, 0] == time and heap(w)[parent, 1] < r):
            break
        heap(w)[k, 0] = heap(w)[parent, 0]
        heap(w)[k, 1] = heap(w)[parent, 1]
        k = parent
    heap(w)[k, 0] = time
    heap(w)[k, 1] = r


@internal
def pop_release(w):
    """Earliest released request."""
    top = heap(w)[0, 1]
    w.heap_size -= 1
    n = w.heap_size
    time, r = heap(w)[n, 0], heap(w)[n, 1]
    k = 0
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and (
            heap(w)[child + 1, 0] < heap(w)[child, 0]
            or (heap(w)[child + 1, 0] == heap(w)[child, 0] and heap(w)[child + 1, 1] < heap(w)[child, 1])
        ):
            child += 1
        if time < heap(w)[child, 0] or (time == heap(w)[child, 0] and r < heap(w)[child, 1]):
            break
        heap(w)[k, 0] = heap(w)[child, 0]
        heap(w)[k, 1] = heap(w)[child, 1]
        k = child
    heap(w)[k, 0] = time
    heap(w)[k, 1] = r
    return top


@internal
def release_followers(w, r, now):
    """What waits for the end of request `r`: the next turn of its session, the closed-loop client's next one."""
    req = requests(w)[r]
    if req.next_in_session >= 0:
        follower = req.next_in_session
        requests(w)[follower].arrival = now + req.tool_ns
        push_release(w, now + req.tool_ns + w.request_overhead_ns, follower)
    if w.closed_loop == 1 and w.n_released < w.n_requests:
        follower = w.n_released
        w.n_released += 1
        requests(w)[follower].arrival = now
        push_release(w, now + w.request_overhead_ns, follower)


@internal
def finish(w, inst, r, now):
    """Request `r` has all its tokens."""
    req = requests(w)[r]
    release(w, inst, r)
    req.state = FINISHED
    req.finish = now
    inst.n_finished += 1
    inst.reserved_tokens -= req.isl + req.osl
    w.n_done += 1
    release_followers(w, r, now)


@internal
def emit_token(w, inst, i, req, now):
    """One output token of a request at `now`."""
    if req.generated == 0:
        req.first_token = now
    else:
        count_gap(w, i, now - req.last_token, 1)
    req.last_token = now
    if req.token0 >= 0:
        token_ns(w)[req.token0 + req.generated] = now
    req.reached += 1
    req.generated += 1
    inst.generated += 1


@internal
def accepted_drafts(w, inst, drafts):
    """Length of the accepted run of `drafts` draft tokens, each accepted with the same probability."""
    n = 0
    while n < drafts and uniform(w) < inst.spec_acceptance:
        n += 1
    return n


@internal
def hand_over(w, inst, i, r, now):
    """A prefill instance passes request `r` on: its KV travels, then a decode instance may take it.

    The egress link of the prefill instance carries one transfer at a time. Blocks stay taken until the decode
    side admits the request, so that a full decode pool holds prefill back. In `compat` mode the
    transfer was part of the step and blocks are free at once.
    """
    req = requests(w)[r]
    req.state = HANDED_OVER
    req.prefill_instance = i
    inst.reserved_tokens -= req.isl + req.osl
    inst.n_finished += 1
    if w.compat == 1:
        release(w, inst, r)
        push_release(w, now, r)
        return
    start = max(now, inst.egress_free)
    n_bytes = req.isl * inst.transfer_bytes_per_token
    inst.egress_free = start + int(inst.pd_latency + n_bytes / inst.pd_bytes_per_ns)
    req.first_token = inst.egress_free
    req.last_token = inst.egress_free
    if req.token0 >= 0:
        token_ns(w)[req.token0] = inst.egress_free
    push_release(w, inst.egress_free, r)


@compiled_once()
def complete(w, b, now):
    """Apply batch `b`, which ended at `now`. A request may be in several batches in flight (pipeline)."""
    batch = batches(w)[b]
    i = batch.instance
    inst = instances(w)[i]
    first = inst.item_base + (b - inst.batch_base) * inst.running_cap
    if batch.cohort > 0:
        tick(w, i, inst, now)
        while has_ended(w, inst):
            r = leave_first(w, inst)
            finish(w, inst, r, now)
            stop_running(w, inst, r)
    gone = False
    for j in range(batch.n_items):
        item = items(w)[first + j]
        r = item.request
        req = requests(w)[r]
        if req.state == FINISHED or item.epoch != req.preemptions:
            continue
        # a later chunk may be in flight behind this one: it is not done yet (the reference counts it all the same)
        computed = req.computed if w.compat == 1 else item.prior + item.tokens
        if req.initial == 1 and computed >= req.isl:
            req.initial = 0
            inst.prompt_tokens += item.tokens + req.cached
            emit_token(w, inst, i, req, now)
            if inst.role == PREFILL and req.generated < req.osl:
                hand_over(w, inst, i, r, now)
                gone = True
                continue
        elif item.decoding == 1 and item.tokens > 1:
            run = accepted_drafts(w, inst, item.tokens - 1)
            for _ in range(1 + run):
                emit_token(w, inst, i, req, now)
            req.computed = item.prior + 1 + run
        else:
            if item.tokens > 1:
                inst.prompt_tokens += item.tokens
            if computed >= req.reached:
                emit_token(w, inst, i, req, now)
        if req.generated >= req.osl:
            finish(w, inst, r, now)
            gone = True
    if gone:
        inst.n_running = drop_gone(w, running(w), inst.running_base, inst.n_running)
        inst.n_loners = drop_gone(w, loners(w), inst.running_base, inst.n_loners)
    # with a block free for each of them, all can take a step together
    if inst.n_loners > 0 and inst.n_free >= inst.n_running:
        gather(w, inst)


@internal
def stop_running(w, inst, r):
    """Take request `r` out of the running list."""
    j = inst.running_base
    while running(w)[j] != r:
        j += 1
    inst.n_running -= 1
    while j < inst.running_base + inst.n_running:
        running(w)[j] = running(w)[j + 1]
        j += 1


@internal
def drop_gone(w, listed, base, n):
    """Close the gaps of those that no longer run in a list of `n` requests from `base` on; returns how many are left."""
    kept = 0
    for j in range(base, base + n):
        r = listed[j]
        if requests(w)[r].state == RUNNING:
            listed[base + kept] = r
            kept += 1
    return kept
