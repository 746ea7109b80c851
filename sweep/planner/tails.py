"""From means over requests to percentiles, in closed form; the simulator has the last word.

- TTFT: a wait of mean w that a share `busy` of the requests meets is exponential beyond that,
  P(wait > t) = busy exp(-busy t / w), as in M/G/1 under load; prefill itself does not spread.
- TPOT: n prompts prefill while one request decodes, n is Poisson, each adds the same stall:
  TPOT_q = TPOT (1 + z_q s / sqrt(n)), s the stalls' share of TPOT.
- What is in flight is Poisson too: its percentile N + z_q sqrt(N) must fit in the KV cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.planner.demand import Limits

Floats = npt.NDArray[np.float64]


def wait_percentile(wait: Floats | float, busy: Floats | float, limits: Limits) -> Floats:
    """Percentile of a wait with mean `wait` that a share `busy` of the requests meets; same unit."""
    busy = np.clip(busy, 1e-9, 1.0)
    late = max(limits.share, 1e-6)
    return np.asarray(np.maximum(wait, 0.0) / busy * np.maximum(0.0, np.log(busy / late)))


def ttft_percentile(results: npt.NDArray[Any], prefill_ranks: Floats, limits: Limits) -> Floats:
    """TTFT of result records at the SLO's percentile, ms; `prefill_ranks` prefill side by side."""
    wait = np.maximum(0.0, results["ttft_ms"] - results["prefill_ms"])
    busy = results["requests_per_s"] / prefill_ranks * results["prefill_ms"] / 1e3
    return np.asarray(results["ttft_ms"] - wait + np.maximum(wait_percentile(wait, busy, limits), 0.0))


def tpot_percentile(results: npt.NDArray[Any], ranks: Floats, limits: Limits) -> Floats:
    """TPOT of result records at the SLO's percentile, ms."""
    stalls = np.maximum(results["tpot_rise"], 0.0)
    share = stalls / (1.0 + stalls)
    met = np.maximum(1.0, results["resident"] / ranks)
    return np.asarray(results["tpot_ms"] * (1.0 + limits.deviations * share / np.sqrt(met)))


def population_percentile(resident: Floats, limits: Limits) -> Floats:
    """Requests in flight at the SLO's percentile of time."""
    return np.asarray(resident + limits.deviations * np.sqrt(np.maximum(resident, 0.0)))
