"""Percentiles in closed form against the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.planner.demand import Limits
from sweep.planner.tails import ttft_percentile
from sweep.simulate.deployment import deployment, simulate_deployment
from tests.deployments import record_of


@pytest.mark.parametrize(("rate_per_s", "isl"), [(3.0, 1024), (12.0, 1024), (18.0, 1024), (3.0, 6000)])
@pytest.mark.parametrize(("percentile", "within"), [(90.0, 0.15), (99.0, 0.25)])
def test_late_first_tokens_are_as_late_as_simulated(
    rate_per_s: float, isl: int, percentile: float, within: float
) -> None:
    record = record_of(load="rate", request_rate=rate_per_s, isl=isl)
    fitted = coefficients_for("fitted")
    closed = evaluate(record, fitted).results
    one = deployment(record, coefficients_of(fitted, record))
    # the last percentile of a run rests on twenty requests, and runs differ by a tenth
    simulated = [simulate_deployment(one, seed)[f"ttft_p{percentile:g}_ms"] for seed in range(4)]
    late = float(ttft_percentile(closed, np.ones(1), Limits(percentile=percentile))[0])
    assert late == pytest.approx(np.mean(simulated), rel=within)
