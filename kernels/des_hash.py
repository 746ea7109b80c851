"""Chained hashes of full KV blocks: one link per block over all tokens up to its end."""

import numpy as np

from kernels.des_random import mix
from kernels.jit import kernel

SEED = 0x9E3779B97F4A7C15


@kernel
def chain(tokens, block_size, out):
    """Fill `out` (uint64, one per full block) with h_i = mix(h_(i-1), tokens of block i)."""
    h = np.uint64(SEED)
    for i in range(out.size):
        for j in range(block_size):
            h = mix(h + np.uint64(SEED) + np.uint64(tokens[i * block_size + j]) * np.uint64(0xD1B54A32D192ED03))
        out[i] = h
