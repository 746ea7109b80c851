"""Time of one engine step: the one price of work, for the closed form and for the simulator.

A step runs `decode_seqs` sequences of `decode_queries` query tokens each and `prefill_tokens` new prompt tokens
through every layer of one attention-DP rank (all ranks work alike; experts see the tokens of all of them):

    t = sum over layers (GEMM + attention + experts + exposed collectives + element-wise) + head + hops + host

Pipeline stages run the batch one after the other here; `kernels.batching` keeps pp batches in flight.
"""

import numba
import numpy as np
from numba import types

from kernels import once
from kernels.attention_layers import attention_us, linear_layer_us
from kernels.borrow import borrowed
from kernels.coefficients import HOST_MIXED_SCALE, OP_HOST, OP_SCALE
from kernels.collectives import all_gather_us
from kernels.elementwise import elementwise_us
from kernels.exposed import all_reduce_exposed_us, comm_overlap
from kernels.gemm import gemm_us
from kernels.hostcost import host_us, kernel_floor_us, sampling_passes
from kernels.jit import inlined, kernel
from kernels.layout import (
    DERIVED,
    PART_ATTENTION,
    PART_EP_COMM,
    PART_GEMM,
    PART_HOST,
    PART_MOE,
    PART_OTHER,
    PART_PP_COMM,
    PART_TP_COMM,
)
from kernels.priced import PRICED, step_at
from kernels.projections import latent_context_us
from kernels.token_work import token_work


@inlined
def head_us(rows, p, d, c):
    """LM head, logits gather and sampling of `rows` rows on the last stage, us: (gemm, comm, other)."""
    gemm = gemm_us(rows, d.vocab_local, p.hidden_size, d.head_dtype, p, c)
    comm = all_gather_us(rows * p.vocab_size * 2.0, p.tp, p, c) if p.tp > 1.0 else 0.0
    other = elementwise_us(sampling_passes(p) * rows * p.vocab_size * 2.0, p, c) if p.sampling > 0.0 else 0.0
    return gemm, comm, other


@inlined
def fold_communication(parts):
    """comm_model=builtin: communication is part of layer time, without a breakdown."""
    parts[PART_OTHER] += parts[PART_TP_COMM] + parts[PART_EP_COMM] + parts[PART_PP_COMM]
    parts[PART_TP_COMM] = 0.0
    parts[PART_EP_COMM] = 0.0
    parts[PART_PP_COMM] = 0.0


@inlined
def mixed_penalty(p, d):
    """Extra share of a step that mixes prefill and decode: given, or 0.15 under piecewise graphs, else 0."""
    if not np.isnan(p.mixed_batch_penalty):
        return p.mixed_batch_penalty
    return 0.15 if d.graph_mode == 1.0 else 0.0


@inlined
def price_step(
    p, d, c, decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, s
):
    """`step_model` of a batch that is not remembered; the split goes to s.parts."""
    decode_tokens = decode_seqs * decode_queries
    tokens = decode_tokens + prefill_tokens / p.cp
    mixed = prefill_tokens > 0.0
    w = token_work(tokens, mixed, p, d, c, s)
    gemm = w.projections_us + latent_context_us(prefill_tokens + prefill_prior, decode_tokens, p, d, c)
    attention = attention_us(
        decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, p, d, c
    )
    if d.linear_layers > 0.0:
        linear_gemm, linear_core = linear_layer_us(
            decode_seqs, decode_queries, prefill_seqs, prefill_tokens, p, d, c
        )
        gemm += d.linear_layers * linear_gemm
        attention += d.linear_layers * linear_core
    hiding_us = (gemm + attention) / p.n_layers
    attention_comm = p.n_layers * all_reduce_exposed_us(
        w.all_reduce_us, comm_overlap(mixed, p), hiding_us, p, c
    )
    head_gemm, head_comm, head_other = head_us(decode_tokens + prefill_seqs, p, d, c)

    scale = c[OP_HOST, HOST_MIXED_SCALE] if mixed else 1.0
    parts = s.parts
    parts[PART_GEMM] = scale * (gemm + w.ffn_gemm_us + head_gemm) * c[OP_SCALE, PART_GEMM]
    parts[PART_ATTENTION] = scale * attention * c[OP_SCALE, PART_ATTENTION]
    parts[PART_MOE] = scale * w.experts_us * c[OP_SCALE, PART_MOE]
    parts[PART_OTHER] = scale * (w.other_us + head_other) * c[OP_SCALE, PART_OTHER]
    parts[PART_TP_COMM] = (attention_comm + w.ffn_comm_us + head_comm) * c[OP_SCALE, PART_TP_COMM]
    parts[PART_EP_COMM] = w.ep_comm_us * c[OP_SCALE, PART_EP_COMM]
    parts[PART_PP_COMM] = w.hops_us * c[OP_SCALE, PART_PP_COMM]
    parts[PART_HOST] = 0.0
    device = parts.sum()
    if p.comm_model > 0.0:
        fold_communication(parts)
    if mixed and decode_seqs > 0.0:
        penalty = mixed_penalty(p, d)
        parts[PART_OTHER] += penalty * device
        device *= 1.0 + penalty
    floor = kernel_floor_us(mixed, p, d)
    parts[PART_HOST] = max(0.0, floor - device) + host_us(decode_seqs, prefill_seqs, prefill_tokens, p, d, c)
    return parts.sum()


@kernel
def step_us(
    p, d, c, decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, s
):
    """`step_model` through its symbol."""
    return step_model(
        p,
        d,
        c,
        decode_seqs,
        decode_context,
        decode_queries,
        prefill_seqs,
        prefill_tokens,
        prefill_prior,
        s,
    )


@once.compiled_once(reads=("c",))
def step_model(
    p, d, c, decode_seqs, decode_context, decode_queries, prefill_seqs, prefill_tokens, prefill_prior, s
):
    """Time of one engine step of one attention-DP rank, us; `s` (kernels.priced.PRICED) receives its split in s.parts.

    `decode_context`: cached tokens of the decoding sequences, summed. `prefill_tokens`: new prompt tokens, summed
    over `prefill_seqs` prompts (a chunk each); `prefill_prior`: their tokens computed before, summed.
    `p` input record, `d` derived record (kernels.resolve), `c` coefficients (N_OPS, N_COEF). Steps of the same
    deployment are remembered in `s`: who changes what the step model reads calls `forget`.
    """
    c = borrowed(c)
    if decode_seqs * decode_queries + prefill_tokens <= 0.0:
        s.parts[:] = 0.0
        return 0.0
    known = step_at(decode_seqs, decode_context, prefill_seqs, prefill_tokens, s)
    if (
        known.deployment == s.deployment
        and known.decode_seqs == decode_seqs
        and known.decode_context == decode_context
        and known.decode_queries == decode_queries
        and known.prefill_seqs == prefill_seqs
        and known.prefill_tokens == prefill_tokens
        and known.prefill_prior == prefill_prior
    ):
        s.parts[:] = known.parts
        return known.us
    t = price_step(
        p,
        d,
        c,
        decode_seqs,
        decode_context,
        decode_queries,
        prefill_seqs,
        prefill_tokens,
        prefill_prior,
        s,
    )
    known.deployment = s.deployment
    known.decode_seqs = decode_seqs
    known.decode_context = decode_context
    known.decode_queries = decode_queries
    known.prefill_seqs = prefill_seqs
    known.prefill_tokens = prefill_tokens
    known.prefill_prior = prefill_prior
    known.us = t
    known.parts[:] = s.parts
    return t


def load_step(input_dtype):
    """Register the step model for input records of `input_dtype`, for callbacks that call it (kernels.once)."""
    once.load(
        __name__,
        step_model.__name__,
        (
            numba.from_dtype(input_dtype),
            numba.from_dtype(DERIVED),
            types.Array(types.float64, 2, "C", readonly=True),
            *(types.float64,) * 6,
            numba.from_dtype(PRICED),
        ),
    )
