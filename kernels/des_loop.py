"""The event loop: arrivals and ends of engine steps, in time order.

One turn takes the earliest event, routes what has arrived, applies the steps that ended, and lets every idle engine
schedule.
"""

from kernels.des_complete import complete
from kernels.des_layout import NEVER, ROUTE_CUSTOM, batches, events, instances, members
from kernels.des_metrics import bucket_of, log_step
from kernels.des_poll import poll_ns
from kernels.des_price import launch_one, launch_wave
from kernels.des_route import must_ask, next_arrival_ns, next_request, route
from kernels.des_schedule import open_batch, schedule
from kernels.jit import internal, kernel


@internal
def refresh_event(w, i):
    """Next thing that happens at instance `i`: a batch ends or, in a pipeline, the first stage gets free."""
    inst = instances(w)[i]
    soonest = NEVER
    for k in range(inst.pp):
        batch = batches(w)[inst.batch_base + k]
        if batch.live == 1:
            soonest = min(soonest, batch.end)
    if inst.n_inflight > 0 and inst.n_inflight < inst.pp and inst.lead_free > w.now:
        soonest = min(soonest, inst.lead_free)
    events(w)[i] = soonest


@internal
def commit(w, i, b):
    """Mark batch `b` as in flight."""
    inst, batch = instances(w)[i], batches(w)[b]
    batch.live = 1
    inst.n_inflight += 1
    inst.next_batch = (inst.next_batch + 1) % inst.pp
    inst.lead_free = batch.stage0_end
    inst.pending_batch = -1


@internal
def account(w, i, b):
    """Log the step that batch `b` was and count its tokens in the interval where it ended."""
    inst, batch = instances(w)[i], batches(w)[b]
    if batch.dummy == 1:
        return
    log_step(w, b)
    bucket = bucket_of(w, i, batch.end)
    generated, prompt = inst.generated, inst.prompt_tokens
    complete(w, b, batch.end)
    bucket.generated += inst.generated - generated
    bucket.prompt_tokens += inst.prompt_tokens - prompt
    bucket.running = inst.n_running
    bucket.waiting = inst.n_waiting
    bucket.blocks_used = inst.n_blocks - inst.n_free
    bucket.hit_tokens = inst.hit_tokens
    bucket.asked_tokens = inst.asked_tokens
    bucket.busy_ns += batch.end - batch.start


@internal
def retire(w, i, now):
    """Apply the batches of instance `i` that have ended by `now`, oldest first."""
    inst = instances(w)[i]
    for step in range(inst.pp):
        k = (inst.next_batch + step) % inst.pp
        b = inst.batch_base + k
        batch = batches(w)[b]
        if batch.live == 0 or batch.end > now:
            continue
        batch.live = 0
        inst.n_inflight -= 1
        account(w, i, b)
    refresh_event(w, i)


@internal
def is_free(w, i, now):
    """Whether instance `i` can take a batch at `now`."""
    inst = instances(w)[i]
    return (
        inst.n_inflight < inst.pp
        and inst.pending_batch < 0
        and (inst.n_inflight == 0 or inst.lead_free <= now)
    )


@internal
def dispatch(w, i, now):
    """Let a free instance schedule; members of a data-parallel group hold their batch for the others."""
    inst = instances(w)[i]
    b = schedule(w, i, now)
    if b < 0:
        return
    if inst.group >= 0:
        inst.pending_batch = b
        return
    launch_one(w, b, now)
    commit(w, i, b)
    refresh_event(w, i)


@internal
def open_dummy(w, i, now):
    """A batch of one token at context 1 that keeps an idle member in step with its group."""
    b = open_batch(w, i, now)
    batch = batches(w)[b]
    batch.dummy = 1
    batch.tokens = 1
    batch.seqs = 1
    batch.n_decode = 1
    batch.kv_sum = 1
    batch.kv_min = 1
    batch.kv_max = 1
    return b


@internal
def release_wave(w, group, now):
    """Start the batches of a data-parallel group once every member has one or is idle.

    All members are padded to the largest token count; padding is priced in the token-wise layers, not in attention.
    """
    n, pending, largest = 0, 0, 0
    for i in range(instances(w).size):
        if instances(w)[i].group != group:
            continue
        n += 1
        if instances(w)[i].pending_batch >= 0:
            pending += 1
            largest = max(largest, batches(w)[instances(w)[i].pending_batch].tokens)
        elif not is_free(w, i, now):
            return
    if pending == 0:
        return
    wave = members(w)
    m = 0
    for i in range(instances(w).size):
        if instances(w)[i].group != group:
            continue
        if instances(w)[i].pending_batch < 0:
            instances(w)[i].pending_batch = open_dummy(w, i, now)
        wave[m] = instances(w)[i].pending_batch
        batch = batches(w)[wave[m]]
        batch.seqs += largest - batch.tokens
        batch.tokens = largest
        m += 1
    launch_wave(w, n, now)
    for m in range(n):
        i = batches(w)[wave[m]].instance
        commit(w, i, wave[m])
        refresh_event(w, i)


@internal
def turn(w, now):
    """Everything that happens at `now`."""
    compat = w.compat == 1
    w.now = now

    route(w, now)
    for i in range(instances(w).size):
        if events(w)[i] <= now:
            retire(w, i, now)
    if not compat:
        route(w, now)
    grouped = False
    for i in range(instances(w).size):
        inst = instances(w)[i]
        if (inst.n_running > 0 or inst.waiting_head >= 0) and is_free(w, i, now):
            dispatch(w, i, now)
        grouped = grouped or inst.group >= 0
    if grouped:
        for i in range(instances(w).size):
            if instances(w)[i].group == i:
                release_wave(w, i, now)


@kernel
def run(world, max_turns):
    """Simulate up to `max_turns` turns; True when nothing is left to happen, False with `asked` set for a custom policy.

    With `more` set it stops, False, when the last request that it knows of has arrived: others follow.

    `world` has shape (1,) and dtype `kernels.des_layout.WORLD`.
    """
    w = world[0]
    for _ in range(max_turns):
        if w.more == 1 and w.next_arrival == w.n_static:
            return False
        arrival = next_arrival_ns(w)
        if w.compat == 1:
            arrival = poll_ns(w, arrival)
        now = min(arrival, events(w).min())
        if now == NEVER:
            return True
        if w.policy == ROUTE_CUSTOM and arrival <= now and w.answer < 0 and must_ask(w):
            w.asked = next_request(w)
            return False
        turn(w, max(now, w.now))
        w.n_events += 1
    return False
