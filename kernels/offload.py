"""Second tier of the KV cache: host memory that holds the caches of idle requests.

It extends what can be held, not what can be decoded at once; fetching is charged.
"""

import numpy as np

from kernels.auto import default_to
from kernels.jit import kernel
from kernels.units import BYTES_PER_US_PER_GB_S, GIB


@kernel
def offload_tokens(p, d):
    """Tokens of one DP rank that the tier holds: GiB per GPU over the bytes that a token leaves on a GPU.

    No more than the host has, where that is known.
    """
    if d.kv_bytes_per_token <= 0.0 or p.kv_offload_gib_per_gpu <= 0.0:
        return 0.0
    tier_gib = min(p.kv_offload_gib_per_gpu, default_to(p.host_memory_gib_per_gpu, np.inf))
    return np.floor(tier_gib * GIB / d.kv_bytes_per_token)


@kernel
def offload_fetch_us(cached_tokens, p, d):
    """Time to fetch a prompt's cached tokens from the tier, us: min(tokens held, cached) bytes over the host link.

    Every GPU fetches its shard over its own link, so the bytes are one GPU's.
    """
    tokens = min(cached_tokens, offload_tokens(p, d))
    if tokens <= 0.0:
        return 0.0
    rate = p.kv_offload_gb_s if p.kv_offload_gb_s > 0.0 else p.host_link_gb_s
    return tokens * d.kv_bytes_per_token / (rate * BYTES_PER_US_PER_GB_S)
