"""A measured prefill rate as a correction of the modelled one."""

import numpy as np

from kernels.batching import prompt_service_us
from kernels.jit import kernel

LEAST, MOST = 0.5, 3.0
"""A measured rate further from the model than this is of another machine: the correction stops here."""


@kernel
def prefill_scale(p, d, c, s):
    """Measured us per token over the model's between the two prompt lengths of the span; 1 without a measured rate.

    modelled = (prefill(hi) - prefill(lo)) / (hi - lo), one prompt alone. It acts on the way to the first token, not on
    what prompts cost those who decode.
    """
    if np.isnan(p.prefill_rate_us_per_token) or np.isnan(p.prefill_rate_lo_tokens):
        return 1.0
    span = p.prefill_rate_hi_tokens - p.prefill_rate_lo_tokens
    if not span > 0.0:
        return 1.0
    _, low_us = prompt_service_us(0.0, 0.0, p.prefill_rate_lo_tokens, 0.0, True, p, d, c, s)
    _, high_us = prompt_service_us(0.0, 0.0, p.prefill_rate_hi_tokens, 0.0, True, p, d, c, s)
    modelled = (high_us - low_us) / span
    if modelled <= 0.0:
        return 1.0
    return min(MOST, max(LEAST, p.prefill_rate_us_per_token / modelled))
