"""Surfaces of measured combinations: their equation, their ranges, and what they may not take from a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.coefficients import LEAST_SHARE, NEAR_DECODE, NEAR_POOLED, NEAR_PROMPT, roofline_coefficients
from kernels.layout import N_PARTS, PART_GEMM, PART_HOST
from kernels.nearby import CENTRES, FADE, LARGEST, N_FEATURES, SPREAD, features, nearby_request, nearby_us
from sweep.catalog.nearby import PAIRS, write_surface
from tests.kernels.deployments import record

LOW, HIGH = np.full(N_FEATURES, -1.0), np.full(N_FEATURES, 0.5)


def with_surface(numbers: Any, surface: int = NEAR_DECODE, host_share: float = 0.0) -> np.ndarray:
    """Coefficients with one surface, ranges LOW to HIGH, and all of a step but the host's time in its least share."""
    c = roofline_coefficients()
    write_surface(c[None], surface, LOW[None], HIGH[None], np.array(numbers, float)[None])
    c[LEAST_SHARE, PART_HOST] = host_share
    return c


def constant(log_factor: float) -> list[float]:
    return [log_factor, *[0.0] * (len(PAIRS) - 1)]


def twin(numbers: np.ndarray, running: float, tokens: float, p: Any) -> float:
    """log f by the module's equation."""
    experts = p["tp"] * p["attention_dp"] if p["attention_dp"] > 1 else 1.0
    experts = experts if np.isnan(p["moe_ep"]) else p["moe_ep"]
    values = np.maximum(1.0, [running, tokens, p["tp"], p["attention_dp"], experts])
    z = (np.log(values) - CENTRES) / SPREAD
    inside = np.clip(z, LOW, HIGH)
    one = np.array([1.0, *inside])
    matrix = np.zeros((N_FEATURES + 1, N_FEATURES + 1))
    for (i, j), value in zip(PAIRS, numbers, strict=True):
        matrix[i, j] = value
    total = one @ matrix @ one / (1.0 + FADE * ((z - inside) ** 2).sum())
    return float(np.clip(total, -LARGEST, LARGEST))


@given(
    st.lists(st.floats(-0.3, 0.3), min_size=len(PAIRS), max_size=len(PAIRS)),
    st.floats(0.0, 4096.0),
    st.floats(1.0, 200_000.0),
    st.sampled_from([(1, 1), (8, 1), (2, 4)]),
    st.sampled_from([{}, {"moe_ep": 1}, {"moe_ep": 8}]),
)
def test_a_surface_is_its_equation_inside_and_outside_its_ranges(numbers, running, tokens, shape, experts):
    p = record(tp=shape[0], attention_dp=shape[1], **experts)[0]
    c = with_surface(numbers, NEAR_PROMPT)
    found = nearby_request(running * p["attention_dp"], p, c)
    expected = twin(np.array(numbers), running, p["isl"], p)
    assert np.log(found) == pytest.approx(expected, abs=1e-9)
    c = with_surface(np.abs(numbers), NEAR_DECODE)
    parts = np.ones(N_PARTS)
    slower = nearby_us(8.0, NEAR_DECODE, running, tokens, p, c, parts)
    factor = np.exp(twin(np.abs(numbers), running, tokens, p))
    if factor >= 1.0:
        assert slower == pytest.approx(8.0 * factor)
        assert parts.sum() == pytest.approx(slower)


def test_what_was_not_measured_stays_as_it_is():
    p, parts = record()[0], np.full(N_PARTS, 2.0)
    c = roofline_coefficients()
    assert nearby_us(16.0, NEAR_DECODE, 8.0, 1000.0, p, c, parts) == 16.0
    assert nearby_request(8.0, p, c) == 1.0
    assert parts.tolist() == [2.0] * N_PARTS


def test_a_surface_takes_no_more_than_what_is_not_roofline():
    p, parts = record()[0], np.zeros(N_PARTS)
    parts[PART_GEMM], parts[PART_HOST] = 80.0, 20.0
    faster = nearby_us(100.0, NEAR_DECODE, 20.0, 1800.0, p, with_surface(constant(-0.6)), parts)
    assert faster == pytest.approx(80.0)
    assert parts.sum() == pytest.approx(80.0)


def test_split_pools_have_surfaces_of_their_own():
    together, apart = record()[0], record(disaggregate=True)[0]
    c = with_surface(constant(0.1), NEAR_DECODE + NEAR_POOLED)
    parts = np.ones(N_PARTS)
    assert nearby_us(8.0, NEAR_DECODE, 20.0, 1800.0, together, c, parts) == 8.0
    assert nearby_us(8.0, NEAR_DECODE, 20.0, 1800.0, apart, c, parts) > 8.0


def test_features_of_nothing_are_those_of_one():
    p = record()[0]
    assert features(0.0, 0.0, p) == features(1.0, 1.0, p)
