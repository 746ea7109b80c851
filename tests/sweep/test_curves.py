"""Load curves, saturation, warm-up and capacity, on a queue with a known answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.simulate.curves import (
    FRACTIONS,
    Served,
    Slo,
    capacity,
    is_saturated,
    load_curve,
    measure,
    queue_depth,
    scored,
)
from sweep.traces import Traffic, synthesize

SERVICE_S = 0.1


def one_server(rate, n=20_000, service_s=SERVICE_S):
    """First come, first served by one server of constant speed: M/D/1."""
    arrival = synthesize(Traffic(n, rate)).arrival_ns / 1e9
    index = np.arange(n)
    finish = np.maximum.accumulate(arrival - index * service_s) + (index + 1) * service_s
    start = finish - service_s
    as_ns = lambda seconds: np.round(seconds * 1e9).astype(np.int64)  # noqa: E731
    return Served(
        as_ns(arrival), as_ns(start), as_ns(start + service_s / 2), as_ns(finish), np.full(n, 11), 1.0
    )


def test_means_match_the_formula_of_m_d_1():
    rate = 7.0
    point = measure(one_server(rate, 200_000), rate, warmup_share=0.05)
    load = rate * SERVICE_S
    wait_s = load * SERVICE_S / (2 * (1 - load))
    assert point.latency_ms["e2e_mean"] == pytest.approx(1e3 * (wait_s + SERVICE_S), rel=0.03)
    assert point.latency_ms["ttft_mean"] == pytest.approx(1e3 * (wait_s + SERVICE_S / 2), rel=0.03)
    assert point.latency_ms["tpot_mean"] == pytest.approx(1e3 * SERVICE_S / 2 / 10, rel=1e-6)
    assert point.achieved_per_s == pytest.approx(rate, rel=0.01)
    assert not point.saturated


def test_overload_is_saturated_and_near_full_load_is_not():
    assert measure(one_server(11.0), 11.0).saturated
    assert measure(one_server(30.0), 30.0).saturated
    assert not measure(one_server(8.0), 8.0).saturated
    assert not is_saturated(one_server(30.0, n=20), 0.0)
    assert is_saturated(one_server(30.0, n=20), 30.0)


def test_a_few_long_outputs_after_the_last_arrival_are_no_overload():
    short = one_server(2.0, n=200)
    finish = short.finish_ns.copy()
    finish[-1] += 10 * finish[-1]
    point = measure(replace(short, finish_ns=finish), 2.0)
    assert point.achieved_per_s < 1.0
    assert not point.saturated


def test_warm_up_is_left_out_by_completion_unless_too_few_would_remain():
    finish = np.array([50, 10, 40, 30, 20, 60, 70, 80, 90, 100])
    assert scored(finish, 0.2).tolist() == [3, 2, 0, 5, 6, 7, 8, 9]
    assert len(scored(finish, 0.3)) == 10
    assert len(scored(np.arange(1000), 5.0)) == 100
    assert len(scored(np.arange(1000), -1.0)) == 1000


def test_queue_depth_counts_who_has_arrived_and_not_started():
    served = Served(
        arrival_ns=np.array([0, 1, 2, 10]),
        started_ns=np.array([0, 5, 7, -1]),
        first_token_ns=np.zeros(4, np.int64),
        finish_ns=np.full(4, -1),
        output_tokens=np.ones(4, np.int64),
        max_running=1,
    )
    assert queue_depth(served).tolist() == [0, 1, 2, 1]


def test_goodput_counts_requests_within_every_limit():
    served = Served(
        arrival_ns=np.zeros(4, np.int64),
        started_ns=np.zeros(4, np.int64),
        first_token_ns=np.array([1, 1, 9, -1]) * 10**6,
        finish_ns=np.array([100, 1000, 100, -1]) * 10**6,
        output_tokens=np.array([11, 11, 11, 11]),
        max_running=4,
    )
    point = measure(served, 4.0, slo=Slo(ttft_ms=5, tpot_ms=50))
    assert point.goodput_per_s == pytest.approx(1.0)
    assert (point.n_finished, point.n_unfinished) == (3, 1)
    assert not point.within_slo


def test_a_curve_rises_and_holds_the_configured_rate():
    curve = load_curve(lambda rate: measure(one_server(rate), rate), 10.0, configured_per_s=6.0)
    rates = [point.offered_per_s for point in curve]
    assert rates == sorted([*(10.0 * share for share in FRACTIONS), 6.0])
    latencies = [point.latency_ms["ttft_p99"] for point in curve]
    assert latencies == sorted(latencies)
    assert {"offered_per_s", "ttft_ms", "ttft_p99_ms"} - set(curve[0].as_dict()) == {"ttft_ms"}


@settings(max_examples=8, deadline=None)
@given(limit_ms=st.floats(60.0, 900.0), guess=st.floats(0.3, 60.0))
def test_capacity_agrees_with_a_fine_sweep_whatever_the_guess(limit_ms, guess):
    def load_at(rate):
        return measure(one_server(rate, 4000), rate, slo=Slo(ttft_ms=limit_ms))

    found = capacity(load_at, guess, tolerance=0.005)
    fine = [rate for rate in np.arange(0.1, 12.0, 0.1) if load_at(rate).within_slo]
    assert found.rate_per_s == pytest.approx(max(fine), abs=0.1 + 0.02 * max(fine))
    assert found.at.within_slo
    assert found.rate_per_s < found.missed_per_s <= found.rate_per_s * 1.005


def test_a_limit_that_no_load_meets_has_capacity_0_and_one_that_all_meet_has_no_end():
    def load_at(limit):
        return lambda rate: measure(one_server(rate, 500), rate, slo=Slo(ttft_ms=limit))

    assert capacity(load_at(1.0), 5.0).rate_per_s == 0.0
    never = capacity(lambda rate: measure(one_server(rate, 40, 1e-9), rate), 5.0, ceiling_share=10)
    assert never.missed_per_s == float("inf")
    assert never.rate_per_s >= 50.0
