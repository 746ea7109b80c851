"""From means over requests to percentiles, in closed form; the simulator has the last word.

- TTFT: what queues for prefill waits w = busy / (1 - busy) x service / 2 at the mean (M/D/1), busy the share of time in
  steps with prompts (prompts that share a step share its time). A share `busy` of the requests meets it, and it is
  exponential beyond that, P(wait > t) = busy exp(-busy t / w). Prefill itself, the step that a request finds under way
  and host time do not spread.
- TPOT: n prompts prefill while one request decodes, n is Poisson, each adds the same stall:
  TPOT_q = TPOT (1 + z_q s / sqrt(n)), s the stalls' share of TPOT.
- What is in flight is Poisson too: its percentile N + z_q sqrt(N) must fit in the KV cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.open_load import MOST_LOAD
from sweep.planner.demand import Limits

Floats = npt.NDArray[np.float64]


def wait_percentile(wait: Floats | float, busy: Floats | float, limits: Limits) -> Floats:
    """Percentile of a wait with mean `wait` that a share `busy` of the requests meets; same unit."""
    busy = np.clip(busy, 1e-9, 1.0)
    late = max(limits.share, 1e-6)
    return np.asarray(np.maximum(wait, 0.0) / busy * np.maximum(0.0, np.log(busy / late)))


def ttft_percentile(results: npt.NDArray[Any], stages: Floats, limits: Limits) -> Floats:
    """TTFT of result records at the SLO's percentile, ms; `stages` of a pipeline take prompts one after the other."""
    busy = np.clip(results["mixed_share"] / stages, 0.0, MOST_LOAD)
    queued = 0.5 * busy / (1.0 - busy) * results["prefill_ms"] / stages
    queued = np.clip(results["ttft_ms"] - results["prefill_ms"], 0.0, queued)
    return np.asarray(results["ttft_ms"] - queued + wait_percentile(queued, busy, limits))


def tpot_percentile(results: npt.NDArray[Any], ranks: Floats, limits: Limits) -> Floats:
    """TPOT of result records at the SLO's percentile, ms."""
    stalls = np.maximum(results["tpot_rise"], 0.0)
    share = stalls / (1.0 + stalls)
    met = np.maximum(1.0, results["resident"] / ranks)
    return np.asarray(results["tpot_ms"] * (1.0 + limits.deviations * share / np.sqrt(met)))


def population_percentile(resident: Floats, limits: Limits) -> Floats:
    """Requests in flight at the SLO's percentile of time."""
    return np.asarray(resident + limits.deviations * np.sqrt(np.maximum(resident, 0.0)))
