"""Closed form and simulation over random deployments outside saturation."""

import polars as pl
import pytest

from sweep.simulate.agreement import compare


def check(frame):
    size = {name: frame[f"{name}_diff"].abs() for name in ("tpot_ms", "ttft_ms", "requests_per_s")}
    assert size["tpot_ms"].median() <= 0.03
    assert size["ttft_ms"].median() <= 0.10
    assert size["requests_per_s"].median() <= 0.03


def test_sixty_random_deployments_agree():
    check(compare(60, seed=7))


@pytest.mark.long
def test_five_hundred_random_deployments_agree():
    frame = compare(500, seed=1)
    check(frame)
    for load in ("closed_loop", "rate"):
        part = frame.filter(pl.col("load") == load)
        assert part["tpot_ms_diff"].abs().median() <= 0.04
        assert part["ttft_ms_diff"].abs().median() <= 0.10
