"""One engine step as a graph of layers on ranks and stages, priced by operator tables.

Order (specification section 6): embedding, then per layer norm, qkv, (qk norm), rope, attention, output projection,
norm, MLP or experts, then final norm, LM head, sampler. Ranks of a tensor-parallel group meet at the all-reduces,
ranks of an expert-parallel group at the gather before and the scatter after the experts. Every rank's clock
is kept; pipeline stages follow each other with one message at the boundary.
"""

from kernels import tables
from kernels.des_experts import expert_load
from kernels.des_layout import (
    PREFILL,
    all_tables,
    batches,
    instances,
    node_free,
    rank_clock,
    rank_link,
    ring_scratch,
    stage_free,
)
from kernels.des_network import all_gather, all_reduce, hop_ns, reduce_scatter
from kernels.jit import internal
from kernels.once import compiled_once
from kernels.tables import linear, moe_ns, sequence

HOST_BYTES_PER_TOKEN = 4
"""Token ids in, sampled ids out."""


@internal
def host_ns(inst, n_tokens):
    """One transfer of token ids between host memory and a rank."""
    return inst.cpu_latency + (HOST_BYTES_PER_TOKEN * n_tokens) // inst.cpu_bytes_per_ns


@internal
def linear_ns(w, inst, layer, n_tokens):
    """One token-wise layer of this instance."""
    times = linear(all_tables(w)[0])
    return times[inst.table, layer, min(n_tokens, times.shape[2] - 1)]


@internal
def sequence_ns(w, inst, layer, n_seqs):
    """LM head or sampler of this instance."""
    times = sequence(all_tables(w)[0])
    return times[inst.table, layer, min(n_seqs, times.shape[2] - 1)]


@internal
def before_attention_ns(w, inst, n_tokens):
    """From the layer's first norm up to its QKV projection."""
    return linear_ns(w, inst, tables.LAYERNORM, n_tokens) + linear_ns(w, inst, tables.QKV_PROJ, n_tokens)


@internal
def attend_ns(w, inst, n_tokens, attention_ns):
    """From after the QKV projection up to the end of attention."""
    return (
        linear_ns(w, inst, tables.QK_NORM, n_tokens)
        + linear_ns(w, inst, tables.ROTARY_EMB, n_tokens)
        + attention_ns
    )


@internal
def to_output_projection_ns(w, inst, n_tokens, attention_ns):
    """From after the QKV projection up to the output projection."""
    return attend_ns(w, inst, n_tokens, attention_ns) + linear_ns(w, inst, tables.O_PROJ, n_tokens)


@internal
def mlp_ns(w, inst, n_tokens):
    """Dense MLP."""
    return (
        linear_ns(w, inst, tables.GATE_UP_PROJ, n_tokens)
        + linear_ns(w, inst, tables.ACT_FN, n_tokens)
        + linear_ns(w, inst, tables.DOWN_PROJ, n_tokens)
    )


@internal
def head_ns(w, inst, n_tokens, n_seqs):
    """Final norm, LM head and sampler."""
    return (
        linear_ns(w, inst, tables.FINAL_LAYERNORM, n_tokens)
        + sequence_ns(w, inst, tables.LM_HEAD, n_seqs)
        + sequence_ns(w, inst, tables.SAMPLER, n_seqs)
    )


@internal
def stage_layers(n_layers, n_stages, stage):
    """Layers of pipeline stage `stage`: an even split, the remainder to the stages before the last."""
    n = n_layers // n_stages
    extra = n_layers - n * n_stages
    return n + (1 if n_stages - 1 - extra <= stage < n_stages - 1 else 0)


@internal
def single_rank_step_ns(w, inst, n_tokens, n_seqs, attention_ns):
    """A whole step on one rank without collectives, host transfers included."""
    block = (
        before_attention_ns(w, inst, n_tokens)
        + to_output_projection_ns(w, inst, n_tokens, attention_ns)
        + linear_ns(w, inst, tables.LAYERNORM, n_tokens)
    )
    if inst.is_moe == 1:
        rows, activated = expert_load(w, inst, n_tokens, 0)
        block += moe_ns(all_tables(w)[0], inst.table, rows, activated)
    else:
        block += mlp_ns(w, inst, n_tokens)
    return (
        2 * host_ns(inst, n_tokens)
        + linear_ns(w, inst, tables.EMBEDDING, n_tokens)
        + inst.n_layers * block
        + head_ns(w, inst, n_tokens, n_seqs)
    )


@internal
def meet_tensor_ranks(w, inst, first, n_bytes):
    """All-reduce over the tensor-parallel ranks that start at rank `first`."""
    all_reduce(
        rank_clock(w),
        rank_link(w),
        ring_scratch(w),
        first,
        1,
        inst.tp,
        n_bytes,
        inst.tp_latency,
        inst.tp_bytes_per_ns,
        inst.reduce_bytes_per_ns,
    )


@compiled_once()
def run_experts(w, inst, n_members, n_tokens):
    """The MoE block of one layer over all ranks of `n_members` instances.

    With expert parallelism: gather of hidden states and router logits, experts, scatter of the results; first over
    the members, then over the tensor-parallel ranks (and back). In `compat` mode sizes and rows count one
    member's padded tokens; otherwise all members' tokens reach the experts.
    """
    tp = inst.tp
    compat = w.compat == 1
    tokens = n_tokens if compat else n_tokens * n_members
    spans_members = inst.ep_total > tp and n_members > 1
    if inst.ep_total > 1:
        shard = max(1, tokens // inst.ep_total) * (inst.hidden + inst.n_experts) * inst.elem_bytes
        if spans_members:
            for j in range(tp):
                all_gather(
                    rank_clock(w),
                    rank_link(w),
                    ring_scratch(w),
                    j,
                    tp,
                    n_members,
                    shard,
                    inst.dp_latency,
                    inst.dp_bytes_per_ns,
                )
            shard *= n_members
        for m in range(n_members):
            all_gather(
                rank_clock(w),
                rank_link(w),
                ring_scratch(w),
                m * tp,
                1,
                tp,
                shard,
                inst.tp_latency,
                inst.tp_bytes_per_ns,
            )
    for m in range(n_members):
        for e in range(inst.local_ep):
            rows, activated = expert_load(w, inst, tokens, m * inst.local_ep + e)
            if rows > 0:
                rank_clock(w)[m * tp + e % tp] += moe_ns(all_tables(w)[0], inst.table, rows, activated)
    if inst.ep_total > 1:
        total = tokens * inst.hidden * inst.elem_bytes
        for m in range(n_members):
            reduce_scatter(
                rank_clock(w),
                rank_link(w),
                ring_scratch(w),
                m * tp,
                1,
                tp,
                total,
                inst.tp_latency,
                inst.tp_bytes_per_ns,
                inst.reduce_bytes_per_ns,
            )
        if spans_members:
            for j in range(tp):
                reduce_scatter(
                    rank_clock(w),
                    rank_link(w),
                    ring_scratch(w),
                    j,
                    tp,
                    n_members,
                    total // tp,
                    inst.dp_latency,
                    inst.dp_bytes_per_ns,
                    inst.reduce_bytes_per_ns,
                )


@internal
def run_layers(w, members, n_members, n_layers):
    """`n_layers` layers on the ranks of `n_members` batches (`members` holds batch indices)."""
    lead = instances(w)[batches(w)[members[0]].instance]
    tp = lead.tp
    n_tokens = batches(w)[members[0]].tokens
    sends_kv = lead.role == PREFILL and w.compat == 1
    for _ in range(n_layers):
        for m in range(n_members):
            batch = batches(w)[members[m]]
            inst = instances(w)[batch.instance]
            until_qkv = before_attention_ns(w, inst, batch.tokens)
            rest = to_output_projection_ns(w, inst, batch.tokens, batch.attention_ns)
            for r in range(m * tp, (m + 1) * tp):
                rank_clock(w)[r] += until_qkv
                if sends_kv:
                    kv = hop_ns(batch.pd_tokens * inst.kv_send_bytes, inst.pd_latency, inst.pd_bytes_per_ns)
                    rank_link(w)[r] = max(rank_link(w)[r], rank_clock(w)[r]) + kv
                rank_clock(w)[r] += rest
            payload = batch.tokens * inst.hidden * inst.elem_bytes
            meet_tensor_ranks(w, inst, m * tp, payload)
            after = linear_ns(w, inst, tables.LAYERNORM, batch.tokens)
            if inst.is_moe == 0:
                after += mlp_ns(w, inst, batch.tokens)
            for r in range(m * tp, (m + 1) * tp):
                rank_clock(w)[r] += after
            if inst.is_moe == 0:
                meet_tensor_ranks(w, inst, m * tp, payload)
        if lead.is_moe == 1:
            run_experts(w, lead, n_members, n_tokens)


@internal
def enter_stage(w, members, n_members, stage, now):
    """Clocks of all ranks at the start of a stage; the first one loads the token ids, rank after rank."""
    tp = instances(w)[batches(w)[members[0]].instance].tp
    for m in range(n_members):
        batch = batches(w)[members[m]]
        inst = instances(w)[batch.instance]
        for j in range(tp):
            r = m * tp + j
            start = max(now if stage == 0 else rank_clock(w)[r], stage_free(w)[batch.instance, stage])
            if stage == 0:
                start = max(start, node_free(w)[inst.node]) + host_ns(inst, batch.tokens)
                node_free(w)[inst.node] = start
                start += linear_ns(w, inst, tables.EMBEDDING, batch.tokens)
            rank_clock(w)[r] = start
            rank_link(w)[r] = start


@internal
def leave_stage(w, members, n_members, stage, n_stages):
    """Hand the activations to the next stage, or run the head and store the sampled ids."""
    tp = instances(w)[batches(w)[members[0]].instance].tp
    for m in range(n_members):
        batch = batches(w)[members[m]]
        inst = instances(w)[batch.instance]
        end = 0
        if stage < n_stages - 1:
            message = hop_ns(
                batch.tokens * inst.hidden * inst.elem_bytes, inst.pp_latency, inst.pp_bytes_per_ns
            )
            for r in range(m * tp, (m + 1) * tp):
                rank_clock(w)[r] = max(rank_clock(w)[r], rank_link(w)[r]) + message
                rank_link(w)[r] = rank_clock(w)[r]
                end = max(end, rank_clock(w)[r])
        else:
            for r in range(m * tp, (m + 1) * tp):
                sampled = rank_clock(w)[r] + head_ns(w, inst, batch.tokens, batch.seqs)
                rank_clock(w)[r] = max(sampled, end) + host_ns(inst, batch.tokens)
                end = rank_clock(w)[r]
                if inst.role == PREFILL and w.compat == 1:
                    message = hop_ns(
                        HOST_BYTES_PER_TOKEN * batch.tokens, inst.pd_latency, inst.pd_bytes_per_ns
                    )
                    rank_clock(w)[r] = max(rank_clock(w)[r], max(sampled, rank_link(w)[r]) + message)
            for r in range(m * tp, (m + 1) * tp):
                end = max(end, rank_clock(w)[r])
            batch.end = end
        stage_free(w)[batch.instance, stage] = end
        if stage == 0:
            batch.stage0_end = end


@compiled_once()
def run_graph(w, members, n_members, now):
    """Price the batches of `n_members` instances that start together at `now`: fills their ends."""
    lead = instances(w)[batches(w)[members[0]].instance]
    for stage in range(lead.pp):
        enter_stage(w, members, n_members, stage, now)
        run_layers(w, members, n_members, stage_layers(lead.n_layers, lead.pp, stage))
        leave_stage(w, members, n_members, stage, lead.pp)
