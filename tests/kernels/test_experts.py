"""Distinct experts: independent routing, skew, coverage, imbalance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.coefficients import HOST_ROUTING_VARIANCE, OP_HOST, roofline_coefficients
from kernels.experts import coverage_at, gamma_distinct, rank_imbalance, touched_experts, zipf_distinct
from tests.kernels.deployments import MOE, derived, record


def zipf_twin(tokens, k, n, s):
    weights = np.arange(1, n + 1) ** -s
    chances = weights / weights.sum()
    return float(np.sum(1 - (1 - chances) ** (tokens * k)))


@settings(max_examples=80, deadline=None)
@given(
    tokens=st.integers(1, 4096),
    k=st.integers(1, 8),
    n=st.sampled_from([8, 32, 128, 256]),
    s=st.floats(0.05, 1.5),
)
def test_skewed_routing_matches_the_exact_sum(tokens, k, n, s):
    assert zipf_distinct(float(tokens), float(k), float(n), s) == pytest.approx(
        zipf_twin(tokens, k, n, s), rel=0.01
    )


def test_skew_touches_fewer_experts():
    c = roofline_coefficients()
    even = touched_experts(64.0, record(**MOE)[0], c)
    skewed = touched_experts(64.0, record(**MOE, moe_routing_skew=1.0)[0], c)
    assert skewed < 0.8 * even


@pytest.mark.parametrize("variance", [0.2, 1.0, 2.0])
def test_a_spread_of_popularity_matches_draws_of_it(variance):
    experts, k, tokens = 256, 8, 64
    popularity = np.random.default_rng(1).gamma(1.0 / variance, variance, 200_000)
    x = -(tokens - 1) * np.log(1 - k / experts)
    drawn = experts * (1 - (1 - k / experts) * np.exp(-popularity * x).mean())
    assert gamma_distinct(float(tokens), float(k), float(experts), variance) == pytest.approx(drawn, rel=0.01)


def test_a_given_skew_replaces_the_fitted_spread_and_one_token_touches_its_own_experts():
    c = roofline_coefficients()
    c[OP_HOST, HOST_ROUTING_VARIANCE] = 2.0
    auto, even = record(**MOE)[0], record(**MOE, moe_routing_skew=0.0)[0]
    assert touched_experts(64.0, auto, c) < 0.8 * touched_experts(64.0, even, c)
    assert touched_experts(64.0, even, c) == touched_experts(64.0, even, roofline_coefficients())
    assert touched_experts(1.0, auto, c) == pytest.approx(auto["experts_per_token"])


def test_coverage_is_flat_outside_its_points_and_linear_in_log_tokens():
    p = record(
        **MOE,
        coverage_1=1.0,
        coverage_4=0.9,
        coverage_16=0.8,
        coverage_64=0.7,
        coverage_256=0.8,
        coverage_1024=0.9,
    )[0]
    assert coverage_at(0.5, p) == 1.0
    assert coverage_at(8.0, p) == pytest.approx(0.85)
    assert coverage_at(1e6, p) == 0.9


def test_imbalance_needs_expert_parallelism_and_redundancy_shrinks_it():
    alone = record(**MOE, tp=8, moe_tp=8, ep_load_balance=1.5)
    spread = record(**MOE, tp=8, moe_ep=8, ep_load_balance=1.5)
    backed = record(**MOE, tp=8, moe_ep=8, ep_load_balance=1.5, redundant_experts=128)
    assert rank_imbalance(alone[0], derived(alone)[0]) == 1.0
    assert rank_imbalance(spread[0], derived(spread)[0]) == 1.5
    assert rank_imbalance(backed[0], derived(backed)[0]) == pytest.approx(1.25)
