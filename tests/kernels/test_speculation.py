"""Speculative decoding: tokens per step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.speculation import draft_us, step_count_spread, tokens_per_step


def test_acceptance_zero_yields_one_token():
    assert tokens_per_step(4.0, 0.0) == 1.0


def test_acceptance_one_yields_every_draft_and_its_own():
    assert tokens_per_step(4.0, 1.0) == 5.0


@given(k=st.integers(0, 16), a=st.floats(0, 1))
def test_tokens_per_step_is_the_sum_of_the_chances(k, a):
    assert tokens_per_step(float(k), a) == pytest.approx(sum(a**i for i in range(k + 1)), rel=1e-6)


def test_drafting_is_a_share_of_one_token_of_the_verify_step():
    assert draft_us(500.0, 4.0, 0.1) == pytest.approx(0.1 * 4 * 100.0)


@pytest.mark.parametrize(("drafts", "acceptance"), [(1, 0.5), (3, 0.7), (4, 0.9)])
def test_the_spread_of_steps_is_that_of_drawn_runs(drafts: int, acceptance: float) -> None:
    tokens, rng = 400, np.random.default_rng(1)
    accepted = np.cumprod(rng.random((3000, tokens, drafts)) < acceptance, axis=2).sum(axis=2)
    steps = (np.cumsum(1 + accepted, axis=1) < tokens).sum(axis=1) + 1
    drawn = np.sqrt(12.0) * steps.std() / steps.mean()
    assert step_count_spread(float(tokens), float(drafts), acceptance) == pytest.approx(drawn, rel=0.06)


def test_steps_do_not_spread_where_all_yield_the_same() -> None:
    assert step_count_spread(100.0, 0.0, 0.5) == 0.0
    assert step_count_spread(100.0, 3.0, 0.0) == 0.0
    assert step_count_spread(100.0, 3.0, 1.0) == 0.0
