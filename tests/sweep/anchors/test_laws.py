"""Reach, widths, fits over TP, floors and scaling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.layout import N_OUT, RESULT_INDEX
from sweep.anchors.apply import scale
from sweep.anchors.laws import TPOT_REACH, TTFT_REACH, decode_floor_ms, fit_tp, remaining_width


def test_weights_halve_over_their_reach() -> None:
    for reach in (TTFT_REACH, TPOT_REACH):
        assert reach.weight(0.0, 0.0, 0.0) == 1.0
        assert reach.weight(reach.load, 0.0, 0.0) == pytest.approx(0.5)
        assert reach.weight(0.0, reach.shape, reach.lengths) == pytest.approx(0.25)


def test_an_interval_is_as_wide_as_the_models_without_weight_and_as_scatter_with_all() -> None:
    assert remaining_width(0.0) == 1.0
    assert remaining_width(1.0) == pytest.approx(0.3)
    assert remaining_width(0.6) == pytest.approx(0.8)


@given(st.floats(1.0, 1e3), st.floats(0.0, 1e3))
def test_the_fit_over_tp_finds_the_law_that_made_its_points(shardable: float, fixed: float) -> None:
    law = fit_tp([1.0, 2.0, 8.0], [shardable / tp + fixed for tp in (1.0, 2.0, 8.0)])
    assert law is not None
    assert law.at(4.0, 1.5) == pytest.approx(shardable / 4.0 + fixed + 1.5, rel=1e-6)


def test_the_fit_over_tp_refuses_what_does_not_shard_and_has_no_negative_rest() -> None:
    assert fit_tp([2.0], [5.0]) is None
    assert fit_tp([1.0, 2.0], [-1.0, -2.0]) is None
    through_origin = fit_tp([1.0, 2.0], [10.0, 4.0])
    assert through_origin is not None
    assert through_origin.fixed_ms == 0.0


def test_a_floor_is_linear_between_points_and_flat_beyond() -> None:
    assert decode_floor_ms([64, 1], [20.0, 10.0], 32.5) == pytest.approx(15.0)
    assert decode_floor_ms([64, 1], [20.0, 10.0], 500.0) == 20.0


def test_scaling_keeps_littles_law_and_a_served_rate() -> None:
    results = np.full((2, N_OUT), 10.0)
    results[:, RESULT_INDEX["e2e_ms"]] = 100.0
    results[:, RESULT_INDEX["saturated"]] = 0.0
    scale(results, np.full(2, 2.0), np.full(2, 3.0), np.array([0.0, 2.0]))
    e2e = results[:, RESULT_INDEX["e2e_ms"]]
    assert e2e.tolist() == [290.0, 290.0]
    closed, rate = results[:, RESULT_INDEX["requests_per_s"]]
    assert closed * e2e[0] == pytest.approx(10.0 * 100.0)
    assert rate == 10.0
    assert results[1, RESULT_INDEX["resident"]] == pytest.approx(29.0)
