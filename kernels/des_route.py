"""Which instance takes a request: decided when it arrives, from the live state of the queues."""

import numpy as np

from kernels import routing
from kernels.des_blocks import ceil_div, count_hits, grow, release
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
    ROUTE_CUSTOM,
    ROUTE_KV,
    ROUTE_LEAST,
    ROUTE_LOAD,
    ROUTE_PREFIX,
    ROUTE_RAND,
    RUNNING,
    SESSION_BROKEN,
    TOO_LONG_FOR_CONTEXT,
    TOO_LONG_FOR_POOL,
    heap,
    instances,
    order,
    requests,
)
from kernels.des_random import uniform
from kernels.des_schedule import push_back, start_running
from kernels.jit import internal
from kernels.once import compiled_once


@internal
def next_arrival_ns(w):
    """When the next request arrives, NEVER if none is due to."""
    time = NEVER
    if w.next_arrival < w.n_static:
        time = requests(w)[order(w)[w.next_arrival]].arrival + w.request_overhead_ns
    if w.heap_size > 0 and heap(w)[0, 0] < time:
        time = heap(w)[0, 0]
    return time


@internal
def heap_first(w):
    """Whether the next arrival is a released request rather than the next of the trace."""
    return w.heap_size > 0 and (
        w.next_arrival >= w.n_static
        or heap(w)[0, 0] < requests(w)[order(w)[w.next_arrival]].arrival + w.request_overhead_ns
    )


@internal
def take_arrival(w):
    """Remove and return the next request that arrives."""
    if heap_first(w):
        return pop_release(w)
    w.next_arrival += 1
    return order(w)[w.next_arrival - 1]


@internal
def next_request(w):
    """The next request that arrives, without removing it."""
    if heap_first(w):
        return heap(w)[0, 1]
    return order(w)[w.next_arrival]


@internal
def must_ask(w):
    """Whether the next arrival waits for a custom policy's answer; handed-over requests go round."""
    return requests(w)[next_request(w)].state != HANDED_OVER


@internal
def serves(inst, decode):
    """Whether an instance takes new requests (decode False) or handed-over ones (True)."""
    return inst.role == DECODE if decode else inst.role != DECODE


@internal
def n_serving(w, decode):
    """Instances that take requests of this kind."""
    count = 0
    for i in range(instances(w).size):
        count += serves(instances(w)[i], decode)
    return count


@internal
def loads(w, decode, n):
    """Load of every instance of this kind: (4 waiting + running) / max_num_seqs for LOAD, else waiting + running."""
    load = np.empty(n)
    for rank in range(n):
        inst = instances(w)[nth(w, rank, decode)]
        if w.policy == ROUTE_LOAD:
            load[rank] = (4.0 * inst.n_waiting + inst.n_running) / inst.max_seqs
        else:
            load[rank] = inst.n_waiting + inst.n_running
    return load


@internal
def held_blocks(w, r, decode, n):
    """Leading blocks of request `r` that each instance of this kind can find now."""
    hits = np.empty(n, np.int64)
    for rank in range(n):
        hits[rank] = count_hits(w, instances(w)[nth(w, rank, decode)], r)
    return hits


@internal
def busy_blocks(w, decode, n):
    """KV blocks that each instance of this kind has promised: held by running requests, and asked for by its queue."""
    busy = np.empty(n, np.int64)
    for rank in range(n):
        inst = instances(w)[nth(w, rank, decode)]
        busy[rank] = inst.n_blocks - inst.n_free + ceil_div(inst.queued_tokens, inst.block_size)
    return busy


@internal
def pick(w, r, decode, n, rotation):
    """Which of `n` instances takes request `r`, by the run's policy (`kernels.routing`)."""
    if w.policy == ROUTE_LOAD or w.policy == ROUTE_LEAST:
        return routing.rotating_least(loads(w, decode, n), rotation)
    if w.policy == ROUTE_RAND:
        return routing.at_random(n, uniform(w))
    if w.policy == ROUTE_PREFIX:
        return routing.prefix_aware(held_blocks(w, r, decode, n), loads(w, decode, n), rotation)
    if w.policy == ROUTE_KV:
        block_size = instances(w)[nth(w, 0, decode)].block_size
        blocks_asked = ceil_div(requests(w)[r].isl, block_size)
        return routing.kv(held_blocks(w, r, decode, n), blocks_asked, busy_blocks(w, decode, n), rotation)
    if w.policy == ROUTE_CUSTOM and not decode:
        wanted = w.answer
        w.answer = -1
        return min(max(wanted, 0), n - 1)
    return routing.in_turn(n, rotation)


@internal
def choose(w, r, decode):
    """Instance for request `r`, -1 if none is of the kind. All policies see the live state; ties go round."""
    n = n_serving(w, decode)
    if n == 0:
        return -1
    rank = pick(w, r, decode, n, w.rotation_decode if decode else w.rotation_new)
    if decode:
        w.rotation_decode = (rank + 1) % n
    else:
        w.rotation_new = (rank + 1) % n
    return nth(w, rank, decode)


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
    if inst.spec_tokens > 0:
        held += 1
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
    start_running(w, inst, r)
    inst.reserved_tokens += req.isl + req.osl
    return True


@compiled_once()
def route(w, now):
    """Hand every request that has arrived by `now` to an instance."""
    while next_arrival_ns(w) <= now:
        if w.policy == ROUTE_CUSTOM and w.answer < 0 and must_ask(w):
            return
        r = take_arrival(w)
        req = requests(w)[r]
        handed_over = req.state == HANDED_OVER
        if not handed_over:
            req.reached = req.isl
        i = choose(w, r, handed_over)
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
