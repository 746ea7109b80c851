"""One scheduling decision of a vLLM-V1-like engine.

There is no prefill or decode phase: every request needs `reached - computed` tokens. Running requests are served in
admission order while the token budget lasts; when a block is missing the youngest running request is
preempted (its KV is recomputed later). If nothing was preempted, the head of the waiting list is admitted while
budget, sequences and blocks allow; admission never preempts and never looks past the head.
"""

from kernels.des_blocks import ceil_div, count_hits, count_idle_hits, grow, index_full, pin_hits, release
from kernels.des_cohort import blocks_due, disband, serve_members
from kernels.des_layout import RUNNING, WAITING, batches, instances, items, loners, requests, running
from kernels.des_tier import count_recalled
from kernels.jit import internal
from kernels.once import compiled_once


@internal
def push_back(w, inst, r):
    """Queue request `r` behind the others."""
    requests(w)[r].next = -1
    requests(w)[r].state = WAITING
    if inst.waiting_tail >= 0:
        requests(w)[inst.waiting_tail].next = r
    else:
        inst.waiting_head = r
    inst.waiting_tail = r
    inst.n_waiting += 1
    inst.queued_tokens += requests(w)[r].reached


@internal
def push_front(w, inst, r):
    """Queue request `r` before the others (a preempted one)."""
    requests(w)[r].next = inst.waiting_head
    requests(w)[r].state = WAITING
    inst.waiting_head = r
    if inst.waiting_tail < 0:
        inst.waiting_tail = r
    inst.n_waiting += 1
    inst.queued_tokens += requests(w)[r].reached


@internal
def pop_front(w, inst):
    """Take the head of the waiting list."""
    r = inst.waiting_head
    inst.waiting_head = requests(w)[r].next
    if inst.waiting_head < 0:
        inst.waiting_tail = -1
    inst.n_waiting -= 1
    inst.queued_tokens -= requests(w)[r].reached
    return r


@internal
def start_running(w, inst, r):
    """Put request `r` at the end of the running ones."""
    running(w)[inst.running_base + inst.n_running] = r
    inst.n_running += 1
    if inst.cohorts == 1:
        loners(w)[inst.running_base + inst.n_loners] = r
        inst.n_loners += 1


@internal
def preempt_last(w, inst):
    """Push the youngest running request back to the head of the waiting list; returns it."""
    inst.n_running -= 1
    r = running(w)[inst.running_base + inst.n_running]
    release(w, inst, r)
    req = requests(w)[r]
    req.computed = 0
    req.preemptions += 1
    inst.n_loners -= inst.cohorts
    inst.n_preempted += 1
    inst.reserved_tokens -= req.isl + req.osl
    push_front(w, inst, r)
    return r


@internal
def open_batch(w, i, now):
    """An empty batch of instance `i`."""
    inst = instances(w)[i]
    b = inst.batch_base + inst.next_batch
    batch = batches(w)[b]
    batch.instance = i
    batch.start = now
    batch.n_items = 0
    batch.dummy = 0
    batch.cohort = 0
    batch.tokens = 0
    batch.seqs = 0
    batch.prefill_seqs = 0
    batch.chunk = 0
    batch.kv_prefill = 0
    batch.n_decode = 0
    batch.kv_sum = 0
    batch.kv_min = 0
    batch.kv_max = 0
    batch.kv_load_bytes = 0
    batch.pd_tokens = 0
    return b


@internal
def add_item(w, inst, b, r, n_tokens, decoding):
    """Schedule `n_tokens` tokens of request `r`: it counts as computed from now on."""
    batch = batches(w)[b]
    req = requests(w)[r]
    item = items(w)[inst.item_base + inst.next_batch * inst.running_cap + batch.n_items]
    prior = req.computed
    item.request = r
    item.tokens = n_tokens
    item.prior = prior
    item.decoding = decoding
    item.epoch = req.preemptions
    batch.n_items += 1
    batch.tokens += n_tokens
    batch.seqs += 1
    if decoding == 1:
        batch.kv_min = prior if batch.n_decode == 0 else min(batch.kv_min, prior)
        batch.kv_max = max(batch.kv_max, prior)
        batch.kv_sum += prior
        batch.n_decode += 1
    else:
        batch.prefill_seqs += 1
        batch.chunk += n_tokens
        batch.kv_prefill += prior
    req.computed = prior + n_tokens
    if req.initial == 1:
        req.queued = batch.start - req.arrival


@internal
def wanted_tokens(inst, req, budget):
    """Tokens that a running request may take this step (drafts included while it decodes)."""
    need = req.reached - req.computed
    if need == 1 and inst.spec_tokens > 0 and req.initial == 0:
        return min(1 + min(inst.spec_tokens, req.isl + req.osl - req.reached - 1), budget)
    if 0 < inst.threshold < need:
        need = inst.threshold
    return min(need, budget)


@internal
def most_decoding(inst):
    """Decoding sequences of one batch: all, or an even share of the running ones per stage (`micro_batch` -1)."""
    if inst.micro_batch > 0:
        return inst.micro_batch
    return (inst.n_running + inst.pp - 1) // inst.pp if inst.micro_batch < 0 else inst.n_running


@internal
def serve_running(w, inst, b, budget, prefill_only):
    """Running phase, one request after the other. Returns the budget left, or -1 when a request was preempted."""
    preempted = False
    batch, most = batches(w)[b], most_decoding(inst)
    j = 0
    while j < inst.n_running and budget > 0:
        r = running(w)[inst.running_base + j]
        j += 1
        req = requests(w)[r]
        need = req.reached - req.computed
        decoding = 1 if need == 1 else 0
        if need <= 0 or (decoding == 1 and (prefill_only or batch.n_decode >= most)):
            continue
        k = wanted_tokens(inst, req, budget)
        if req.computed + k > req.blocks * inst.block_size:
            victim = -1
            while victim != r and not grow(w, inst, r, req.computed + k):
                victim = preempt_last(w, inst)
                preempted = True
            if victim == r:
                break
        index_full(w, inst, r, min(req.computed + k, req.reached))
        add_item(w, inst, b, r, k, 1 if k == 1 else decoding)
        budget -= k
    return -1 if preempted else budget


@internal
def serve_apart(w, inst, b, budget, prefill_only):
    """Running phase of an instance with a cohort: its members, then the others in order. Returns the budget left.

    -1 where tokens or blocks do not suffice for all: nothing was done, and the cohort has disbanded.
    """
    members = 0 if prefill_only else inst.cohort
    left = budget - members
    blocks = blocks_due(w, inst) if members > 0 else 0
    for j in range(inst.n_loners):
        req = requests(w)[loners(w)[inst.running_base + j]]
        if left > 0 and not (prefill_only and req.reached - req.computed == 1):
            k = wanted_tokens(inst, req, left)
            blocks += max(0, ceil_div(req.computed + k, inst.block_size) - req.blocks)
            left -= k
    if members > budget or blocks > inst.n_free:
        disband(w, inst)
        return -1
    if members > 0:
        serve_members(w, inst, b)
    left = budget - members
    for j in range(inst.n_loners):
        r = loners(w)[inst.running_base + j]
        req = requests(w)[r]
        decoding = 1 if req.reached - req.computed == 1 else 0
        if left > 0 and not (prefill_only and decoding == 1):
            k = wanted_tokens(inst, req, left)
            grow(w, inst, r, req.computed + k)
            index_full(w, inst, r, min(req.computed + k, req.reached))
            add_item(w, inst, b, r, k, 1 if k == 1 else decoding)
            left -= k
    return left


@internal
def serve(w, inst, b, budget, prefill_only):
    """Running phase. Returns the budget left, or -1 when a request was preempted."""
    if inst.cohorts == 1:
        left = serve_apart(w, inst, b, budget, prefill_only)
        if left >= 0:
            return left
    return serve_running(w, inst, b, budget, prefill_only)


@internal
def try_admit(w, inst, b, budget):
    """Admit the head of the waiting list with up to `budget` tokens; returns the tokens it took, 0 if none.

    Whole-sequence gate (`reserve`): blocks of everything reached so far must be free, not only this
    chunk's; without it chunked prefill admits more than fits and thrashes.
    """
    r = inst.waiting_head
    req = requests(w)[r]
    hits = count_hits(w, inst, r) if req.computed == 0 else 0
    recalled = count_recalled(w, inst, r, hits) if req.computed == 0 else 0
    base = req.computed + (hits + recalled) * inst.block_size
    need = req.reached - base
    k = need
    if 0 < inst.threshold < k:
        k = inst.threshold
    # a resumed request may have grown beyond the budget: it must not wait for ever
    if inst.chunked == 0 and k > budget and (req.preemptions == 0 or budget < inst.budget):
        return 0
    k = min(k, budget)
    if k <= 0:
        return 0
    if inst.kv_pool_tokens > 0 and inst.reserved_tokens + req.isl + req.osl > inst.kv_pool_tokens:
        return 0
    idle_hits = count_idle_hits(w, inst, r, hits)
    horizon = max(req.reached, base) if inst.reserve == 1 else base + k
    if ceil_div(max(horizon, base + k), inst.block_size) - hits + idle_hits > inst.n_free:
        return 0
    if req.prefill_instance >= 0 and req.blocks > 0:
        release(w, instances(w)[req.prefill_instance], r)
    if hits > 0:
        pin_hits(w, inst, r, hits)
    grow(w, inst, r, base + k)
    batches(w)[b].kv_load_bytes += recalled * inst.tier_block_bytes
    pop_front(w, inst)
    req.state = RUNNING
    start_running(w, inst, r)
    inst.reserved_tokens += req.isl + req.osl
    if req.preemptions > 0 and req.started >= 0:
        lost = max(0, req.reached - base)
        req.recomputed += lost
        inst.recomputed += lost
    if req.started < 0:
        req.started = batches(w)[b].start
        req.cached = (hits + recalled) * inst.block_size
        inst.hit_tokens += req.cached
        inst.recalled_tokens += recalled * inst.block_size
        inst.asked_tokens += req.isl
        batches(w)[b].pd_tokens += req.cached
    req.computed = base
    index_full(w, inst, r, min(base + k, req.reached))
    add_item(w, inst, b, r, k, 1 if k == 1 else 0)
    return k


@internal
def admit(w, inst, b, budget):
    """Admission phase."""
    admitted = 0
    while (
        budget > 0
        and inst.waiting_head >= 0
        and inst.n_running < inst.max_seqs
        and (inst.max_prefill_seqs == 0 or admitted < inst.max_prefill_seqs)
    ):
        k = try_admit(w, inst, b, budget)
        if k == 0:
            return
        budget -= k
        admitted += 1


@compiled_once()
def schedule(w, i, now):
    """Form the next batch of instance `i` at time `now`; returns its index, or -1 if nothing can run."""
    inst = instances(w)[i]
    if inst.n_running == 0 and inst.waiting_head < 0:
        return -1
    b = open_batch(w, i, now)
    batch = batches(w)[b]
    left = serve(w, inst, b, inst.budget, inst.exclusive_prefill == 1)
    if left > 0:
        admit(w, inst, b, left)
    if batch.tokens == 0 and inst.exclusive_prefill == 1:
        serve(w, inst, b, inst.budget, False)
    if batch.tokens == 0:
        return -1
    batch.pd_tokens += batch.tokens
    return b
