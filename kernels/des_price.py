"""What a batch costs: operator tables or the step kernel, and the host's share of a step."""

import numpy as np
from numba import from_dtype, types

from kernels import once
from kernels.calls import PRICE, call_price, callback
from kernels.coefficients import NEAR_DECODE, NEAR_PROMPT
from kernels.des_graph import run_graph, single_rank_step_ns
from kernels.des_interleave import interleaved_step_ns
from kernels.des_layout import (
    PREFILL,
    PRICE_TABLES,
    WORLD,
    all_tables,
    batches,
    coefficients,
    derived,
    instances,
    items,
    members,
    memo,
    priced,
    requests,
    stage_free,
    world_at,
)
from kernels.des_offload import offloaded_step_ns, pim_attention_ns
from kernels.des_tier import recall_ns
from kernels.jit import internal
from kernels.nearby import nearby_us
from kernels.priced import forget
from kernels.step import load_step, step_us
from kernels.tables import batch_attention_ns
from kernels.units import NS_PER_US
from kernels.views import records

GRID_PER_OCTAVE = 4.0
"""Decode steps are priced at four contexts per doubling and linearly between: the curve is smooth and nearly
straight, so that the interpolation stays within a few hundredths of a percent."""
GRID_FIRST = 16.0
"""Smallest context of that grid, tokens."""
N_GRID = 72
"""Up to 4 million tokens."""
GRID = GRID_FIRST * 2.0 ** (np.arange(N_GRID) / GRID_PER_OCTAVE)
"""The contexts of the grid, tokens."""


@internal
def is_single_rank(w, inst):
    """Whether a step of this instance is a plain sum of its layers."""
    return (
        inst.tp == 1 and inst.pp == 1 and inst.ep_total == 1 and not (inst.role == PREFILL and w.compat == 1)
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
def decode_point_ns(w, i, n_seqs, k):
    """A pure decode step of `n_seqs` sequences at grid point `k`, priced once and kept."""
    known = memo(w)[i, n_seqs, k]
    if np.isnan(known):
        known = NS_PER_US * call_price(
            w.pricer,
            w.self,
            i,
            float(n_seqs),
            n_seqs * GRID[k],
            1.0,
            0.0,
            0.0,
            0.0,
        )
        memo(w)[i, n_seqs, k] = known
    return known


@internal
def decode_ns(w, i, n_seqs, kv_sum):
    """A pure decode step, linear between grid points of the mean context."""
    mean = max(kv_sum / n_seqs, GRID_FIRST)
    k = min(int(GRID_PER_OCTAVE * np.log2(mean / GRID_FIRST)), N_GRID - 2)
    low, high = GRID[k], GRID[k + 1]
    before = decode_point_ns(w, i, n_seqs, k)
    after = decode_point_ns(w, i, n_seqs, k + 1)
    return before + (after - before) * (mean - low) / (high - low)


@internal
def step_kernel_ns(w, b):
    """Time of batch `b` by the step kernel, ns."""
    batch = batches(w)[b]
    i = batch.instance
    inst = instances(w)[i]
    if batch.chunk == 0 and inst.spec_tokens == 0 and batch.n_decode < memo(w).shape[1]:
        return decode_ns(w, i, batch.n_decode, batch.kv_sum)
    queries = (batch.tokens - batch.chunk) / batch.n_decode if batch.n_decode > 0 else 0.0
    return NS_PER_US * call_price(
        w.pricer,
        w.self,
        i,
        float(batch.n_decode),
        float(batch.kv_sum),
        queries,
        float(batch.prefill_seqs),
        float(batch.chunk),
        float(batch.kv_prefill),
    )


@internal
def draft_ns(inst, batch, step_ns):
    """Draft tokens of a speculating step: factor x k x (step / queries), mixed steps included."""
    if inst.spec_tokens == 0 or batch.n_decode == 0:
        return 0.0
    return inst.draft_cost * inst.spec_tokens * step_ns / (1.0 + inst.spec_tokens)


@internal
def run_stages(w, b, now, step_ns):
    """Spread a step evenly over the pipeline's stages, each of which takes one batch at a time."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    share = int(np.rint(step_ns / inst.pp))
    time = now
    for stage in range(inst.pp):
        time = max(time, stage_free(w)[batch.instance, stage]) + share
        stage_free(w)[batch.instance, stage] = time
        if stage == 0:
            batch.stage0_end = time
    batch.end = time


@internal
def prompt_attention_ns(w, b):
    """Attention of one layer for the prompts of batch `b`: requests before their first token."""
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    first = inst.item_base + (b - inst.batch_base) * inst.running_cap
    chunk, prior, single, single_prior = 0, 0, 0, 0
    for j in range(batch.n_items):
        item = items(w)[first + j]
        if requests(w)[item.request].initial == 0:
            continue
        if item.tokens > 1:
            chunk += item.tokens
            prior += item.prior
        else:
            single += 1
            single_prior += item.prior
    return batch_attention_ns(
        all_tables(w)[0], inst.table, chunk, prior, single, single_prior, single_prior, single_prior
    )


@internal
def look_up_attention(w, b):
    """Attention of one layer for batch `b`, from the tables; decode in memory channels where the instance has them.

    There, prompts are priced on the accelerator alone, before or after the channels' work.
    """
    batch = batches(w)[b]
    inst = instances(w)[batch.instance]
    if inst.pim_channels > 0 and batch.dummy == 0:
        prompt_ns = prompt_attention_ns(w, b)
        batch.attention_ns = prompt_ns + pim_attention_ns(w, b)
        return
    batch.attention_ns = batch_attention_ns(
        all_tables(w)[0],
        instances(w)[batch.instance].table,
        batch.chunk,
        batch.kv_prefill,
        batch.n_decode,
        batch.kv_sum,
        batch.kv_min,
        batch.kv_max,
    )


@internal
def launch_by_tables(w, wave, n_members, now):
    """Operator tables: batches of one data-parallel group meet inside the graph."""
    for m in range(n_members):
        look_up_attention(w, wave[m])
    batch = batches(w)[wave[0]]
    lead = instances(w)[batch.instance]
    interleaved = interleaved_step_ns(w, wave[0]) if n_members == 1 and lead.interleave == 1 else 0
    if interleaved > 0:
        batch.end = now + interleaved
        batch.stage0_end = batch.end
    elif n_members == 1 and lead.offloads == 1:
        batch.end = now + offloaded_step_ns(
            w, lead, batch.instance, batch.tokens, batch.seqs, batch.attention_ns
        )
        batch.stage0_end = batch.end
    elif n_members == 1 and is_single_rank(w, lead):
        batch.end = now + single_rank_step_ns(w, lead, batch.tokens, batch.seqs, batch.attention_ns)
        batch.stage0_end = batch.end
    else:
        run_graph(w, wave, n_members, now)


@internal
def launch_by_kernel(w, wave, n_members, now):
    """Step kernel: ranks of one group wait for the slowest of them, and for weights that come from elsewhere."""
    slowest = 0.0
    for m in range(n_members):
        loaded = float(instances(w)[batches(w)[wave[m]].instance].weight_load_ns)
        slowest = max(slowest, step_kernel_ns(w, wave[m]), loaded)
    for m in range(n_members):
        run_stages(w, wave[m], now, slowest)


@once.compiled_once()
def launch_wave(w, n_members, now):
    """Start the first `n_members` batches of the list `members` together at `now`: fills `start`, `stage0_end`, `end`."""
    wave = members(w)
    for m in range(n_members):
        batches(w)[wave[m]].start = now
    if instances(w)[batches(w)[wave[0]].instance].pricer == PRICE_TABLES:
        launch_by_tables(w, wave, n_members, now)
    else:
        launch_by_kernel(w, wave, n_members, now)
    for m in range(n_members):
        batch = batches(w)[wave[m]]
        inst = instances(w)[batch.instance]
        extra = (
            recall_ns(w, batch, now)
            + host_overhead_ns(inst, batch)
            + int(draft_ns(inst, batch, float(batch.end - now)))
        )
        batch.end += extra
        batch.stage0_end += extra


def load_launch():
    """Register `launch_wave` ahead of its first call (kernels.once)."""
    once.load(__name__, launch_wave.__name__, (from_dtype(WORLD), types.int64, types.int64))


def step_pricer(dtype):
    """The step model as a callback, for input records of `dtype` (`sweep.fields.record_dtype`)."""
    load_step(dtype)

    @callback(PRICE)
    def price(world, i, decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prior):
        w = world_at(world)
        s = priced(w)[0]
        forget(s)
        p = records(w.p, w.p_shape[0], dtype)[i]
        c = coefficients(w)[i]
        step = step_us(
            p,
            derived(w)[i],
            c,
            decode_seqs,
            decode_context,
            decode_queries,
            prefill_seqs,
            prefill_tokens,
            prior,
            s,
        )
        if prefill_seqs <= 0.0:
            return nearby_us(step, NEAR_DECODE, decode_seqs, decode_context / decode_seqs, p, c, s.parts)
        # where prefill is exclusive, who decodes waits meanwhile
        running = max(decode_seqs, instances(w)[i].n_running - prefill_seqs)
        length = (prefill_tokens + prior) / prefill_seqs
        return nearby_us(step, NEAR_PROMPT, running, length, p, c, s.parts)

    return price


@internal
def launch_one(w, b, now):
    """Start one batch on its own."""
    members(w)[0] = b
    launch_wave(w, 1, now)
