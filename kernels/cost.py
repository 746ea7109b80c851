"""Money and energy of a deployment's throughput."""

import numpy as np

from kernels.auto import default_to
from kernels.jit import kernel
from kernels.units import S_PER_HOUR

FACILITY_OVER_TDP = 1.5
"""All-in facility power over TDP where no figure is published (H100: 1.73 kW for 700 W TDP is 2.5 x with the server; 1.5 x is a floor)."""


@kernel
def usd_per_million(usd_per_gpu_hour, gpus, tok_s, utilization):
    """$ per million tokens: price x GPUs x 1e6 / (3600 x tokens/s x utilisation); NaN without a price or a rate."""
    if not tok_s > 0.0:
        return np.nan
    return usd_per_gpu_hour * gpus * 1e6 / (S_PER_HOUR * tok_s * utilization)


@kernel
def facility_w_per_gpu(p):
    """All-in power per GPU, W: the published figure, else 1.5 x TDP; NaN where neither is known."""
    return default_to(p.facility_kw_per_gpu * 1e3, FACILITY_OVER_TDP * p.tdp_w)


@kernel
def fill_cost(p, prefill_gpus, decode_gpus, gpus, isl, osl, requests_per_s, o):
    """Cost and energy columns of the result record `o`.

    Input tokens are charged to the GPUs that prefill, output tokens to those that decode, the total to all; in a
    deployment without pools these are the same GPUs.
    """
    input_tok_s = requests_per_s * isl
    output_tok_s = requests_per_s * osl
    o.usd_per_m_input = usd_per_million(p.usd_per_gpu_hour, prefill_gpus, input_tok_s, p.utilization)
    o.usd_per_m_output = usd_per_million(p.usd_per_gpu_hour, decode_gpus, output_tok_s, p.utilization)
    o.usd_per_m_total = usd_per_million(p.usd_per_gpu_hour, gpus, input_tok_s + output_tok_s, p.utilization)
    o.output_tok_s_per_gpu = output_tok_s / gpus
    o.total_tok_s_per_gpu = (input_tok_s + output_tok_s) / gpus
    o.prefill_tok_s_per_prefill_gpu = input_tok_s / prefill_gpus
    o.decode_tok_s_per_decode_gpu = output_tok_s / decode_gpus
    watts = facility_w_per_gpu(p)
    if output_tok_s > 0.0:
        o.joules_per_output_token = watts * gpus / output_tok_s
        o.output_tok_s_per_mw = output_tok_s / (watts * gpus) * 1e6
