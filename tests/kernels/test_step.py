"""The step kernel against a plain twin, and what every step must obey."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.coefficients import roofline_coefficients
from kernels.layout import PART_EP_COMM, PART_GEMM, PART_MOE, PART_PP_COMM, PART_TP_COMM
from kernels.priced import N_STEPS, PRICED
from kernels.step import step_us
from tests.kernels.deployments import LATENT, MOE, derived, record

C = roofline_coefficients()


def step(p, decode_seqs=0.0, context=0.0, prefill_seqs=0.0, prefill_tokens=0.0, prior=0.0, queries=1.0):
    s = np.zeros(1, PRICED)
    total = step_us(
        p[0],
        derived(p)[0],
        C,
        decode_seqs,
        decode_seqs * context,
        queries,
        prefill_seqs,
        prefill_tokens,
        prior,
        s[0],
    )
    return total, s["parts"][0]


def roofline_gemm_us(m, n, k, width=2.0, tflops=989.4e12, gb_s=3350e9):
    return 1e6 * max(2 * m * n * k / tflops, (n * k * width + m * k * 2 + m * n * 2) / gb_s)


def dense_gemms_us(tokens, rows, p):
    h, heads, kv, dim = (float(p[k][0]) for k in ("hidden_size", "n_heads", "n_kv_heads", "head_dim"))
    ffn, vocab, layers = (float(p[k][0]) for k in ("ffn_dim", "vocab_size", "n_layers"))
    peaks = {"tflops": float(p["tflops_bf16"][0]) * 1e12, "gb_s": float(p["hbm_gb_s"][0]) * 1e9}
    layer = (
        roofline_gemm_us(tokens, (heads + 2 * kv) * dim, h, **peaks)
        + roofline_gemm_us(tokens, h, heads * dim, **peaks)
        + roofline_gemm_us(tokens, 2 * ffn, h, **peaks)
        + roofline_gemm_us(tokens, h, ffn, **peaks)
    )
    return layers * layer + roofline_gemm_us(rows, vocab, h, **peaks)


@pytest.mark.parametrize("batch", [1, 16, 256])
def test_decode_gemms_of_a_dense_model_match_the_twin(batch):
    p = record()
    _, parts = step(p, decode_seqs=float(batch), context=1024.0)
    assert parts[PART_GEMM] == pytest.approx(dense_gemms_us(batch, batch, p), rel=1e-9)


def test_prefill_gemms_of_a_dense_model_match_the_twin():
    p = record()
    _, parts = step(p, prefill_seqs=2.0, prefill_tokens=4096.0)
    assert parts[PART_GEMM] == pytest.approx(dense_gemms_us(4096, 2, p), rel=1e-9)


def test_the_parts_add_up_to_the_step():
    for values in ({}, MOE, LATENT):
        p = record(**values, tp=2)
        total, parts = step(p, 64.0, 2048.0, 1.0, 512.0, 100.0)
        assert total == pytest.approx(parts.sum())
        assert np.all(parts >= 0)


def test_an_empty_step_takes_no_time():
    assert step(record())[0] == 0.0


def test_tensor_parallelism_divides_weights_and_adds_communication():
    _, one = step(record(tp=1), 8.0, 1024.0)
    _, four = step(record(tp=4), 8.0, 1024.0)
    assert four[PART_GEMM] < 0.3 * one[PART_GEMM]
    assert one[PART_TP_COMM] == 0.0 < four[PART_TP_COMM]


def test_experts_are_sharded_once_whatever_the_grid():
    _, ep = step(record(**MOE, tp=8, moe_ep=8), 64.0, 1024.0)
    _, tp = step(record(**MOE, tp=8, moe_tp=8), 64.0, 1024.0)
    assert ep[PART_MOE] == pytest.approx(tp[PART_MOE], rel=0.25)


def test_tokens_move_to_experts_only_under_attention_dp():
    _, together = step(record(**MOE, tp=8, moe_ep=8), 64.0, 1024.0)
    _, apart = step(record(**MOE, attention_dp=8), 8.0, 1024.0)
    assert together[PART_EP_COMM] == 0.0 < apart[PART_EP_COMM]
    assert apart[PART_TP_COMM] == 0.0


def test_pipeline_stages_pay_hops():
    _, parts = step(record(pp=4), 8.0, 1024.0)
    assert parts[PART_PP_COMM] > 0.0


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 512),
    context=st.integers(1, 32000),
    tokens=st.integers(0, 8192),
    tp=st.sampled_from([1, 2, 4, 8]),
    model=st.sampled_from([{}, MOE, LATENT]),
)
def test_more_work_never_takes_less_time(batch, context, tokens, tp, model):
    p = record(**model, tp=tp)
    base, _ = step(p, float(batch), float(context), 1.0 if tokens else 0.0, float(tokens))
    longer, _ = step(p, float(batch), float(context) * 1.5, 1.0 if tokens else 0.0, float(tokens))
    fuller, _ = step(p, float(batch) + 8, float(context), 1.0 if tokens else 0.0, float(tokens))
    assert np.isfinite(base) and base > 0
    assert longer >= base * (1 - 1e-12)
    assert fuller >= base * (1 - 1e-12)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0, 7.0, 64.0]),
            st.sampled_from([16.0, 1024.0]),
            st.sampled_from([0.0, 1.0, 3.5]),
            st.sampled_from([0.0, 512.0, 2048.0]),
            st.sampled_from([0.0, 100.0]),
        ),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([{}, MOE, LATENT]),
)
@settings(max_examples=40, deadline=None)
def test_a_step_costs_the_same_whatever_was_priced_before(batches, model):
    p = record(**model, tp=2)
    d = derived(p)
    s = np.zeros(1, PRICED)
    for decode_seqs, context, prefill_seqs, tokens, prior in batches:
        arguments = (decode_seqs, decode_seqs * context, 1.0, prefill_seqs, tokens * prefill_seqs, prior)
        fresh = np.zeros(1, PRICED)
        alone = step_us(p[0], d[0], C, *arguments, fresh[0])
        assert step_us(p[0], d[0], C, *arguments, s[0]) == alone
        np.testing.assert_array_equal(s["parts"][0], fresh["parts"][0])


def test_a_step_is_priced_once_until_its_deployment_is_forgotten():
    p, s = record(tp=2), np.zeros(1, PRICED)
    d = derived(p)

    def decode(batch):
        return step_us(p[0], d[0], C, batch, batch * 1000.0, 1.0, 0.0, 0.0, 0.0, s[0])

    s["deployment"] += 1.0
    slow = decode(8.0)
    p["hbm_gb_s"] *= 2.0
    assert decode(8.0) == slow
    s["deployment"] += 1.0
    assert decode(8.0) < 0.8 * slow


def test_more_batches_than_places_change_nothing():
    p, s = record(), np.zeros(1, PRICED)
    d = derived(p)
    once, again = (
        [step_us(p[0], d[0], C, float(n), n * 500.0, 1.0, 0.0, 0.0, 0.0, s[0]) for n in range(1, 4 * N_STEPS)]
        for _ in range(2)
    )
    assert once == again
    assert len(set(once)) == len(once)
