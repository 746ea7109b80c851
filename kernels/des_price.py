"""What a batch costs: operator tables or the step kernel, and the host's share of a step."""

import numpy as np

from kernels.des_graph import run_graph, single_rank_step_ns
from kernels.des_layout import PREFILL, PRICE_TABLES, all_tables, batches, instances
from kernels.jit import internal
from kernels.tables import batch_attention_ns


@internal
def is_single_rank(w, inst):
    """Whether a step of this instance is a plain sum of its layers."""
    return (
        inst.tp == 1
        and inst.pp == 1
        and inst.ep_total == 1
        and not (inst.role == PREFILL and w.compat == 1)
    )


@internal
def host_overhead_ns(inst, batch):
    """Host time of a step that the device does not hide."""
    return int(
        inst.step_overhead_ns
        + batch.seqs * inst.sequence_overhead_ns
        + (inst.mixed_overhead_ns if batch.prefill_seqs > 0 else 0.0)
    )


@internal
def launch(w, members, n_members, now):
    """Start the batches of `n_members` instances together at `now`: fills `start`, `stage0_end` and `end`."""
    for m in range(n_members):
        batch = batches(w)[members[m]]
        inst = instances(w)[batch.instance]
        batch.start = now
        if inst.pricer == PRICE_TABLES:
            batch.attention_ns = batch_attention_ns(
                all_tables(w)[0],
                inst.table,
                batch.chunk,
                batch.kv_prefill,
                batch.n_decode if batch.dummy == 0 else 1,
                batch.kv_sum,
                batch.kv_min,
                batch.kv_max,
            )
    lead = instances(w)[batches(w)[members[0]].instance]
    batch = batches(w)[members[0]]
    if n_members == 1 and is_single_rank(w, lead):
        batch.end = now + single_rank_step_ns(w, lead, batch.tokens, batch.seqs, batch.attention_ns)
        batch.stage0_end = batch.end
    else:
        run_graph(w, members, n_members, now)
    for m in range(n_members):
        batch = batches(w)[members[m]]
        overhead = host_overhead_ns(instances(w)[batch.instance], batch)
        batch.end += overhead
        batch.stage0_end += overhead


@internal
def launch_one(w, b, now):
    """Start one batch on its own."""
    members = np.empty(1, np.int64)
    members[0] = b
    launch(w, members, 1, now)
