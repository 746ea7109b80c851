"""Closed loops whose requests have one length: what the front end bunches."""

import numpy as np
import pytest

from kernels.batching import bunched
from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.simulate.deployment import deployment, simulate_deployment
from tests.deployments import priced, record_of


def counted(arrived: float, busy: float, prompts: int = 4000) -> float:
    """Prompts ahead of each prompt when it arrives, over all prompts and their number: served one by one."""
    here = arrived * prompts
    waiting = 0.0
    for prompt in range(prompts):
        if prompt < here:
            ahead = float(prompt)
        else:
            served = (prompt - here) / busy
            ahead = max(0.0, prompt - served)
        waiting += ahead
    return waiting / prompts**2


@pytest.mark.parametrize("arrived", [0.0, 0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("busy", [0.02, 0.4, 0.9, 1.0])
def test_mean_backlog_is_that_of_prompts_counted_one_by_one(arrived: float, busy: float) -> None:
    assert bunched(arrived, busy) == pytest.approx(counted(arrived, busy), abs=0.002)


def test_everything_at_once_waits_for_half_of_it() -> None:
    assert bunched(1.0, 1.0) == pytest.approx(0.5)


LOOP = {"model": "llama_3_1_70b", "hardware": "h100_sxm", "tp": 4, "isl": 4000, "osl": 400, "concurrency": 32}
ONE_LENGTH = {**LOOP, "length_range": 1.0, "decode_spread": 0.0}


def without_front_end(loop: dict, front_ms: float) -> float:
    """TTFT without the time in the front end itself, ms."""
    return float(priced({**loop, "request_overhead_ms": front_ms})["ttft_ms"][0]) - front_ms


def test_requests_of_one_length_wait_for_each_other_as_long_as_the_front_end_lets_steps_go_on() -> None:
    ttft = [without_front_end(ONE_LENGTH, ms) for ms in (0.0, 20.0, 100.0, 3000.0, 9000.0)]
    assert np.all(np.diff(ttft) >= 0.0)
    assert ttft[2] > 1.3 * ttft[0]
    assert ttft[4] == pytest.approx(ttft[3], rel=0.01), "no longer than a whole wave"


@pytest.mark.parametrize("spread", [{"length_range": 0.8}, {"decode_spread": 0.1}])
def test_lengths_that_spread_bunch_nothing(spread: dict) -> None:
    loop = {**ONE_LENGTH, **spread}
    assert without_front_end(loop, 100.0) == pytest.approx(without_front_end(loop, 0.0))


def test_the_front_end_takes_part_in_the_rate_of_a_loop_of_one_length() -> None:
    answers = priced(*({**ONE_LENGTH, "request_overhead_ms": ms} for ms in (500.0, 0.0)))
    held = answers["requests_per_s"] * answers["e2e_ms"] / 1e3
    assert held == pytest.approx(LOOP["concurrency"], rel=0.01), "Little's law"
    assert answers["requests_per_s"][0] < answers["requests_per_s"][1]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_simulator_bunches_requests_of_one_length_as_the_closed_form_says(engine: str) -> None:
    record = record_of(**{**ONE_LENGTH, "engine": engine, "request_overhead_ms": 80.0})
    fitted = coefficients_of(coefficients_for("fitted"), record)
    closed = evaluate(record, coefficients_for("fitted")).results[0]
    simulated = simulate_deployment(deployment(record, fitted))
    assert simulated["ttft_ms"] == pytest.approx(closed["ttft_ms"], rel=0.12)
    assert simulated["tpot_ms"] == pytest.approx(closed["tpot_ms"], rel=0.05)
    assert simulated["requests_per_s"] == pytest.approx(closed["requests_per_s"], rel=0.03)
