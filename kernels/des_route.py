"""Which instance takes a request: decided when it arrives, from the live state of the queues."""

import numpy as np

from kernels.des_complete import pop_release, release_followers
from kernels.des_layout import (
    DECODE,
    HANDED_OVER,
    NEVER,
    NO_INSTANCE,
    PENDING,
    PREFILL,
    PROMPT_OVER_BUDGET,
    REJECTED,
    ROUTE_LOAD,
    ROUTE_RR,
    RUNNING,
    SESSION_BROKEN,
    TOO_LONG_FOR_CONTEXT,
    TOO_LONG_FOR_POOL,
)
from kernels.des_blocks import ceil_div, grow, release
from kernels.des_random import uniform
from kernels.des_schedule import push_back
from kernels.jit import kernel


@kernel
def next_arrival_ns(w):
    """When the next request arrives, NEVER if none is due to."""
    clock = w.clock[0]
    time = NEVER
    if clock.next_arrival < clock.n_static:
        time = w.req[clock.next_arrival].arrival
    if clock.heap_size > 0 and w.heap[0, 0] < time:
        time = w.heap[0, 0]
    return time


@kernel
def take_arrival(w):
    """Remove and return the next request that arrives."""
    clock = w.clock[0]
    if clock.heap_size > 0 and (
        clock.next_arrival >= clock.n_static or w.heap[0, 0] < w.req[clock.next_arrival].arrival
    ):
        return pop_release(w)
    clock.next_arrival += 1
    return clock.next_arrival - 1


@kernel
def serves(inst, decode):
    """Whether an instance takes new requests (decode False) or handed-over ones (True)."""
    return inst.role == DECODE if decode else inst.role != DECODE


@kernel
def choose(w, decode):
    """Instance for the next request, -1 if none is of the kind.

    LOAD: least (4 waiting + running) / max_num_seqs, ties to the next in rotation; RR: in turn; RAND: uniform.
    """
    clock = w.clock[0]
    n = w.inst.size
    count = 0
    for i in range(n):
        count += serves(w.inst[i], decode)
    if count == 0:
        return -1
    rotation = clock.rotation_decode if decode else clock.rotation_new
    wanted = rotation % count
    if clock.policy == ROUTE_LOAD:
        best, best_rank = np.inf, wanted
        for step in range(count):
            rank = (rotation + step) % count
            inst = w.inst[nth(w, rank, decode)]
            score = (4.0 * inst.n_waiting + inst.n_running) / inst.max_seqs
            if score < best:
                best, best_rank = score, rank
        wanted = best_rank
    elif clock.policy != ROUTE_RR:
        wanted = int(uniform(w.clock) * count)
    if decode:
        clock.rotation_decode = wanted + 1
    else:
        clock.rotation_new = wanted + 1
    return nth(w, wanted, decode)


@kernel
def nth(w, rank, decode):
    """Index of the instance of this kind with `rank` others before it."""
    seen = 0
    for i in range(w.inst.size):
        if serves(w.inst[i], decode):
            if seen == rank:
                return i
            seen += 1
    return -1


@kernel
def why_impossible(w, inst, r):
    """Reason code if this instance could never finish request `r`, else 0."""
    req = w.req[r]
    total = req.isl + req.osl
    if 0 < inst.max_len < total:
        return TOO_LONG_FOR_CONTEXT
    held = total - 1 if inst.role != PREFILL else req.isl
    if ceil_div(held, inst.block_size) > inst.n_blocks or 0 < inst.kv_pool_tokens < total:
        return TOO_LONG_FOR_POOL
    if inst.chunked == 0 and req.isl > inst.budget and inst.threshold == 0:
        return PROMPT_OVER_BUDGET
    return 0


@kernel
def reject(w, r, reason, now):
    """Report request `r` as rejected, and with it the rest of its session; a client goes on with its next one."""
    clock = w.clock[0]
    req = w.req[r]
    req.state = REJECTED
    req.reason = reason
    req.finish = now
    clock.n_done += 1
    clock.n_rejected += 1
    follower = req.next_in_session
    req.next_in_session = -1
    while follower >= 0:
        turn = w.req[follower]
        turn.state = REJECTED
        turn.reason = SESSION_BROKEN
        turn.arrival = now
        turn.finish = now
        clock.n_done += 1
        clock.n_rejected += 1
        follower = turn.next_in_session
    release_followers(w, r, now)


@kernel
def join_decode(w, i, r):
    """Put a handed-over request straight into the running set of instance `i` (compat mode); False if it does not fit."""
    inst, req = w.inst[i], w.req[r]
    if inst.n_running >= inst.running_cap or not grow(w, inst, r, req.computed + 1):
        return False
    req.state = RUNNING
    w.running[inst.running_base + inst.n_running] = r
    inst.n_running += 1
    inst.reserved_tokens += req.isl + req.osl
    return True


@kernel
def route(w, now):
    """Hand every request that has arrived by `now` to an instance."""
    while next_arrival_ns(w) <= now:
        r = take_arrival(w)
        req = w.req[r]
        handed_over = req.state == HANDED_OVER
        i = choose(w, handed_over)
        if i < 0:
            if handed_over:
                release(w, w.inst[req.prefill_instance], r)
            reject(w, r, NO_INSTANCE, now)
            continue
        inst = w.inst[i]
        req.instance = i
        if handed_over and w.clock[0].compat == 1 and join_decode(w, i, r):
            continue
        if not handed_over:
            req.state = PENDING
            req.reached = req.isl
            req.initial = 1
            req.computed = req.isl - 1 if inst.skip_prefill == 1 else 0
        reason = why_impossible(w, inst, r)
        if reason > 0:
            if handed_over:
                release(w, w.inst[req.prefill_instance], r)
            reject(w, r, reason, now)
            continue
        inst.n_requests += 1
        push_back(w, inst, r)
