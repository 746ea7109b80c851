"""When the reference simulator notices an arrival (compat mode only).

It asks an idle engine for work only when its backend has an event: the end of a layer, message or transfer anywhere.
Without any event its clock jumps in ticks of a millisecond; a start-up alarm makes the first arrival exact.
"""

import numpy as np

from kernels import tables
from kernels.des_experts import expert_load
from kernels.des_graph import host_ns, linear_ns, sequence_ns, stage_layers
from kernels.des_layout import NEVER, all_tables, batches, instances
from kernels.des_network import ENDPOINT_NS, hop_ns, reduce_ns
from kernels.jit import internal
from kernels.once import compiled_once
from kernels.tables import moe_ns

MAX_EVENTS = 4096
"""Room for the events of one layer; a ring of n ranks has 4 (n - 1) + 2."""


@internal
def put_ring(inst, n_bytes, n_reduce, n_gather, out, n):
    """Events of a ring over the tensor-parallel ranks that all enter together: endpoint, arrival and work of each step."""
    if inst.tp <= 1:
        return n
    hop = hop_ns(n_bytes, inst.tp_latency, inst.tp_bytes_per_ns)
    work = reduce_ns(n_bytes, inst.reduce_bytes_per_ns)
    out[n] = ENDPOINT_NS
    n += 1
    for step in range(n_reduce + n_gather):
        out[n] = hop
        out[n + 1] = ENDPOINT_NS + (work if step < n_reduce else 0)
        n += 2
    return n


@internal
def put_linear(w, inst, layers, n_tokens, out, n):
    """Token-wise layers one after the other."""
    for layer in layers:
        out[n] = linear_ns(w, inst, layer, n_tokens)
        n += 1
    return n


@internal
def layer_events(w, batch, inst, out):
    """Times between the events of one layer, in order (layers, messages, experts); returns their number."""
    tokens = batch.tokens
    others = inst.tp - 1
    payload = tokens * inst.hidden * inst.elem_bytes
    n = put_linear(
        w, inst, (tables.LAYERNORM, tables.QKV_PROJ, tables.QK_NORM, tables.ROTARY_EMB), tokens, out, 0
    )
    out[n] = batch.attention_ns
    n = put_linear(w, inst, (tables.O_PROJ,), tokens, out, n + 1)
    n = put_ring(inst, payload / inst.tp, others, others, out, n)
    n = put_linear(w, inst, (tables.LAYERNORM,), tokens, out, n)
    if inst.is_moe == 0:
        n = put_linear(w, inst, (tables.GATE_UP_PROJ, tables.ACT_FN, tables.DOWN_PROJ), tokens, out, n)
        return put_ring(inst, payload / inst.tp, others, others, out, n)
    if inst.ep_total > 1:
        shard = max(1, tokens // inst.ep_total) * (inst.hidden + inst.n_experts) * inst.elem_bytes
        n = put_ring(inst, float(shard), 0, others, out, n)
    rows, activated = expert_load(w, inst, tokens, 0)
    out[n] = moe_ns(all_tables(w)[0], inst.table, rows, activated)
    n += 1
    if inst.ep_total > 1:
        n = put_ring(inst, payload / inst.tp, others, 0, out, n)
    return n


@internal
def first_event_ns(w, b, moment):
    """First end of something inside batch `b` at or after `moment`; the batch's own end if there is none before."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    steps = np.empty(MAX_EVENTS, np.int64)
    n_steps = layer_events(w, batch, inst, steps)
    layer_ns = steps[:n_steps].sum()
    boundary = hop_ns(batch.tokens * inst.hidden * inst.elem_bytes, inst.pp_latency, inst.pp_bytes_per_ns)
    now = batch.start + host_ns(inst, batch.tokens)
    if now >= moment:
        return now
    now += linear_ns(w, inst, tables.EMBEDDING, batch.tokens)
    if now >= moment:
        return now
    for stage in range(inst.pp):
        for _ in range(stage_layers(inst.n_layers, inst.pp, stage)):
            if now + layer_ns < moment:
                now += layer_ns
                continue
            for k in range(n_steps):
                now += steps[k]
                if now >= moment:
                    return now
        if stage < inst.pp - 1:
            now += boundary
            if now >= moment:
                return now
    now += linear_ns(w, inst, tables.FINAL_LAYERNORM, batch.tokens)
    if now < moment:
        now += sequence_ns(w, inst, tables.LM_HEAD, batch.seqs)
    if now < moment:
        now += sequence_ns(w, inst, tables.SAMPLER, batch.seqs)
    return now if now >= moment else max(batch.end, moment)


@compiled_once()
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
