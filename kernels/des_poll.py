"""When the reference simulator notices an arrival (compat mode only).

It asks an idle engine for work only when its backend has an event: the end of a layer, message or transfer anywhere.
Without any event its clock jumps in ticks of a millisecond; a start-up alarm makes the first arrival exact.
"""

import numpy as np

from kernels.des_experts import expert_load
from kernels.des_graph import host_ns, linear_ns, sequence_ns, stage_layers
from kernels.des_layout import NEVER, all_tables, batches, instances
from kernels.des_network import ENDPOINT_NS, hop_ns, reduce_ns
from kernels.jit import internal
from kernels.tables import (
    ACT_FN,
    DOWN_PROJ,
    EMBEDDING,
    FINAL_LAYERNORM,
    GATE_UP_PROJ,
    LAYERNORM,
    LM_HEAD,
    O_PROJ,
    QK_NORM,
    QKV_PROJ,
    ROTARY_EMB,
    SAMPLER,
    moe_ns,
)

N_LAYER_EVENTS = 12


@internal
def ring_ns(inst, n_bytes, n_reduce, n_gather, reduce):
    """A ring over the tensor-parallel ranks that all enter together, 0 for a single rank."""
    if inst.tp <= 1:
        return 0
    hop = hop_ns(n_bytes, inst.tp_latency, inst.tp_bytes_per_ns)
    work = reduce_ns(n_bytes, inst.reduce_bytes_per_ns) if reduce else 0
    return ENDPOINT_NS + n_reduce * (hop + ENDPOINT_NS + work) + n_gather * (hop + ENDPOINT_NS)


@internal
def layer_events(w, batch, inst, out):
    """Durations of what one layer does, in order: layers, collectives, experts."""
    tokens = batch.tokens
    others = inst.tp - 1
    payload = tokens * inst.hidden * inst.elem_bytes
    all_reduce = ring_ns(inst, payload / inst.tp, others, others, True)
    for k, layer in enumerate((LAYERNORM, QKV_PROJ, QK_NORM, ROTARY_EMB)):
        out[k] = linear_ns(w, inst, layer, tokens)
    out[4] = batch.attention_ns
    out[5] = linear_ns(w, inst, O_PROJ, tokens)
    out[6] = all_reduce
    out[7] = linear_ns(w, inst, LAYERNORM, tokens)
    if inst.is_moe == 0:
        for k, layer in enumerate((GATE_UP_PROJ, ACT_FN, DOWN_PROJ)):
            out[8 + k] = linear_ns(w, inst, layer, tokens)
        out[11] = all_reduce
        return
    shard = max(1, tokens // inst.ep_total) * (inst.hidden + inst.n_experts) * inst.elem_bytes
    rows, activated = expert_load(w, inst, tokens, 0)
    expert_parallel = inst.ep_total > 1
    out[8] = ring_ns(inst, shard, 0, others, False) if expert_parallel else 0
    out[9] = moe_ns(all_tables(w)[0], inst.table, rows, activated)
    out[10] = ring_ns(inst, payload / inst.tp, others, 0, True) if expert_parallel else 0
    out[11] = 0


@internal
def first_event_ns(w, b, moment):
    """First end of something inside batch `b` at or after `moment`; the batch's own end if there is none before."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    steps = np.empty(N_LAYER_EVENTS, np.int64)
    layer_events(w, batch, inst, steps)
    layer_ns = steps.sum()
    boundary = hop_ns(batch.tokens * inst.hidden * inst.elem_bytes, inst.pp_latency, inst.pp_bytes_per_ns)
    now = batch.start + host_ns(inst, batch.tokens)
    if now >= moment:
        return now
    now += linear_ns(w, inst, EMBEDDING, batch.tokens)
    if now >= moment:
        return now
    for stage in range(inst.pp):
        for _ in range(stage_layers(inst.n_layers, inst.pp, stage)):
            if now + layer_ns < moment:
                now += layer_ns
                continue
            for k in range(N_LAYER_EVENTS):
                now += steps[k]
                if now >= moment:
                    return now
        if stage < inst.pp - 1:
            now += boundary
            if now >= moment:
                return now
    now += linear_ns(w, inst, FINAL_LAYERNORM, batch.tokens)
    if now < moment:
        now += sequence_ns(w, inst, LM_HEAD, batch.seqs)
    if now < moment:
        now += sequence_ns(w, inst, SAMPLER, batch.seqs)
    return now if now >= moment else max(batch.end, moment)


@internal
def poll_ns(w, arrival):
    """First moment, not before `arrival`, at which an idle engine is asked for work; NEVER if none is idle."""
    if arrival == NEVER:
        return NEVER
    idle = False
    soonest = NEVER
    for i in range(instances(w).size):
        inst = instances(w)[i]
        free = inst.n_inflight < inst.pp and inst.pending_batch < 0
        idle = idle or (free and (inst.n_inflight == 0 or inst.lead_free <= w.now))
        for k in range(inst.pp):
            if batches(w)[inst.batch_base + k].live == 1:
                soonest = min(soonest, first_event_ns(w, inst.batch_base + k, max(arrival, w.now)))
    if not idle:
        return NEVER
    if soonest < NEVER:
        return soonest
    if arrival <= w.now:
        return w.now
    return w.now + (arrival - w.now + w.tick_ns - 1) // w.tick_ns * w.tick_ns
