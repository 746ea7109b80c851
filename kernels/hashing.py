"""Identity of KV blocks: a chain of hashes over all tokens up to each full block's end.

h_i = mix(h_(i-1), tokens of block i), h_(-1) a fixed seed: two requests share block i exactly where they share every
token before its end.
"""

import numpy as np

from kernels.jit import inlined, kernel

SEED = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio."""
_ODD = 0xD1B54A32D192ED03


@inlined
def mix(x):
    """splitmix64's finaliser: a bijection of 64-bit words in which each input bit flips half of the output's."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def link(h, value):
    """Hash of everything before (`h`) and one more word."""
    return mix(h + np.uint64(SEED) + np.uint64(value) * np.uint64(_ODD))


@kernel
def chain_tokens(token, token_offset, block_tokens, block_offset, out):
    """Chained hashes of every row's full blocks.

    Row i has tokens token[token_offset[i] : token_offset[i+1]] and as many blocks of `block_tokens` as `block_offset`
    (int64, rows + 1) leaves room for; `out` (uint64) is filled.
    """
    for i in range(token_offset.size - 1):
        h = np.uint64(SEED)
        at = token_offset[i]
        for block in range(block_offset[i], block_offset[i + 1]):
            for _ in range(block_tokens):
                h = link(h, token[at])
                at += 1
            out[block] = h


@kernel
def split_blocks(block, block_offset, parts, part_offset, out):
    """Identities of the `parts` equal pieces of every block, where the blocks' own are chained already.

    Row i gets part_offset[i+1] - part_offset[i] pieces; piece j is named by its block and its place in it.
    """
    for i in range(block_offset.size - 1):
        for j in range(part_offset[i + 1] - part_offset[i]):
            whole = block[block_offset[i] + j // parts]
            out[part_offset[i] + j] = link(link(np.uint64(SEED), whole), j % parts)
