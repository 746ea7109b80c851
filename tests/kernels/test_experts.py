"""Distinct experts: independent routing, skew, coverage, imbalance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.experts import coverage_at, rank_imbalance, touched_experts, zipf_distinct
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
    even = touched_experts(64.0, record(**MOE)[0])
    skewed = touched_experts(64.0, record(**MOE, moe_routing_skew=1.0)[0])
    assert skewed < 0.8 * even


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
