"""End of an engine step: tokens appear, requests finish or move on."""

from kernels.des_blocks import release
from kernels.des_layout import FINISHED, HANDED_OVER, PREFILL, RUNNING
from kernels.des_metrics import count_gap
from kernels.des_random import uniform
from kernels.jit import inlined, kernel


@kernel
def push_release(w, time, r):
    """Have request `r` arrive at `time` (a binary heap ordered by time, then request)."""
    clock = w.clock[0]
    k = clock.heap_size
    clock.heap_size += 1
    while k > 0:
        parent = (k - 1) // 2
        if w.heap[parent, 0] < time or (w.heap[parent, 0] == time and w.heap[parent, 1] < r):
            break
        w.heap[k, 0] = w.heap[parent, 0]
        w.heap[k, 1] = w.heap[parent, 1]
        k = parent
    w.heap[k, 0] = time
    w.heap[k, 1] = r


@kernel
def pop_release(w):
    """Earliest released request."""
    clock = w.clock[0]
    top = w.heap[0, 1]
    clock.heap_size -= 1
    n = clock.heap_size
    time, r = w.heap[n, 0], w.heap[n, 1]
    k = 0
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and (
            w.heap[child + 1, 0] < w.heap[child, 0]
            or (w.heap[child + 1, 0] == w.heap[child, 0] and w.heap[child + 1, 1] < w.heap[child, 1])
        ):
            child += 1
        if time < w.heap[child, 0] or (time == w.heap[child, 0] and r < w.heap[child, 1]):
            break
        w.heap[k, 0] = w.heap[child, 0]
        w.heap[k, 1] = w.heap[child, 1]
        k = child
    w.heap[k, 0] = time
    w.heap[k, 1] = r
    return top


@kernel
def release_followers(w, r, now):
    """What waits for the end of request `r`: the next turn of its session, the closed-loop client's next one."""
    clock = w.clock[0]
    req = w.req[r]
    if req.next_in_session >= 0:
        follower = req.next_in_session
        w.req[follower].arrival = now + req.tool_ns
        push_release(w, now + req.tool_ns, follower)
    if clock.closed_loop == 1 and clock.n_released < clock.n_requests:
        follower = clock.n_released
        clock.n_released += 1
        w.req[follower].arrival = now
        push_release(w, now, follower)


@kernel
def finish(w, inst, r, now):
    """Request `r` has all its tokens."""
    req = w.req[r]
    release(w, inst, r)
    req.state = FINISHED
    req.finish = now
    inst.n_finished += 1
    inst.reserved_tokens -= req.isl + req.osl
    w.clock[0].n_done += 1
    release_followers(w, r, now)


@inlined
def emit_token(w, inst, i, req, now):
    """One output token of a request at `now`."""
    if req.generated == 0:
        req.first_token = now
    else:
        count_gap(w, i, now - req.last_token, 1)
    req.last_token = now
    if req.token0 >= 0:
        w.token_ns[req.token0 + req.generated] = now
    req.reached += 1
    req.generated += 1
    inst.generated += 1


@kernel
def accepted_drafts(w, inst, drafts):
    """Length of the accepted run of `drafts` draft tokens, each accepted with the same probability."""
    n = 0
    while n < drafts and uniform(w.clock) < inst.spec_acceptance:
        n += 1
    return n


@kernel
def hand_over(w, inst, i, r, now):
    """A prefill instance passes request `r` on: its KV travels, then a decode instance may take it.

    The egress link of the prefill instance carries one transfer at a time. Blocks stay taken until the decode
    side admits the request, so that a full decode pool holds prefill back. In `compat` mode the
    transfer was part of the step and blocks are free at once.
    """
    req = w.req[r]
    req.state = HANDED_OVER
    req.prefill_instance = i
    inst.reserved_tokens -= req.isl + req.osl
    inst.n_finished += 1
    if w.clock[0].compat == 1:
        release(w, inst, r)
        push_release(w, now, r)
        return
    start = max(now, inst.egress_free)
    n_bytes = req.isl * inst.transfer_bytes_per_token
    inst.egress_free = start + int(inst.pd_latency + n_bytes / inst.pd_bytes_per_ns)
    req.first_token = inst.egress_free
    req.last_token = inst.egress_free
    if req.token0 >= 0:
        w.token_ns[req.token0] = inst.egress_free
    push_release(w, inst.egress_free, r)


@kernel
def complete(w, b, now):
    """Apply batch `b`, which ended at `now`. A request may be in several batches in flight (pipeline)."""
    batch = w.batch[b]
    i = batch.instance
    inst = w.inst[i]
    first = inst.item_base + (b - inst.batch_base) * inst.running_cap
    gone = False
    for j in range(batch.n_items):
        item = w.items[first + j]
        r = item.request
        req = w.req[r]
        if req.state == FINISHED:
            continue
        if req.initial == 1 and req.computed >= req.isl:
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
            if req.computed >= req.reached:
                emit_token(w, inst, i, req, now)
        if req.generated >= req.osl:
            finish(w, inst, r, now)
            gone = True
    if gone:
        drop_gone(w, inst)


@kernel
def drop_gone(w, inst):
    """Close the gaps in the running list."""
    kept = 0
    for j in range(inst.n_running):
        r = w.running[inst.running_base + j]
        if w.req[r].state == RUNNING:
            w.running[inst.running_base + kept] = r
            kept += 1
    inst.n_running = kept
