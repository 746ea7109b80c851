"""Steps that were priced already for one deployment: what neighbouring rows of a grid share.

Rows that differ only in what the step model does not read (token budget, lengths, load, limits, price) ask for many a
step again; and steps of different batches with equally many tokens share all work that depends on tokens alone. Both
are found again by exactly their inputs, so a row's values do not depend on the rows before it. A place holds the
last that fell on it; which place that is follows from the inputs alone.
"""

import numpy as np

from kernels.jit import inlined
from kernels.layout import N_PARTS
from kernels.mode import record_type

N_STEPS, N_TOKEN_WORKS = 128, 32
"""Places: a few times what the loads on one deployment ask for, and few enough to stay in the first-level cache."""

STEP = record_type(
    [
        (name, np.float64)
        for name in (
            "deployment decode_seqs decode_context decode_queries prefill_seqs prefill_tokens prefill_prior us"
        ).split()
    ]
    + [("parts", np.float64, (N_PARTS,))]
)
"""A priced step: its deployment's number, its batch, its time and split."""

TOKEN_WORK = record_type(
    [
        (name, np.float64)
        for name in (
            "deployment tokens mixed "
            # all layers together: attention projections; MLP, router and shared GEMMs; routed experts; element-wise
            "projections_us ffn_gemm_us experts_us other_us "
            # one all-reduce by itself; exposed: of MLPs and MoE layers, expert exchange, pipeline hops
            "all_reduce_us ffn_comm_us ep_comm_us hops_us"
        ).split()
    ]
)
"""What a step of so many tokens takes whatever its batch is made of (kernels.token_work)."""

PRICED = record_type(
    [
        ("deployment", np.float64),
        ("parts", np.float64, (N_PARTS,)),
        ("steps", STEP, (N_STEPS,)),
        ("works", TOKEN_WORK, (N_TOKEN_WORKS,)),
    ]
)
"""Scratch of whoever prices steps: the split of the last one asked for, and those remembered for this deployment."""


@inlined
def forget(s):
    """The record `s` (PRICED) now belongs to another deployment: nothing in it is found again."""
    s.deployment += 1.0


@inlined
def place(spread, n_places):
    """Place of inputs that `spread` (a sum of them, each times an irrational number) tells apart."""
    if not spread < 1e12:
        return 0
    return int((spread - np.floor(spread)) * n_places)


@inlined
def step_at(decode_seqs, decode_context, prefill_seqs, prefill_tokens, s):
    """Where a step of this batch is remembered, a STEP record: it may hold another batch."""
    spread = decode_seqs * 0.618033988749895 + decode_context * 0.754877666246693
    spread += prefill_seqs * 0.569840290998053 + prefill_tokens * 0.819172513396165
    return s.steps[place(spread, N_STEPS)]


@inlined
def work_at(tokens, mixed, s):
    """Where the work of a step of so many tokens is remembered, a TOKEN_WORK record: it may hold other tokens."""
    return s.works[place(tokens * 0.618033988749895 + mixed * 0.414213562373095, N_TOKEN_WORKS)]
