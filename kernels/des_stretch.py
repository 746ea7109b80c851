"""Decode-only stretches: steps between which nothing changes but context lengths.

While every running request takes exactly one token per step and nobody can be admitted, a step needs only the
batch's aggregates: decoding sequences, summed, least and most context. Requests are brought up to date
once, when the stretch ends: at the first finish, at the first block that is not there, or at an arrival.
"""

import numpy as np

from kernels.des_blocks import ceil_div, grow, index_full
from kernels.des_layout import PREFILL, batches, instances, items, requests, scratch, token_ns
from kernels.des_metrics import bucket_of, count_gap, log_step
from kernels.des_price import launch_one
from kernels.jit import internal


@internal
def first_item(inst, b):
    """Where the items of batch `b` start."""
    return inst.item_base + (b - inst.batch_base) * inst.running_cap


@internal
def steps_until_finish(w, inst, b):
    """Steps until the first request of the batch has all its tokens, this step included."""
    first = first_item(inst, b)
    least = np.int64(2**62)
    for j in range(batches(w)[b].n_items):
        req = requests(w)[items(w)[first + j].request]
        least = min(least, req.osl - req.generated)
    return least


@internal
def steps_within_pool(w, inst, b, most):
    """Steps (at most `most`) that the free blocks allow; the first one has its blocks already."""
    n, size = batches(w)[b].n_items, inst.block_size
    if n * ceil_div(most, size) <= inst.n_free:
        return most
    due = scratch(w)[:size]
    due[:] = 0
    first = first_item(inst, b)
    for j in range(n):
        req = requests(w)[items(w)[first + j].request]
        due[(size - req.computed % size) % size] += 1
    left = inst.n_free
    for extra in range(most - 1):
        left -= due[extra % size]
        if left < 0:
            return extra + 1
    return most


@internal
def begin(w, i, b):
    """Make batch `b`, just launched, the first step of a stretch if it qualifies."""
    inst, batch = instances(w)[i], batches(w)[b]
    inst.stretching = 0
    if (
        batch.calm == 0
        or inst.pp > 1
        or inst.group >= 0
        or inst.spec_tokens > 0
        or batch.n_decode != batch.n_items
        or inst.role == PREFILL
    ):
        return
    limit = steps_within_pool(w, inst, b, steps_until_finish(w, inst, b))
    if limit < 2:
        return
    first = first_item(inst, b)
    for j in range(batch.n_items):
        if requests(w)[items(w)[first + j].request].initial == 1:
            return
    inst.stretching = 1
    inst.stretch_steps = 1
    inst.stretch_limit = limit
    inst.idle_before = 1 if inst.waiting_head < 0 else 0


@internal
def advance(w, i, b):
    """End one step of a stretch and start the next; False when the stretch is over (its last step just ended)."""
    inst, batch = instances(w)[i], batches(w)[b]
    somebody_came = (inst.idle_before == 1 and inst.waiting_head >= 0) or inst.n_running != batch.n_items
    if inst.stretch_steps >= inst.stretch_limit or somebody_came:
        return False
    now, n = batch.end, batch.n_items
    log_step(w, b)
    first = first_item(inst, b)
    if inst.stretch_steps == 1:
        for j in range(n):
            count_gap(w, i, now - requests(w)[items(w)[first + j].request].last_token, 1)
    else:
        count_gap(w, i, now - batch.start, n)
    bucket_of(w, i, now).generated += n
    if token_ns(w).size > 0:
        for j in range(n):
            req = requests(w)[items(w)[first + j].request]
            token_ns(w)[req.token0 + req.generated + inst.stretch_steps - 1] = now
    inst.stretch_steps += 1
    batch.kv_sum += n
    batch.kv_min += 1
    batch.kv_max += 1
    launch_one(w, b, now)
    return True


@internal
def take_blocks(w, inst, b, extra):
    """Allocate and index the blocks of `extra` further tokens per request, in the order of the steps."""
    n, size = batches(w)[b].n_items, inst.block_size
    first = first_item(inst, b)
    if inst.identify == 0:
        for j in range(n):
            r = items(w)[first + j].request
            grow(w, inst, r, requests(w)[r].computed + extra)
        return
    head, follower = scratch(w)[:size], scratch(w)[size:]
    head[:] = -1
    for j in range(n - 1, -1, -1):
        residue = requests(w)[items(w)[first + j].request].computed % size
        follower[j] = head[residue]
        head[residue] = j
    for step in range(1, extra + 1):
        # a request that holds c tokens takes a block when c is a multiple of the size, and has filled
        # one when c + 1 is
        j = head[(size - (step - 1) % size) % size]
        while j >= 0:
            r = items(w)[first + j].request
            grow(w, inst, r, requests(w)[r].computed + step)
            j = follower[j]
        j = head[(size - step % size) % size]
        while j >= 0:
            r = items(w)[first + j].request
            index_full(w, inst, r, requests(w)[r].computed + step)
            j = follower[j]


@internal
def settle(w, i, b):
    """Bring the requests of a stretch up to date, all but the token of its last step."""
    inst, batch = instances(w)[i], batches(w)[b]
    extra = inst.stretch_steps - 1
    inst.stretching = 0
    if extra == 0:
        return
    take_blocks(w, inst, b, extra)
    first = first_item(inst, b)
    for j in range(batch.n_items):
        item = items(w)[first + j]
        item.prior += extra
        req = requests(w)[item.request]
        req.computed += extra
        req.reached += extra
        req.generated += extra
        req.last_token = batch.start
    inst.generated += extra * batch.n_items
