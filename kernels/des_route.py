"""Which instance takes a request: decided when it arrives, from the live state of the queues."""

import numpy as np

from kernels.des_blocks import ceil_div, grow, release
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
    heap,
    instances,
    requests,
    running,
)
from kernels.des_random import uniform
from kernels.des_schedule import push_back
from kernels.jit import internal


@internal
def next_arrival_ns(w):
    """When the next request arrives, NEVER if none is due to."""
    time = NEVER
    if w.next_arrival < w.n_static:
        time = requests(w)[w.next_arrival].arrival
    if w.heap_size > 0 and heap(w)[0, 0] < time:
        time = heap(w)[0, 0]
    return time


@internal
def take_arrival(w):
    """Remove and return the next request that arrives."""
    if w.heap_size > 0 and (
        w.next_arrival >= w.n_static or heap(w)[0, 0] < requests(w)[w.next_arrival].arrival
    ):
        return pop_release(w)
    w.next_arrival += 1
    return w.next_arrival - 1


@internal
def serves(inst, decode):
    """Whether an instance takes new requests (decode False) or handed-over ones (True)."""
    return inst.role == DECODE if decode else inst.role != DECODE


@internal
def choose(w, decode):
    """Instance for the next request, -1 if none is of the kind.

    LOAD: least (4 waiting + running) / max_num_seqs, ties to the next in rotation; RR: in turn; RAND: uniform.
    """
    n = instances(w).size
    count = 0
    for i in range(n):
        count += serves(instances(w)[i], decode)
    if count == 0:
        return -1
    rotation = w.rotation_decode if decode else w.rotation_new
    wanted = rotation % count
    if w.policy == ROUTE_LOAD:
        best, best_rank = np.inf, wanted
        for step in range(count):
            rank = (rotation + step) % count
            inst = instances(w)[nth(w, rank, decode)]
            score = (4.0 * inst.n_waiting + inst.n_running) / inst.max_seqs
            if score < best:
                best, best_rank = score, rank
        wanted = best_rank
    elif w.policy != ROUTE_RR:
        wanted = int(uniform(w) * count)
    if decode:
        w.rotation_decode = wanted + 1
    else:
        w.rotation_new = wanted + 1
    return nth(w, wanted, decode)


@internal
def nth(w, rank, decode):
    """Index of the instance of this kind with `rank` others before it."""
    seen = 0
    for i in range(instances(w).size):
        if serves(instances(w)[i], decode):
            if seen == rank:
                return i
            seen += 1
    return -1


@internal
def why_impossible(w, inst, r):
    """Reason code if this instance could never finish request `r`, else 0."""
    req = requests(w)[r]
    total = req.isl + req.osl
    if 0 < inst.max_len < total:
        return TOO_LONG_FOR_CONTEXT
    held = total - 1 if inst.role != PREFILL else req.isl
    if ceil_div(held, inst.block_size) > inst.n_blocks or 0 < inst.kv_pool_tokens < total:
        return TOO_LONG_FOR_POOL
    if inst.chunked == 0 and req.isl > inst.budget and inst.threshold == 0:
        return PROMPT_OVER_BUDGET
    return 0


@internal
def reject(w, r, reason, now):
    """Report request `r` as rejected, and with it the rest of its session; a client goes on with its next one."""
    req = requests(w)[r]
    req.state = REJECTED
    req.reason = reason
    req.finish = now
    w.n_done += 1
    w.n_rejected += 1
    follower = req.next_in_session
    req.next_in_session = -1
    while follower >= 0:
        turn = requests(w)[follower]
        turn.state = REJECTED
        turn.reason = SESSION_BROKEN
        turn.arrival = now
        turn.finish = now
        w.n_done += 1
        w.n_rejected += 1
        follower = turn.next_in_session
    release_followers(w, r, now)


@internal
def join_decode(w, i, r):
    """Put a handed-over request straight into the running set of instance `i` (compat mode); False if it does not fit."""
    inst, req = instances(w)[i], requests(w)[r]
    if inst.n_running >= inst.running_cap or not grow(w, inst, r, req.computed + 1):
        return False
    req.state = RUNNING
    running(w)[inst.running_base + inst.n_running] = r
    inst.n_running += 1
    inst.reserved_tokens += req.isl + req.osl
    return True


@internal
def route(w, now):
    """Hand every request that has arrived by `now` to an instance."""
    while next_arrival_ns(w) <= now:
        r = take_arrival(w)
        req = requests(w)[r]
        handed_over = req.state == HANDED_OVER
        i = choose(w, handed_over)
        if i < 0:
            if handed_over:
                release(w, instances(w)[req.prefill_instance], r)
            reject(w, r, NO_INSTANCE, now)
            continue
        inst = instances(w)[i]
        req.instance = i
        if handed_over and w.compat == 1 and join_decode(w, i, r):
            continue
        if not handed_over:
            req.state = PENDING
            req.reached = req.isl
            req.initial = 1
            req.computed = req.isl - 1 if inst.skip_prefill == 1 else 0
        reason = why_impossible(w, inst, r)
        if reason > 0:
            if handed_over:
                release(w, instances(w)[req.prefill_instance], r)
            reject(w, r, reason, now)
            continue
        inst.n_requests += 1
        push_back(w, inst, r)
