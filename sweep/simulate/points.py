"""`servesweep points --driver des`: the rows of a table request by request, under the client that each row describes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import UserError
from sweep.evaluation import Evaluated
from sweep.fidelity import coefficients_of
from sweep.simulate.deployment import simulate_deployment
from sweep.simulate.pools import twin

PERCENTILES = tuple(f"{name}_p{q}_ms" for name in ("ttft", "tpot", "e2e") for q in (50, 90, 99))
"""Columns of requests' latencies, ms."""
REPLACED = ("ttft_ms", "tpot_ms", "e2e_ms")
PER_TIME = ("output_tok_s_per_gpu", "total_tok_s_per_gpu", "requests_per_s")
PER_TOKEN = ("usd_per_m_input", "usd_per_m_output", "usd_per_m_total")


def simulate_points(
    records: NDArray[Any], evaluated: Evaluated, fitted: NDArray[np.float64], rows: NDArray[np.bool_]
) -> Mapping[str, list[Any]]:
    """Simulate the marked `rows` and put their figures into `evaluated.results`, in place.

    Returns further columns, one value per row: percentiles over requests, `driver` (des, or closed_form where the
    simulator does not take a row) and `driver_note` (why not). Costs follow the throughput.
    """
    results = evaluated.results
    columns: dict[str, list[Any]] = {
        name: [None] * len(records) for name in (*PERCENTILES, "driver", "driver_note")
    }

    def simulated(i: int) -> dict[str, float] | str:
        coefficients = coefficients_of(fitted, records[i : i + 1])
        try:
            return simulate_deployment(twin(records[i : i + 1], coefficients))
        except UserError as error:
            return error.message

    marked = np.flatnonzero(rows)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        answers = list(pool.map(simulated, marked.tolist()))
    for i, answer in zip(marked.tolist(), answers, strict=True):
        if isinstance(answer, str):
            columns["driver"][i], columns["driver_note"][i] = "closed_form", answer
            continue
        columns["driver"][i] = "des"
        for name in PERCENTILES:
            columns[name][i] = answer.get(name)
        faster = answer["output_tok_s_per_gpu"] / float(results[i]["output_tok_s_per_gpu"])
        for name in REPLACED:
            results[name][i] = answer[name]
        for name in PER_TIME:
            results[name][i] *= faster
        for name in PER_TOKEN:
            results[name][i] /= faster
    return columns
