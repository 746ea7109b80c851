"""Steady state of continuous batching, and what a closed-loop client sees.

A closed loop holds C requests in flight. Its run has an opening burst (C prompts at once), then waves: a request that
ends is replaced at once, so arrivals stay as clumped as the ends of the wave before, spread by the length range.
`replay` follows the waves with a fluid queue in front of prefill; between prompts, all steps are pure decode.
"""

import numpy as np

from kernels.coefficients import NEAR_DECODE, NEAR_PROMPT
from kernels.engines import EXCLUSIVE_PREFILL, engine_default
from kernels.jit import inlined, kernel
from kernels.layout import PART_PP_COMM
from kernels.nearby import nearby_us
from kernels.pipeline import chunked_trips, held_up, micro_batch, trips_per_token
from kernels.speculation import draft_us, step_count_spread, tokens_per_step
from kernels.step import step_us

MAX_WAVES = 12
BRIDGE = 0.15
"""Variance of a closed loop's backlog near saturation over that of an open queue: matched to request-by-request runs."""


@inlined
def is_exclusive(p):
    """Whether prefill and decode never share a step (engine preset unless given)."""
    if np.isnan(p.exclusive_prefill):
        return engine_default(EXCLUSIVE_PREFILL, p.engine) > 0.0
    return p.exclusive_prefill > 0.0


@kernel
def decode_step_us(running, context, p, d, c, s):
    """One pure decode step of `running` sequences of mean cached length `context` on one DP rank, us.

    Under pipeline parallelism `running` sequences form micro-batches (kernels.pipeline): a token takes one trip of a
    micro-batch through all stages, or more; waiting counts as pipeline communication. The draft of speculation is part
    of the step.
    """
    queries = p.speculative_num_tokens + 1.0
    batch = micro_batch(running, p)
    t = step_us(p, d, c, batch, batch * context, queries, 0.0, 0.0, 0.0, s)
    t = nearby_us(t, NEAR_DECODE, batch, context, p, c, s.parts)
    waiting_us = t * (trips_per_token(running, p) - 1.0)
    s.parts[PART_PP_COMM] += waiting_us
    return t + waiting_us + draft_us(t, p.speculative_num_tokens, p.speculative_draft_cost_factor)


@kernel
def mixed_step_us(running, context, prompts, tokens, prior, p, d, c, s):
    """One step with `tokens` new prompt tokens of `prompts` prompts (their computed tokens `prior`, summed), us.

    `running` decoding sequences share it unless the engine keeps prefill apart.
    """
    queries = p.speculative_num_tokens + 1.0
    batch = 0.0 if is_exclusive(p) else micro_batch(running, p)
    t = step_us(p, d, c, batch, batch * context, queries, prompts, tokens, prior, s)
    t = nearby_us(t, NEAR_PROMPT, running, (tokens + prior) / prompts, p, c, s.parts)
    if batch > 0.0 and p.speculative_draft_cost_factor > 0.0:
        t += draft_us(
            t * batch * queries / (batch * queries + tokens),
            p.speculative_num_tokens,
            p.speculative_draft_cost_factor,
        )
    return t


@inlined
def prompt_chunk(running, new_tokens, p, d):
    """Prompt tokens of one request in one step: what budget and chunk limit leave beside the decodes (at least 1).

    An unlimited budget (0) has room for the decodes as well.
    """
    room = d.token_budget
    if not is_exclusive(p) and p.max_num_batched_tokens != 0.0:
        room -= micro_batch(running, p) * (p.speculative_num_tokens + 1.0)
    room = max(1.0, room)
    chunk = min(new_tokens, room)
    if p.chunked_prefill_size > 0.0:
        chunk = min(chunk, p.chunked_prefill_size)
    return chunk, room


@kernel
def prompt_service_us(running, context, new_tokens, cached, alone, p, d, c, s):
    """Prefill of one prompt beside `running` decodes: (steps, time in those steps, us).

    `alone`: the prompt has its steps to itself; else prompts queue and every step is filled to the budget, so a
    prompt pays for its share of a full step. Chunks attend to everything computed before them: the mean chunk is
    priced, at the mean prior length.
    """
    chunk, room = prompt_chunk(running, new_tokens, p, d)
    n_chunks = np.ceil(new_tokens / chunk)
    mean_chunk = new_tokens / n_chunks
    prior = cached + 0.5 * (new_tokens - mean_chunk)
    if alone:
        t = mixed_step_us(running, context, 1.0, mean_chunk, prior, p, d, c, s)
        return n_chunks, t * chunked_trips(n_chunks, p)
    # Not prompts x chunk, which rounding sets apart from the budget: full steps have equally many tokens at every load
    tokens = room if p.chunked_prefill_size <= 0.0 else room * (mean_chunk / chunk)
    prompts = tokens / mean_chunk
    if p.max_prefill_seqs > 0.0 and prompts > p.max_prefill_seqs:
        prompts = p.max_prefill_seqs
        tokens = prompts * mean_chunk
    t = mixed_step_us(running, context, prompts, tokens, prompts * prior, p, d, c, s)
    share = n_chunks / prompts
    return share, share * t / p.pp


@kernel
def decoding_at_once(clients, steps, context, new_tokens, cached, p, d, c, s):
    """Sequences that decode at once, `clients` at most: (sequences, steps per prompt, us per prompt) under full load.

    Where prompts need more steps than outputs give, every step is mixed and completions match the prompts that fit:
    running / steps = prompts per step; the other clients wait for prefill. With prompts = (budget - running) / prompt
    tokens that is running = steps budget / (prompt + steps), where whole chunks then move it a little.
    """
    decoding = clients
    share, service = prompt_service_us(decoding, context, new_tokens, cached, False, p, d, c, s)
    if is_exclusive(p) or decoding * share <= steps:
        return decoding, share, service
    drafted = p.speculative_num_tokens + 1.0
    decoding = max(1.0, min(clients, steps * d.token_budget / (new_tokens + steps * drafted)))
    share, service = prompt_service_us(decoding, context, new_tokens, cached, False, p, d, c, s)
    for _ in range(6):
        decoding = min(clients, max(1.0, 0.5 * (decoding + steps / share)))
        share, service = prompt_service_us(decoding, context, new_tokens, cached, False, p, d, c, s)
    return decoding, share, service


@inlined
def queue_us(prompts, arrivals_us, service_us):
    """Mean wait of `prompts` that arrive at random over `arrivals_us` at a server of `service_us` each, us.

    x = n s - T is the work left when arrivals end: w = (x + sqrt(x^2 + 4 v n s^2)) / 4, which is x / 2 (fluid) when
    the server falls behind and rho s / (2 (1 - rho)) (M/D/1) when it keeps up. Exactly n arrive, so near rho = 1 the
    backlog is a bridge, not a walk: v falls from 1 to BRIDGE.
    """
    left = prompts * service_us - arrivals_us
    load = min(1.0, prompts * service_us / max(arrivals_us, 1e-9))
    variance = 1.0 - (1.0 - BRIDGE) * load
    return 0.25 * (left + np.sqrt(left * left + 4.0 * variance * prompts * service_us * service_us))


@inlined
def stages_wait_us(arrivals_per_us, own_us, step_us, alone, chunks, bunch, exclusive, pp):
    """What stages that wait for a prompt of their pipeline add to the `own_us` that it keeps one of them, us."""
    tick_us = max(step_us, alone / chunks) / pp
    longer_us = max(0.0, own_us - chunks * step_us / pp) if exclusive else own_us
    return longer_us * (held_up(arrivals_per_us * tick_us, chunks, bunch, pp) - 1.0)


@inlined
def bunched(arrived, busy):
    """Mean backlog over all prompts of a wave, where a share `arrived` comes before the first is served: 0 to 1/2.

    Then arrivals follow the steps: each brings `busy` times what it serves (steps that serve a wave over steps in which it ends).
    The backlog falls by 1 - busy per prompt served: a triangle a^2 / (2 (1 - busy)), cut off where the wave ends.
    """
    gap = 1.0 - busy
    if arrived <= gap:
        return 0.5 * arrived * arrived / max(gap, 1e-9)
    left = (arrived - gap) / busy
    return 0.5 * arrived * arrived + 0.5 * (arrived + left) * (1.0 - arrived)


@inlined
def bunched_beside(front_us, step_us, groups, spread_steps):
    """Mean backlog of a wave as a share of its work, where prefill shares its steps with decode.

    Requests end over as many steps as prompts were prefilled in (`groups`) and outputs spread by. Those that end while
    the first replacement is in the front end meet there: without prefill steps go on quickly.
    """
    if front_us <= 0.0:
        return 0.0
    ends = groups + spread_steps
    # who is back during a step waits for its end
    return bunched(min(1.0, (front_us / step_us + 1.0) / ends), groups / ends)


@inlined
def bunched_apart(front_us, ends_us, busy_us):
    """The same where prefill stops decode: requests end over `ends_us` of decoding, and a wave is `busy_us` of prefill.

    m = front / ends of the wave, as a share, is in the front end when decode stops; it arrives over front_us and takes
    m busy: a mean backlog of half the difference.
    """
    if front_us <= 0.0 or ends_us >= busy_us:
        return 0.0
    return 0.5 * (1.0 - ends_us / busy_us) * min(1.0, front_us / max(ends_us, 1e-9))


@inlined
def sum_waves(
    clients,
    waves,
    spread_us,
    steps_us,
    step_us,
    bunch,
    burst,
    alone,
    full,
    extra_alone,
    extra_full,
    exclusive,
    chunks,
    pp,
    lockstep,
    front_us,
    catches_up,
):
    """Sums over the waves of `follow_waves`: (TTFT, decode, decode beside prefill, weight).

    `catches_up`: whether a wave's arrivals may spread over as long as a request lives. Where they cannot, waves do not
    wait for each other's TTFT and the processor works on several at once.
    """
    n_waves = int(min(MAX_WAVES, np.ceil(waves)))
    opening = 0.5 * (clients + bunch) * burst
    ttft_sum = 0.0
    decode_sum = 0.0
    prefill_sum = 0.0
    weight_sum = 0.0
    arrivals_us = 0.0
    square = 0.0
    for wave in range(n_waves):
        last = wave == n_waves - 1
        weight = waves - wave if last else 1.0
        busy_us = clients * (burst if wave == 0 else full)
        # half of the own wave still prefills after a request started, half of the next one before it ends
        others = 0.5 * (clients - 1.0) if last and waves <= MAX_WAVES else clients - 1.0
        crowd = 1.0
        if wave == 0 or lockstep:
            ttft = opening
        else:
            if exclusive:
                waiting = bunched_apart(front_us, spread_us * np.sqrt(wave), busy_us)
            else:
                waiting = bunched_beside(front_us, step_us, clients / bunch, spread_us / step_us)
            waits = max(queue_us(clients, arrivals_us, full), waiting * busy_us)
            ttft = alone + waits * (clients - 1.0) / clients
            others *= 1.0 - waiting
            crowd = min(1.0, busy_us / max(arrivals_us, 1e-9))
        if lockstep:
            others = 0.5 * (clients - bunch)
        extra = crowd * extra_full + (1.0 - crowd) * extra_alone
        if pp > 1.0:
            rate = clients / max(arrivals_us, step_us / pp)
            extra += stages_wait_us(rate, extra, step_us, alone, chunks, bunch, exclusive, pp)
        decode = steps_us + others * extra
        ttft_sum += weight * max(ttft, alone)
        decode_sum += weight * decode
        prefill_sum += weight * min(decode, others * (crowd * full + (1.0 - crowd) * alone))
        weight_sum += weight
        square = max(busy_us * busy_us, square) + spread_us * spread_us
        arrivals_us = np.sqrt(square)
        if catches_up and arrivals_us > decode + ttft:
            arrivals_us = decode + ttft
            square = arrivals_us * arrivals_us
    return ttft_sum, decode_sum, prefill_sum, weight_sum


@inlined
def follow_waves(
    clients,
    total_requests,
    spread_us,
    steps_us,
    step_us,
    bunch,
    burst,
    alone,
    full,
    extra_alone,
    extra_full,
    exclusive,
    chunks,
    pp,
    front_us,
):
    """Means over a closed-loop run of one queue in front of prefill: (TTFT us, decode us, share of decode beside prefill).

    `clients` requests in flight, `total_requests` in all; `spread_us` width of one request's decode time over requests,
    `steps_us` its decode time undisturbed in steps of `step_us`. A prompt takes `alone` us by itself, one leaves per
    `full` us when they queue (`burst` in the opening), `bunch` of them with one step, and each keeps a stage from every
    decoding request for `extra_alone` or `extra_full` us. It takes `chunks` steps alone; `pp` stages wait for each other
    (`kernels.pipeline.held_up`). Ends spread over sqrt(T^2 + spread^2) where starts did over T, at most over
    a request's life. Where prefill is exclusive, lengths that spread by less than a step keep whole waves in lockstep;
    engines that mix lose it, because replacements reach them one by one.
    """
    waves = max(1.0, total_requests / clients)
    bunch = min(bunch, clients)
    lockstep = exclusive and spread_us < step_us
    widest_us = np.sqrt((clients * max(burst, full)) ** 2 + MAX_WAVES * spread_us * spread_us)
    shortest_us = steps_us + min(alone, 0.5 * (clients + bunch) * burst)
    asked = (clients, waves, spread_us, steps_us, step_us, bunch, burst, alone, full, extra_alone, extra_full)
    prompt = (exclusive, chunks, pp, lockstep, front_us)
    if widest_us < shortest_us:
        ttft, decode, prefill, weight = sum_waves(*asked, *prompt, False)
    else:
        ttft, decode, prefill, weight = sum_waves(*asked, *prompt, True)
    return ttft / weight, decode / weight, prefill / max(decode, 1e-9)


@kernel
def replay(clients, total_requests, isl, osl, spread, cached, front_us, p, d, c, s, r):
    """A closed-loop benchmark on one DP rank; fills the record `r` (REPLAY).

    `clients` requests in flight on this rank, `total_requests` in all, mean lengths `isl` and `osl`, `cached` prompt
    tokens found in the prefix cache, `spread` the full width of the output length distribution over its mean, `front_us` what
    the front end takes before a request can be scheduled (it counts in the rate; callers add it to TTFT).
    `s` (kernels.priced.PRICED) keeps the split of the pure decode step.
    """
    gain = tokens_per_step(p.speculative_num_tokens, p.speculative_acceptance_rate)
    new_tokens = max(1.0, isl - cached)
    context = isl + 0.5 * osl
    intervals = max(1.0, osl - 1.0)
    steps = intervals / gain
    decoding, share, full = decoding_at_once(clients, steps, context, new_tokens, cached, p, d, c, s)
    burst_share, burst = prompt_service_us(0.5 * decoding, context, new_tokens, cached, False, p, d, c, s)
    alone_steps, alone = prompt_service_us(decoding, context, new_tokens, cached, True, p, d, c, s)
    pure = decode_step_us(decoding, context, p, d, c, s)
    exclusive = is_exclusive(p)
    chance = step_count_spread(intervals, p.speculative_num_tokens, p.speculative_acceptance_rate)
    spread = np.sqrt(spread * spread + chance * chance)
    trips = chunked_trips(alone_steps, p)
    ttft, decode, mixed_share = follow_waves(
        clients,
        total_requests,
        (spread if exclusive else max(spread, p.decode_spread)) * steps * pure,
        steps * pure,
        pure,
        max(1.0, 1.0 / burst_share),
        burst,
        alone,
        full,
        max(0.0, alone if exclusive else alone - trips * pure) * (alone_steps / p.pp / trips),
        full if exclusive else max(0.0, full - share * pure / p.pp),
        exclusive,
        alone_steps,
        p.pp,
        front_us,
    )
    r.mixed_step_us = full / share * p.pp
    if decoding < clients:
        # every step is mixed; what does not decode waits for prefill (Little's law)
        decode = steps * r.mixed_step_us
        ttft = max(alone, (clients / decoding - 1.0) * decode)
        mixed_share = 1.0
    r.ttft_us = ttft
    r.tpot_us = decode / intervals
    r.requests_per_us = clients / (front_us + ttft + decode)
    r.decoding = decoding
    r.pure_step_us = pure
    r.mixed_share = mixed_share
    r.prompt_us = alone
    r.pure_tpot_us = steps * pure / intervals


@kernel
def static_batch(batch, isl, osl, cached, p, d, c, s, r):
    """One static batch: all prompts are prefilled, then all decode together; fills the record `r` (REPLAY).

    `s` keeps the split of the decode step.
    """
    gain = tokens_per_step(p.speculative_num_tokens, p.speculative_acceptance_rate)
    intervals = max(1.0, osl - 1.0)
    steps = intervals / gain
    context = isl + 0.5 * osl
    _, full = prompt_service_us(0.0, context, max(1.0, isl - cached), cached, False, p, d, c, s)
    _, alone = prompt_service_us(0.0, context, max(1.0, isl - cached), cached, True, p, d, c, s)
    pure = decode_step_us(batch, context, p, d, c, s)
    r.ttft_us = max(alone, batch * full)
    r.tpot_us = steps * pure / intervals
    r.requests_per_us = batch / (r.ttft_us + steps * pure)
    r.decoding = batch
    r.pure_step_us = pure
    r.mixed_step_us = pure
    r.mixed_share = 0.0
    r.prompt_us = alone
    r.pure_tpot_us = r.tpot_us
