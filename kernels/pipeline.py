"""Pipeline parallelism: micro-batches in flight, rounds, bubbles, hops.

`running` sequences are cut into m micro-batches of b sequences. A micro-batch takes t for its trip through all pp
stages. Without a barrier a token of every sequence takes

    t x max(1, m / pp)

(fewer micro-batches than stages: every one still makes its trip; more: they wait for each other). With a barrier
after each round of G sequences the pipeline drains, and with v chunks of layers per rank

    t x max(1, (m + drain (pp - 1) / v) / pp) x running / G.

Serving has no backward pass: of a schedule's name only its forward part means something. V schedules (zbv-*) place
two chunks on each rank; zero-bubble ones let the next round enter while the last drains (drain = 0), half of it in
zbv-greedy-half; zbv-greedy-min trades all of it for memory.

Stages pass their batches on in order, so a pipeline moves on with the longest of the pp batches that are in it: a
step with prompts delays the others at every stage, unless they hold prompts too (`unshared_share`).
"""

import numpy as np

from kernels.auto import default_to, given
from kernels.jit import inlined, kernel

DRAIN_SHARE = np.array([1.0, 0.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0])
"""By schedule, in the registry's order: auto, zerobubble, zerobubble-heuristic, zbv-formatted, zbv-greedy-half,
zbv-greedy-min, seaailab-ilp, all (the best of them)."""
CHUNKS = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0])
"""Chunks of layers per rank that the schedule itself asks for."""


@inlined
def chunks_per_rank(p):
    """Virtual stages per pipeline rank: as given, else the schedule's."""
    return default_to(p.virtual_stages, CHUNKS[int(p.pipeline_schedule)])


@inlined
def hops(p):
    """Times that a micro-batch passes from rank to rank on its trip."""
    return p.pp * chunks_per_rank(p) - 1.0


@inlined
def drain_share(p):
    """Share of the drain bubble that stays between rounds."""
    return 0.0 if p.enable_zero_bubble > 0.0 else DRAIN_SHARE[int(p.pipeline_schedule)]


@inlined
def micro_batch(running, p):
    """Decoding sequences of one micro-batch; all of them without a pipeline."""
    if p.pp <= 1.0:
        return running
    if given(p.micro_batch_size):
        return min(running, p.micro_batch_size)
    even = min(running, default_to(p.global_batch_size, running)) / p.pp
    return min(running, max(1.0, even))


@kernel
def trips_per_token(running, p):
    """Time between two tokens of a sequence over the trip of one micro-batch."""
    if p.pp <= 1.0 or (not given(p.micro_batch_size) and not given(p.global_batch_size)):
        return 1.0
    in_round = min(running, default_to(p.global_batch_size, running))
    micro_batches = in_round / micro_batch(running, p)
    if not given(p.global_batch_size):
        return max(1.0, micro_batches / p.pp)
    drain = drain_share(p) * (p.pp - 1.0) / chunks_per_rank(p)
    return max(1.0, (micro_batches + drain) / p.pp) * running / in_round


@inlined
def chunked_trips(n_chunks, p):
    """Trips that a prompt of `n_chunks` chunks takes: stages work on successive chunks at once, the last pays the fill.

    max(1, (n + (pp - 1) / v) / pp)
    """
    return max(1.0, (n_chunks + (p.pp - 1.0) / chunks_per_rank(p)) / p.pp)


@kernel
def unshared_share(prompts_per_step, most, pp):
    """Share of the other pp - 1 stages that a prefill step holds up: 1 where steps with prompts are rare, 0 where all are full.

    With n prompts in a step, n Poisson of mean `prompts_per_step` and `most` at the most, E max(n_1, ..., n_pp) prompts
    hold up the pipeline per step in which E n are served:

        E max / E n = 1 + (pp - 1) x share,   E max = sum over k < most of 1 - P(n <= k)^pp.

    Exact for two stages; in deeper pipelines short batches catch up between, and the wait is up to 8 % shorter.
    """
    if pp <= 1.0 or prompts_per_step > 2.0 * most + 20.0:
        return 0.0
    if prompts_per_step < 1e-6:
        return 1.0
    held, served = 0.0, 0.0
    term = np.exp(-prompts_per_step)
    below = term
    for k in range(int(np.ceil(most))):
        held += 1.0 - below**pp
        served += 1.0 - below
        term *= prompts_per_step / (k + 1.0)
        below = min(1.0, below + term)
        if below > 1.0 - 1e-9:
            break
    return (held / served - 1.0) / (pp - 1.0)


@inlined
def held_up(prompts_per_step, chunks, most, pp):
    """Time that a prompt of `chunks` steps holds up the pipeline over the time that it keeps one stage.

    Its own chunks follow each other through the stages, so only the first and last of them leave others idle.
    """
    if pp <= 1.0:
        return 1.0
    room = most if chunks <= 1.0 else 1.0
    return 1.0 + (pp - 1.0) * unshared_share(prompts_per_step * chunks, room, pp) / chunks
