"""Synthetic requests: their distributions, their repeatability, their shared prefixes."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.errors import UserError
from sweep.traces.arrivals import expected_count
from sweep.traces.requests import Ragged, Requests
from sweep.traces.synthetic import Traffic, for_duration, synthesize

MANY = 200_000


def gaps_s(requests):
    return np.diff(requests.arrival_ns) / 1e9


def variation(values):
    return values.std() / values.mean()


@pytest.mark.parametrize(("burstiness", "expected"), [(1.0, 1.0), (0.25, 2.0), (4.0, 0.5)])
def test_gaps_have_the_rate_and_the_burstiness_asked_for(burstiness, expected):
    gap = gaps_s(
        synthesize(Traffic(n_requests=MANY, rate_per_s=20.0, process="gamma", burstiness=burstiness))
    )
    assert 1.0 / gap.mean() == pytest.approx(20.0, rel=0.02)
    assert variation(gap) == pytest.approx(expected, rel=0.02)


def test_deterministic_arrivals_are_evenly_spaced():
    requests = synthesize(Traffic(n_requests=5, rate_per_s=4.0, process="deterministic"))
    assert requests.arrival_ns.tolist() == [250_000_000 * k for k in range(1, 6)]


@pytest.mark.parametrize("rate", [0.0, float("inf")])
def test_without_a_rate_all_arrive_at_once(rate):
    assert synthesize(Traffic(n_requests=9, rate_per_s=rate)).arrival_ns.tolist() == [0] * 9


def test_pulses_come_together_and_wait_for_the_next():
    requests = synthesize(Traffic(n_requests=7, process="pulse", pulse_requests=3, pulse_delay_s=2.0))
    assert (requests.arrival_ns / 1e9).tolist() == [0, 0, 0, 2, 2, 2, 4]
    spread = synthesize(
        Traffic(n_requests=9, process="pulse", pulse_requests=3, pulse_delay_s=1000.0, rate_per_s=1.0)
    )
    assert (spread.arrival_ns[::3] / 1e9).tolist() == [0, 1000, 2000]
    assert np.all(np.diff(spread.arrival_ns) > 0)


def test_hourly_rates_hold_in_every_hour_and_repeat():
    rates = (1.0, 0.0, 4.0)
    requests = for_duration(Traffic(hourly_rates=rates, burstiness=0.5, process="gamma"), 6 * 3600.0)
    per_hour = np.bincount(requests.arrival_ns // (3600 * 10**9), minlength=6)
    assert per_hour[[1, 4]].tolist() == [0, 0]
    assert per_hour[[0, 3]] == pytest.approx(3600, rel=0.1)
    assert per_hour[[2, 5]] == pytest.approx(14_400, rel=0.05)
    assert expected_count(np.array(rates), 3600.0, 4 * 3600.0) == pytest.approx(21_600)


@settings(max_examples=50, deadline=None)
@given(nominal=st.integers(1, 5000), ratio=st.floats(0.0, 1.0), seed=st.integers(0, 9))
def test_uniform_lengths_fill_their_range(nominal, ratio, seed):
    requests = synthesize(Traffic(n_requests=300, isl=nominal, osl=nominal, length_range=ratio, seed=seed))
    low = max(1, int(ratio * nominal))
    for lengths in (requests.isl, requests.osl):
        assert low <= lengths.min()
        assert lengths.max() <= nominal
        assert len(np.unique(lengths)) > min(10, nominal - low) // 2


def test_outputs_of_one_length_spread_about_it_as_asked_and_prompts_do_not():
    asked = Traffic(n_requests=MANY, isl=700, osl=200, output_spread=0.1)
    made, plain = synthesize(asked), synthesize(replace(asked, output_spread=0.0))
    assert set(made.isl.tolist()) == {700}
    assert set(plain.osl.tolist()) == {200}
    assert (made.osl.min(), made.osl.max()) == (190, 210)
    assert made.osl.mean() == pytest.approx(200, rel=0.002)
    wider = replace(asked, length_range=0.5)
    assert np.array_equal(synthesize(wider).osl, synthesize(replace(wider, output_spread=0.0)).osl)


def test_lognormal_lengths_have_mean_spread_and_correlation():
    made = synthesize(
        Traffic(
            n_requests=MANY,
            distribution="lognormal",
            isl=2000,
            osl=400,
            isl_sigma=0.8,
            osl_sigma=0.5,
            length_correlation=0.6,
        )
    )
    assert made.isl.mean() == pytest.approx(2000, rel=0.02)
    assert made.osl.mean() == pytest.approx(400, rel=0.02)
    assert np.log(made.isl).std() == pytest.approx(0.8, rel=0.02)
    assert np.corrcoef(np.log(made.isl), np.log(made.osl))[0, 1] == pytest.approx(0.6, abs=0.01)


def test_empirical_requests_keep_prompt_output_and_blocks_together():
    blocks = Ragged(np.array([0, 1, 3]), np.array([7, 8, 9], np.uint64))
    sample = Requests(
        np.zeros(2, np.int64),
        np.array([600, 1100], np.int32),
        np.array([6, 11], np.int32),
        blocks=blocks,
        block_tokens=512,
    )
    made = synthesize(Traffic(n_requests=500, rate_per_s=1.0, distribution="empirical"), sample=sample)
    assert set(zip(made.isl.tolist(), made.osl.tolist(), strict=True)) == {(600, 6), (1100, 11)}
    for i in (0, 1, 2, 499):
        assert made.blocks.row(i).tolist() == ([7] if made.isl[i] == 600 else [8, 9])


def test_popular_prefixes_follow_zipf_and_only_their_full_blocks_are_shared():
    traffic = Traffic(
        n_requests=50_000, isl=1024, n_prefixes=3, prefix_tokens=600, prefix_zipf=1.0, block_tokens=256
    )
    blocks = synthesize(traffic).blocks
    assert blocks.length.tolist() == [4] * 50_000
    table = blocks.value.reshape(-1, 4)
    _, counts = np.unique(table[:, 0], return_counts=True)
    assert sorted(counts / 50_000, reverse=True) == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02)
    assert len(np.unique(table[:, 1])) == 3
    assert len(np.unique(table[:, 2:])) == 100_000


@settings(max_examples=60, deadline=None)
@given(
    process=st.sampled_from(["poisson", "gamma", "deterministic", "pulse"]),
    distribution=st.sampled_from(["uniform", "lognormal"]),
    rate=st.sampled_from([0.0, 0.5, 100.0]),
    pool=st.integers(0, 4),
    seed=st.integers(0, 2**40),
)
def test_a_seed_fixes_every_request_and_times_never_go_back(process, distribution, rate, pool, seed):
    traffic = Traffic(50, rate, process, distribution=distribution, n_prefixes=pool, seed=seed)
    one, two = synthesize(traffic), synthesize(traffic)
    for name in ("arrival_ns", "isl", "osl"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert np.all(np.diff(one.arrival_ns) >= 0)
    assert one.isl.min() >= 1
    if pool:
        assert np.array_equal(one.blocks.value, two.blocks.value)


def test_arrivals_lengths_and_prefixes_draw_from_streams_of_their_own():
    base = Traffic(100, 5.0, distribution="lognormal", n_prefixes=3, seed=4)
    slower = synthesize(replace(base, rate_per_s=1.0, n_prefixes=2))
    assert np.array_equal(slower.isl, synthesize(base).isl)
    longer = synthesize(replace(base, isl=9000.0))
    assert np.array_equal(longer.arrival_ns, synthesize(base).arrival_ns)
    assert not np.array_equal(synthesize(replace(base, seed=5)).isl, synthesize(base).isl)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_requests": 0},
        {"burstiness": 0.0},
        {"isl": 0},
        {"rate_per_s": -1.0},
        {"hourly_rates": (0.0, 0.0)},
        {"distribution": "empirical"},
        {"length_correlation": float("nan")},
    ],
)
def test_impossible_traffic_is_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        synthesize(Traffic(**wrong))


def test_a_million_requests_are_made_in_seconds_of_processor_time():
    began = time.process_time()
    made = synthesize(Traffic(10**6, 100.0, "gamma", 0.5, distribution="lognormal", isl=800, n_prefixes=1000))
    assert time.process_time() - began < 10.0
    assert len(made) == 10**6
