"""One row: from a resolved deployment and a workload to latency, throughput and cost."""

import numpy as np

from kernels import reasons
from kernels.auto import default_to
from kernels.batching import decode_step_us, replay, static_batch
from kernels.borrow import borrowed
from kernels.cost import fill_cost
from kernels.disagg import evaluate_pools
from kernels.hostcost import loop_front_us
from kernels.jit import inlined, kernel
from kernels.offload import offload_fetch_us
from kernels.once import compiled_once
from kernels.open_load import settle_open
from kernels.operating import fill_memory, fill_steps, host_latency, residents
from kernels.prefill_rate import prefill_scale
from kernels.units import US_PER_S

LOAD_CLOSED, LOAD_SATURATION, LOAD_RATE, LOAD_STATIC = range(4)
DETERMINISTIC = 1.0
REQUESTS_PER_CLIENT = 10.0
"""Benchmark clients usually send ten requests per unit of concurrency."""
MANY_WAVES = 1e6
"""Of a closed loop without an end: its opening burst does not count."""
SATURATION_REQUESTS = 4.0
"""A saturation run offers this many times what is resident."""


@inlined
def arrival_variability(p):
    """1 / burstiness for gamma gaps (Poisson: 1); half for a regular rate, whose prompts still meet unequal steps."""
    return 0.5 if p.arrival == DETERMINISTIC else 1.0 / p.burstiness


@inlined
def cached_tokens(isl, p):
    """Prompt tokens found in the prefix cache; at least one is computed."""
    return min(np.floor(isl * p.prefix_hit_rate), isl - 1.0)


@kernel
def closed_population(limit, p):
    """Clients and requests in all on one DP rank for closed loop, saturation and static load, and clients that wait."""
    asked = p.concurrency
    if p.load == LOAD_STATIC:
        asked = default_to(p.inference_batch_size, p.concurrency)
    clients = max(1.0, asked / p.attention_dp)
    total = default_to(p.num_prompts, REQUESTS_PER_CLIENT * p.concurrency) / p.attention_dp
    if p.load == LOAD_SATURATION:
        total = default_to(p.num_prompts / p.attention_dp, SATURATION_REQUESTS * limit)
        clients = max(1.0, min(limit, total))
    resident = min(clients, limit)
    return resident, max(total, resident), clients - resident


@compiled_once(reads=("c",))
def evaluate(p, d, pools, pools_d, c, steps, r, o):
    """Fill the result record `o` (kernels.layout.RESULT, NaN before) for the input `p`, already resolved into `d`.

    `pools`, `pools_d` and `steps` are scratch arrays of two input, derived and PRICED records (the first of `steps` knows
    this deployment: who changes what the step model reads forgets it), `r` is a REPLAY record. Rows without an answer
    keep their memory columns and a reason; latency, throughput and cost stay NaN.
    """
    c = borrowed(c)
    o.over_ceiling = 0.0
    o.saturated = 0.0
    if p.disaggregate > 0.0:
        evaluate_pools(p, borrowed(pools), borrowed(pools_d), c, borrowed(steps), r, o)
        return
    fill_memory(d, o)
    if d.reason != reasons.OK:
        return
    mean = 0.5 * (1.0 + p.length_range)
    isl = max(1.0, p.isl * mean)
    osl = max(1.0, p.osl * mean)
    cached = cached_tokens(isl, p)
    limit = residents(isl, osl, p, d)
    waiting_us = 0.0
    s = borrowed(steps)[0]
    if p.load == LOAD_RATE:
        resident, waiting_us = open_load(limit, isl, osl, cached, p, d, c, s, r, o)
        decode_step_us(max(1.0, r.decoding), isl + 0.5 * osl, p, d, c, s)
    else:
        resident, total, waiting = closed_population(limit, p)
        if p.load == LOAD_STATIC:
            static_batch(resident, isl, osl, cached, p, d, c, s, r)
        else:
            front_us = loop_front_us(resident * p.attention_dp, isl, p, c) if waiting <= 0.0 else 0.0
            replay(resident, total, isl, osl, (1.0 - p.length_range) / mean, cached, front_us, p, d, c, s, r)
        if waiting > 0.0:
            o.over_ceiling = 1.0
            waiting_us = waiting / r.requests_per_us
    fill_operating_point(resident, waiting_us, isl, osl, p, d, c, s, r, o)


@kernel
def open_load(limit, isl, osl, cached, p, d, c, s, r, o):
    """An offered rate: (resident requests, wait beyond the steady state us); marks `o` saturated where the rate is too high.

    A saturated queue grows for as long as requests come: the mean wait over num_prompts requests is half of them
    times the gap between service and arrival intervals.
    """
    rate = p.request_rate / US_PER_S / p.attention_dp
    replay(limit, limit * MANY_WAVES, isl, osl, 1.0, cached, 0.0, p, d, c, s, r)
    if r.requests_per_us <= rate:
        o.saturated = 1.0
        o.over_ceiling = 1.0
        total = default_to(p.num_prompts, REQUESTS_PER_CLIENT * limit * p.attention_dp) / p.attention_dp
        waiting_us = max(0.0, 0.5 * total * (1.0 / r.requests_per_us - 1.0 / rate))
    else:
        waiting_us = 0.0
        settle_open(rate, limit, arrival_variability(p), isl, osl, cached, p, d, c, s, r)
    return min(limit, r.requests_per_us * (r.ttft_us + r.tpot_us * (osl - 1.0))), waiting_us


@kernel
def fill_operating_point(resident, waiting_us, isl, osl, p, d, c, s, r, o):
    """Latency, throughput, step split and cost of a replay `r` with `resident` requests on each rank.

    s.parts: the split of a decode step of r.decoding sequences.
    """
    context = isl + 0.5 * osl
    fill_steps(context, resident, p, d, c, s.parts, r, o)
    to_first_us = r.ttft_us * prefill_scale(p, d, c, s) + waiting_us
    if p.kv_offload_gib_per_gpu > 0.0:
        to_first_us += offload_fetch_us(cached_tokens(isl, p), p, d)
    host_latency(to_first_us, r.tpot_us, r.pure_step_us, resident * p.attention_dp, isl, osl, p, c, o)
    o.resident = resident * p.attention_dp
    o.requests_per_s = r.requests_per_us * US_PER_S * p.attention_dp
    fill_cost(p, d.gpus, d.gpus, d.gpus, isl, osl, o.requests_per_s, o)
