"""Weights in another memory, and decode attention in processing-in-memory channels (specification section 16).

Weights: every layer whose weights lie elsewhere loads them once per step. All loads are issued at the start, in
layer order, one at a time per device; a layer waits for its own. When they are there is the same in every step.

Memory-side attention: each decoding request is cut in `split` pieces that go to the least loaded channels, longest
prompt first; a channel works through its pieces, a piece takes latency(prompt) + transfer.
"""

import numpy as np

from kernels import tables
from kernels.des_graph import attend_ns, host_ns, linear_ns, sequence_ns
from kernels.des_layout import batches, instances, items, requests, weight_ready
from kernels.des_network import tensor_sum_ns
from kernels.jit import internal

LOADS_PER_LAYER = 6
"""Layers with weights in a dense block: norm, qkv, output projection, norm, gate and up, down."""


@internal
def offloaded_step_ns(w, inst, i, n_tokens, n_seqs, attention_ns):
    """A step of a dense model on one stage whose weights come from elsewhere, host transfers included."""
    ready = weight_ready(w)[i]
    ln = linear_ns(w, inst, tables.LAYERNORM, n_tokens)
    to_output = attend_ns(w, inst, n_tokens, attention_ns)
    meet = tensor_sum_ns(inst, n_tokens * inst.hidden * inst.elem_bytes)
    now = max(host_ns(inst, n_tokens), ready[0]) + linear_ns(w, inst, tables.EMBEDDING, n_tokens)
    k = 1
    for _ in range(inst.n_layers):
        now = max(now, ready[k]) + ln
        now = max(now, ready[k + 1]) + linear_ns(w, inst, tables.QKV_PROJ, n_tokens) + to_output
        now = max(now, ready[k + 2]) + linear_ns(w, inst, tables.O_PROJ, n_tokens) + meet
        now = max(now, ready[k + 3]) + ln
        now = max(now, ready[k + 4]) + linear_ns(w, inst, tables.GATE_UP_PROJ, n_tokens)
        now += linear_ns(w, inst, tables.ACT_FN, n_tokens)
        now = max(now, ready[k + 5]) + linear_ns(w, inst, tables.DOWN_PROJ, n_tokens) + meet
        k += LOADS_PER_LAYER
    now = max(now, ready[k]) + linear_ns(w, inst, tables.FINAL_LAYERNORM, n_tokens)
    now = (
        max(now, ready[k + 1])
        + sequence_ns(w, inst, tables.LM_HEAD, n_seqs)
        + sequence_ns(w, inst, tables.SAMPLER, n_seqs)
    )
    return now + host_ns(inst, n_tokens)


@internal
def piece_ns(inst, prompt):
    """One piece of a request's attention on one channel."""
    return int(inst.pim_ns_per_token * prompt + inst.pim_fixed_ns) + int(inst.pim_transfer_ns)


@internal
def place_pieces(inst, prompts, busy):
    """Give the requests with these prompts, longest first, to the least loaded channels; `busy` receives ns per channel."""
    longest_first = np.sort(-prompts)
    load = np.zeros(busy.size, np.int64)
    for j in range(prompts.size):
        prompt = -longest_first[j]
        for _ in range(inst.pim_split):
            channel = np.argmin(load)
            load[channel] += prompt
            busy[channel] += piece_ns(inst, prompt)


@internal
def pim_attention_ns(w, b):
    """Memory-side attention of one layer for the decoding requests of batch `b` (those past their first token)."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    first = inst.item_base + (b - inst.batch_base) * inst.running_cap
    prompts = np.empty(batch.n_items, np.int64)
    n = 0
    for j in range(batch.n_items):
        req = requests(w)[items(w)[first + j].request]
        if req.initial == 0:
            prompts[n] = req.isl
            n += 1
    channels = np.zeros(inst.pim_channels, np.int64)
    place_pieces(inst, prompts[:n], channels)
    return channels.max()
