"""Measured factors on the columns of a result: latencies, and all that follows from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernels.coefficients import (
    HOST_LAYER_US,
    HOST_PROMPT_TOKEN_US,
    HOST_PROMPT_US,
    HOST_REQUEST_US,
    HOST_SEQUENCE_US,
    HOST_STEP_US,
    HOST_STREAM_US,
    OP_HOST,
    OP_SCALE,
)
from kernels.evaluate import LOAD_RATE
from kernels.layout import PART_NAMES, RESULT_INDEX

Floats = npt.NDArray[np.float64]

WITH_TPOT = ("tpot_ms", "itl_ms", "step_ms", "mixed_step_ms", *(f"step_{part}_ms" for part in PART_NAMES))
WITH_RATE = (
    "requests_per_s",
    "output_tok_s_per_gpu",
    "total_tok_s_per_gpu",
    "output_tok_s_per_mw",
    "prefill_tok_s_per_prefill_gpu",
    "decode_tok_s_per_decode_gpu",
)
AGAINST_RATE = ("usd_per_m_input", "usd_per_m_output", "usd_per_m_total", "joules_per_output_token")


def scale(results: Floats, ttft: Floats, tpot: Floats, load: Floats) -> None:
    """Scale rows of `results` (n, N_OUT) in place by factors on TTFT and TPOT (n,); `load` are codes of workload.load.

    A closed loop of C clients completes C / E2E requests per second (Little), so throughput goes with the inverse of the
    new E2E and cost with it. An offered rate that is served stays what it is; its residents follow E2E.
    """
    of = {name: results[:, i] for name, i in RESULT_INDEX.items()}
    before = of["e2e_ms"].copy()
    decode = before - of["ttft_ms"]
    of["ttft_ms"] *= ttft
    of["prefill_ms"] *= ttft
    for name in WITH_TPOT:
        of[name] *= tpot
    of["tok_s_per_user"] /= tpot
    of["e2e_ms"][:] = of["ttft_ms"] + decode * tpot
    slower = of["e2e_ms"] / before
    served = (load == LOAD_RATE) & (of["saturated"] <= 0.0)
    of["resident"] *= np.where(served, slower, 1.0)
    rate = np.where(served, 1.0, 1.0 / slower)
    for name in WITH_RATE:
        of[name] *= rate
    for name in AGAINST_RATE:
        of[name] /= rate


def scaled_coefficients(coefficients: Floats, ttft: float, tpot: float) -> Floats:
    """Coefficients (N_OPS, N_COEF) for a simulation beside an anchored estimate: every part of a step by the factor on
    TPOT, the host's time per prompt and request by that on TTFT."""
    scaled = coefficients.copy()
    scaled[OP_SCALE] *= tpot
    scaled[OP_HOST, [HOST_STEP_US, HOST_SEQUENCE_US, HOST_LAYER_US]] *= tpot
    scaled[OP_HOST, [HOST_PROMPT_US, HOST_PROMPT_TOKEN_US, HOST_REQUEST_US, HOST_STREAM_US]] *= ttft
    return scaled
