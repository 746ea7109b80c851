"""Steady state under an offered rate: random arrivals at one attention-DP rank.

With rate L (requests/us), per request:

    prompts that share a prefill step   k = a / (1 - exp(-a)),  a = L x mean step: arrivals during one step
    what a prompt costs those who decode  x = (step of k prompts - the decode steps it replaces) / k
    decode                              D = (steps x pure(1 + n) + q x) / (1 - L x),  n = L D others decode
    wait                                W = L b^2 v / (2 k (1 - L f)) + residual of the decode step that it interrupts

pure(m): a decode step of m sequences (an arrival sees n others beside itself); b: a prefill step of k prompts; f: time per
prompt in full steps; v: variability of arrivals. W is Pollaczek-Khinchine where every prompt has its own steps. q is
what queued up behind a prompt when its output begins: it delays all of the decode where prefill is exclusive.
"""

import numpy as np

from kernels.batching import decode_step_us, is_exclusive, mixed_step_us, prompt_service_us
from kernels.jit import kernel
from kernels.pipeline import chunked_trips, held_up
from kernels.speculation import tokens_per_step

ROUNDS = 8
"""Of the secant search for n: L D(n) is nearly straight in n."""
CLOSE = 1e-3
MOST_SLOPE = 0.95
MOST_LOAD = 0.98
"""Beyond it a steady state is far longer than any run."""


@kernel
def shared_step(rate_per_us, others, context, new_tokens, cached, room, full, alone, pure, p, d, c, s):
    """Prefill steps that random arrivals share: (prompts in one, its time us, time of the others in a prompt's own step us).

    `room`: prompts that one step holds; prompts that fill a step by themselves share none. A pipeline's first stage
    takes a batch every step / pp.
    """
    extra = max(0.0, (room * full - alone) / (room - 1.0)) if room > 1.001 else 0.0
    per_stage = rate_per_us / p.pp
    arrivals = per_stage * pure
    for _ in range(3):
        prompts, step, arrivals = _step_of_arrivals(per_stage, arrivals, room, alone, extra, pure)
    if room > 1.001 and prompts > 1.001:
        priced = mixed_step_us(others, context, prompts, prompts * new_tokens, prompts * cached, p, d, c, s)
        extra = (min(max(priced, alone), step) - alone) / (prompts - 1.0)
        prompts, step, arrivals = _step_of_arrivals(per_stage, arrivals, room, alone, extra, pure)
    return prompts, step, min(arrivals, room - 1.0) * extra


@kernel
def _step_of_arrivals(rate_per_us, arrivals, room, alone, extra, pure):
    """(prompts of a prefill step, its time, arrivals during a mean step) from `arrivals` during a step."""
    some = -np.expm1(-arrivals)
    prompts = min(room, arrivals / some) if arrivals > 1e-9 else 1.0
    step = alone + (prompts - 1.0) * extra
    return prompts, step, rate_per_us * (some * step + (1.0 - some) * pure)


@kernel
def slot_wait_us(held_us, resident, limit, variability):
    """Wait for one of `limit` places, each held for `held_us`, `resident` of them in use at the mean, us.

    Sakasegawa's approximation of a queue with many servers: T / s x rho^(sqrt(2 (s + 1)) - 1) / (1 - rho) x v / 2.
    """
    rho = min(MOST_LOAD, resident / limit)
    return held_us / limit * rho ** (np.sqrt(2.0 * (limit + 1.0)) - 1.0) / (1.0 - rho) * 0.5 * variability


@kernel
def open_state(others, rate_per_us, limit, variability, isl, osl, cached, p, d, c, s, r):
    """Fill the record `r` (REPLAY) for `others` sequences that decode beside a request; returns the n that follows."""
    gain = tokens_per_step(p.speculative_num_tokens, p.speculative_acceptance_rate)
    new_tokens = max(1.0, isl - cached)
    context = isl + 0.5 * osl
    intervals = max(1.0, osl - 1.0)
    steps = intervals / gain
    exclusive = is_exclusive(p)
    share, full = prompt_service_us(others, context, new_tokens, cached, False, p, d, c, s)
    chunks, alone = prompt_service_us(others, context, new_tokens, cached, True, p, d, c, s)
    pure = decode_step_us(1.0 + others, context, p, d, c, s)
    full_step = full / share
    room = max(1.0, 1.0 / share)
    full = min(full, alone)
    prompts, step, sharing = shared_step(
        rate_per_us, others, context, new_tokens, cached, room, full, alone, pure, p, d, c, s
    )
    busy = min(1.0, rate_per_us * step / p.pp / prompts)
    # what a prompt keeps a stage from those who decode, and what the stages that then wait for it add
    trips = chunked_trips(chunks, p)
    longer = max(0.0, step - trips * pure)
    idle = longer * (held_up(rate_per_us * step / p.pp, chunks, room, p.pp) - 1.0)
    extra = ((step if exclusive else longer) + idle) * (chunks / p.pp / trips) / prompts
    decoding_only = -np.expm1(-others) * (1.0 - busy)
    wait = 0.5 * busy * step * variability / (1.0 - min(MOST_LOAD, rate_per_us * full))
    wait += 0.5 * decoding_only * pure / p.pp
    # whoever comes during all chunks but the last one fills the last one's step
    followed = -np.expm1(-rate_per_us * alone * (chunks - 1.0) / chunks)
    own = alone + sharing + followed * max(0.0, chunks * full_step - alone)
    queued = rate_per_us * (wait + own) * (1.0 if exclusive else min(1.0, share))
    decode = (steps * pure + queued * extra) / (1.0 - min(MOST_LOAD, rate_per_us * extra))
    if not exclusive:
        decode = min(decode, steps * max(pure, full_step * p.pp))
    wait += slot_wait_us(own + decode, rate_per_us * (own + decode), limit, variability)
    r.ttft_us = wait + own
    r.tpot_us = decode / intervals
    r.pure_tpot_us = steps * pure / intervals
    r.requests_per_us = rate_per_us
    r.decoding = 1.0 + others
    r.pure_step_us = pure
    r.mixed_step_us = full_step * p.pp
    r.mixed_share = min(1.0, rate_per_us * step / prompts)
    r.prompt_us = alone
    return rate_per_us * decode


@kernel
def settle_open(rate_per_us, limit, variability, isl, osl, cached, p, d, c, s, r):
    """The least n = L D(n) up to `limit` sequences (secants from below); fills the record `r` (REPLAY)."""
    here = 0.0
    found = open_state(here, rate_per_us, limit, variability, isl, osl, cached, p, d, c, s, r)
    following = min(limit, found)
    for _ in range(ROUNDS):
        before, found_before = here, found
        here = following
        found = open_state(here, rate_per_us, limit, variability, isl, osl, cached, p, d, c, s, r)
        if abs(found - here) <= CLOSE * (1.0 + here):
            return
        slope = 0.0
        if here > before:
            slope = min(MOST_SLOPE, max(0.0, (found - found_before) / (here - before)))
        following = min(limit, max(0.0, here + (found - here) / (1.0 - slope)))
