"""Speculative decoding: tokens per step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.speculation import draft_us, tokens_per_step


def test_acceptance_zero_yields_one_token():
    assert tokens_per_step(4.0, 0.0) == 1.0


def test_acceptance_one_yields_every_draft_and_its_own():
    assert tokens_per_step(4.0, 1.0) == 5.0


@given(k=st.integers(0, 16), a=st.floats(0, 1))
def test_tokens_per_step_is_the_sum_of_the_chances(k, a):
    assert tokens_per_step(float(k), a) == pytest.approx(sum(a**i for i in range(k + 1)), rel=1e-6)


def test_drafting_is_a_share_of_one_token_of_the_verify_step():
    assert draft_us(500.0, 4.0, 0.1) == pytest.approx(0.1 * 4 * 100.0)
