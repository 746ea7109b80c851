"""Sub-batch interleaving: half of a batch works on the accelerator while the other half's attention runs in memory.

The batch is cut in two halves of about equal tokens. On the accelerator one piece runs after the other:

    A: embedding, up to attention;  B: the same;  then for every layer boundary  A: after attention and up to the next
    one;  B: the same;  at last  A: after attention and head;  B: the same.

A half goes on when its own attention in memory is done; a memory channel works through what it is given, in order. Token-wise
layers run twice at half the tokens, so that small batches get slower (specification section 16.4).
"""

import numpy as np

from kernels import tables
from kernels.des_graph import attend_ns, before_attention_ns, head_ns, host_ns, linear_ns, mlp_ns
from kernels.des_layout import all_tables, batches, instances, items, requests
from kernels.des_network import tensor_sum_ns
from kernels.des_offload import place_pieces
from kernels.jit import internal
from kernels.tables import batch_attention_ns


@internal
def cut_in_halves(w, b):
    """Which half (0 or 1) each item of batch `b` belongs to: by tokens, most first, to the half with fewer so far."""
    batch = batches(w)[b]
    first = instances(w)[batch.instance].item_base
    tokens = np.empty(batch.n_items, np.int64)
    for j in range(batch.n_items):
        tokens[j] = -items(w)[first + j].tokens
    half = np.zeros(batch.n_items, np.int64)
    load = np.zeros(2, np.int64)
    for j in np.argsort(tokens, kind="mergesort"):
        half[j] = 0 if load[0] <= load[1] else 1
        load[half[j]] -= tokens[j]
    return half, load


@internal
def half_attention(w, b, half, side, channels):
    """Attention of one layer for one half: its prompts on the accelerator (returned, ns), the rest in `channels` (ns each)."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    first = inst.item_base
    chunk, prior, single, single_prior, n = 0, 0, 0, 0, 0
    prompts = np.empty(batch.n_items, np.int64)
    for j in range(batch.n_items):
        if half[j] != side:
            continue
        item = items(w)[first + j]
        req = requests(w)[item.request]
        if req.initial == 0:
            prompts[n] = req.isl
            n += 1
        elif item.tokens > 1:
            chunk += item.tokens
            prior += item.prior
        else:
            single += 1
            single_prior += item.prior
    place_pieces(inst, prompts[:n], channels)
    return batch_attention_ns(
        all_tables(w)[0],
        inst.table,
        chunk,
        prior,
        single,
        single_prior,
        single_prior,
        single_prior,
    )


@internal
def run_in_memory(channels, free, now):
    """Start a half's attention in memory at `now`, each channel behind its earlier work; returns when all of it is done."""
    done = now
    for k in range(channels.size):
        if channels[k] > 0:
            free[k] = max(free[k], now) + channels[k]
            done = max(done, free[k])
    return done


@internal
def interleaved_step_ns(w, b):
    """Step time of batch `b` in two halves, host transfers included; 0 where one half would be empty."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    half, tokens = cut_in_halves(w, b)
    if tokens[0] == 0 or tokens[1] == 0:
        return 0
    channels = np.zeros((2, inst.pim_channels), np.int64)
    free = np.zeros(inst.pim_channels, np.int64)
    done = np.zeros(2, np.int64)
    before = np.empty(2, np.int64)
    after = np.empty(2, np.int64)
    seqs = np.zeros(2, np.int64)
    for j in range(batch.n_items):
        seqs[half[j]] += 1
    for side in range(2):
        n = tokens[side]
        payload = n * inst.hidden * inst.elem_bytes
        attention_ns = half_attention(w, b, half, side, channels[side])
        before[side] = before_attention_ns(w, inst, n) + attend_ns(w, inst, n, attention_ns)
        after[side] = (
            linear_ns(w, inst, tables.O_PROJ, n)
            + linear_ns(w, inst, tables.LAYERNORM, n)
            + mlp_ns(w, inst, n)
            + 2 * tensor_sum_ns(inst, payload)
        )
    now = host_ns(inst, batch.tokens)
    for layer in range(inst.n_layers + 1):
        for side in range(2):
            if layer == 0:
                now += linear_ns(w, inst, tables.EMBEDDING, tokens[side])
            else:
                now = max(now, done[side]) + after[side]
            if layer < inst.n_layers:
                now += before[side]
                done[side] = run_in_memory(channels[side], free, now)
            else:
                now += head_ns(w, inst, tokens[side], seqs[side])
    return now + host_ns(inst, batch.tokens)
