"""Offered rates: the steady state of random arrivals at one engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.open_load import slot_wait_us
from tests.deployments import priced

CHAT = {"isl": 2000, "osl": 200, "load": "rate", "length_range": 1.0}


def at(rate: float, **changes: object) -> np.void:
    return priced({**CHAT, **changes, "request_rate": rate})[0]


def test_a_lone_request_decodes_alone() -> None:
    rare, closed = at(1e-4), priced({**CHAT, "load": "closed_loop", "concurrency": 1})[0]
    assert rare["tpot_ms"] == pytest.approx(closed["tpot_ms"], rel=0.01)
    assert rare["ttft_ms"] == pytest.approx(closed["ttft_ms"], rel=0.01)


def test_latency_grows_with_the_rate_and_what_is_offered_is_served() -> None:
    rates = np.array([0.1, 1.0, 4.0, 8.0])
    rows = [at(rate) for rate in rates]
    assert (np.diff([row["tpot_ms"] for row in rows]) > 0).all()
    assert (np.diff([row["ttft_ms"] for row in rows]) > 0).all()
    assert [row["requests_per_s"] for row in rows] == pytest.approx(rates)


def test_residents_are_the_rate_times_the_time_of_a_request() -> None:
    row = at(6.0)
    in_engine_s = row["resident"] / row["requests_per_s"]
    assert in_engine_s == pytest.approx(row["e2e_ms"] / 1e3, rel=0.05)


def test_bursts_wait_longer_than_poisson_and_a_clock_less() -> None:
    poisson, burst, clock = at(4.0), at(4.0, burstiness=0.25), at(4.0, arrival="deterministic")
    assert burst["ttft_ms"] > poisson["ttft_ms"] > clock["ttft_ms"]


def test_places_run_short_only_near_their_number() -> None:
    assert slot_wait_us(1e6, 10.0, 1000.0, 1.0) < 1e-3
    assert slot_wait_us(1e6, 9.0, 10.0, 1.0) > 1e5
    # one server: the wait of M/D/1 for random arrivals, rho / (2 (1 - rho)) services
    assert slot_wait_us(1.0, 0.5, 1.0, 1.0) == pytest.approx(0.5)


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(1e-3, 200.0),
    isl=st.integers(1, 30_000),
    osl=st.integers(1, 2000),
    engine=st.sampled_from(["vllm", "sglang", "trtllm"]),
    tp=st.sampled_from([1, 2]),
    pp=st.sampled_from([1, 2]),
    drafts=st.integers(0, 4),
)
def test_no_rate_has_a_negative_latency(rate, isl, osl, engine, tp, pp, drafts) -> None:
    row = at(
        rate,
        isl=isl,
        osl=osl,
        engine=engine,
        tp=tp,
        pp=pp,
        speculative_num_tokens=drafts,
        speculative_acceptance_rate=0.6,
    )
    assert row["ttft_ms"] > 0.0
    assert row["tpot_ms"] > 0.0 or osl == 1
    assert 0.0 <= row["mixed_share"] <= 1.0


def test_a_closed_loop_bound_by_prefill_serves_what_prefill_does_not_more() -> None:
    # hundreds of clients with short outputs: every step is full of prompts
    rows = priced(
        *(
            {"isl": 7000, "osl": 17, "length_range": 1.0, "concurrency": n, "max_num_batched_tokens": 8192}
            for n in (64, 512, 2048)
        )
    )
    rate = rows["requests_per_s"]
    prompts_per_s = 1e3 / rows["mixed_step_ms"] * 8192 / 7000
    assert (rate <= 1.05 * prompts_per_s).all()
    assert rate[2] == pytest.approx(rate[1], rel=0.02)
