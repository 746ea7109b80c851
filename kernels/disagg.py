"""Deployments with pools of their own for prefill and decode."""

import numpy as np

from kernels import reasons
from kernels.auto import default_to
from kernels.batching import decode_step_us, follow_waves, prompt_service_us
from kernels.cost import fill_cost
from kernels.jit import kernel
from kernels.offload import offload_fetch_us
from kernels.operating import fill_memory, fill_steps, host_latency, residents
from kernels.prefill_rate import prefill_scale
from kernels.priced import forget
from kernels.resolve import resolve
from kernels.speculation import tokens_per_step
from kernels.units import BYTES_PER_US_PER_GB_S, US_PER_MS, US_PER_S

REQUESTS_PER_CLIENT = 10.0
TRANSFER_GB_S = np.array([400.0, 200.0, 300.0])
TRANSFER_LATENCY_US = np.array([5.0, 10.0, 7.0])
"""Presets of nixl, mooncake, mori (spec of the compatible tool)."""
FABRIC_EFFICIENCY = 0.7
"""Share of NIC bandwidth that a transfer gets where no backend is named."""
PREFILL, DECODE = 0, 1


@kernel
def pool_shapes(p, pools):
    """Copy the input into one record per pool, each with its own parallel shape (auto: the shared one)."""
    pools[PREFILL] = p
    pools[DECODE] = p
    a = pools[PREFILL]
    a.tp = default_to(p.prefill_tp, p.tp)
    a.pp = default_to(p.prefill_pp, p.pp)
    a.attention_dp = default_to(p.prefill_attention_dp, p.attention_dp)
    a.moe_ep = default_to(p.prefill_moe_ep, p.moe_ep)
    a.moe_tp = default_to(p.prefill_moe_tp, p.moe_tp)
    b = pools[DECODE]
    b.tp = default_to(p.decode_tp, p.tp)
    b.pp = default_to(p.decode_pp, p.pp)
    b.attention_dp = default_to(p.decode_attention_dp, p.attention_dp)
    b.moe_ep = default_to(p.decode_moe_ep, p.moe_ep)
    b.moe_tp = default_to(p.decode_moe_tp, p.moe_tp)


@kernel
def transfer_us(isl, p, d):
    """Hand-over of one request's KV cache between a pair of ranks, us: bytes / bandwidth + latency."""
    bandwidth = p.kv_transfer_bw_gbps
    latency = p.kv_transfer_latency_us
    if np.isnan(bandwidth):
        bandwidth = (
            FABRIC_EFFICIENCY * p.nic_gb_s
            if np.isnan(p.transfer_backend)
            else TRANSFER_GB_S[int(p.transfer_backend)]
        )
    if np.isnan(latency):
        latency = (
            p.nic_latency_us if np.isnan(p.transfer_backend) else TRANSFER_LATENCY_US[int(p.transfer_backend)]
        )
    n_bytes = isl * d.kv_bytes_per_token + d.kv_bytes_per_request
    return latency + n_bytes / (bandwidth * BYTES_PER_US_PER_GB_S)


@kernel
def packed_prefill_us(new_tokens, cached, batch_limit, p, d, c, s):
    """Prefill of prompts on a prefill rank: (us per prompt when they queue, us of one alone)."""
    _, full = prompt_service_us(0.0, 0.0, new_tokens, cached, False, p, d, c, s)
    _, alone = prompt_service_us(0.0, 0.0, new_tokens, cached, True, p, d, c, s)
    if batch_limit * new_tokens < d.token_budget:
        # fewer prompts per step than the budget holds: between one alone and a full step
        fill = batch_limit * new_tokens / d.token_budget
        full = max(full, alone / batch_limit + (full - alone / batch_limit) * fill)
    return min(full, alone), alone


@kernel
def evaluate_pools(p, pools, pools_d, c, steps, r, o):
    """Fill the result record `o` for a disaggregated deployment.

    A request is prefilled on a prefill rank (queue in front of the pool), its KV cache handed over once (inside TTFT),
    and decodes on a decode rank undisturbed. The request rate is what the slower pool sustains; every GPU of both
    pools is paid for. A verdict of either pool is the deployment's. `steps`: scratch as for `evaluate`.
    """
    pool_shapes(p, pools)
    a, b = pools[PREFILL], pools[DECODE]
    da, db = pools_d[PREFILL], pools_d[DECODE]
    resolve(a, da)
    resolve(b, db)
    sa, sb = steps[PREFILL], steps[DECODE]
    forget(sa)
    forget(sb)
    fill_memory(db, o)
    prefill_gpus = da.gpus * p.prefill_replicas
    decode_gpus = db.gpus * p.decode_replicas
    o.gpus = prefill_gpus + decode_gpus
    if da.reason != reasons.OK:
        o.reason = da.reason
    if da.reason != reasons.OK or db.reason != reasons.OK:
        return
    mean = 0.5 * (1.0 + p.length_range)
    isl = max(1.0, p.isl * mean)
    osl = max(1.0, p.osl * mean)
    cached = min(np.floor(isl * p.prefix_hit_rate), isl - 1.0)
    steps = max(1.0, osl - 1.0) / tokens_per_step(p.speculative_num_tokens, p.speculative_acceptance_rate)
    context = isl + 0.5 * osl
    prefill_ranks = p.prefill_replicas * a.attention_dp
    decode_ranks = p.decode_replicas * b.attention_dp
    full, alone = packed_prefill_us(isl - cached, cached, default_to(p.prefill_batch_size, 1e9), a, da, c, sa)
    hop = transfer_us(isl, p, db)
    limit = min(residents(isl, osl, b, db), default_to(p.decode_batch_size, 1e9))
    clients = p.concurrency / 1.0
    total = default_to(p.num_prompts, REQUESTS_PER_CLIENT * p.concurrency)
    # Decode population and prefill time depend on each other: a few rounds of Little's law.
    decoding = min(limit, max(1.0, clients / decode_ranks))
    ttft = 0.0
    decode = 0.0
    for _ in range(4):
        pure = decode_step_us(decoding, context, b, db, c, sb)
        rank_clients = max(1.0, clients / prefill_ranks)
        ttft, decode, _ = follow_waves(
            rank_clients,
            total / prefill_ranks,
            (1.0 - p.length_range) / mean * steps * pure,
            steps * pure,
            pure,
            alone / full,
            full,
            alone,
            full,
            0.0,
            0.0,
            True,
            1.0,
            1.0,
            0.0,
        )
        cycle = max(ttft + hop + decode, rank_clients * full)
        ttft = max(ttft, cycle - decode - hop)
        decoding = min(limit, max(1.0, clients * decode / cycle / decode_ranks))
    waiting = max(0.0, clients * decode / (ttft + hop + decode) - limit * decode_ranks)
    rate = min(clients / (ttft + hop + decode), limit * decode_ranks / decode)
    if waiting > 0.0:
        o.over_ceiling = 1.0
        ttft += waiting / rate
    r.ttft_us = ttft * prefill_scale(a, da, c, sa) + hop
    if p.kv_offload_gib_per_gpu > 0.0:
        r.ttft_us += offload_fetch_us(cached, a, da)
    r.tpot_us = decode / max(1.0, osl - 1.0)
    r.pure_tpot_us = r.tpot_us
    r.requests_per_us = rate
    r.decoding = decoding
    r.pure_step_us = decode / steps
    r.mixed_step_us = r.pure_step_us
    r.mixed_share = 0.0
    r.prompt_us = alone
    decode_step_us(max(1.0, decoding), context, b, db, c, sb)
    fill_steps(context, decoding, b, db, c, sb.parts, r, o)
    o.kv_transfer_ms = hop / US_PER_MS
    host_latency(r.ttft_us, r.tpot_us, r.pure_step_us, decoding * decode_ranks, isl, osl, a, c, o)
    o.resident = decoding * decode_ranks
    o.requests_per_s = rate * US_PER_S
    fill_cost(p, prefill_gpus, decode_gpus, o.gpus, isl, osl, o.requests_per_s, o)
