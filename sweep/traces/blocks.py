"""Block identities of requests at the block size of a prefix cache."""

from __future__ import annotations

import numpy as np

from kernels import hashing
from sweep.errors import UserError
from sweep.traces.requests import Ragged, Requests, offsets


def block_hashes(requests: Requests, block_tokens: int) -> Ragged | None:
    """One hash (uint64) per full block of `block_tokens` tokens; None where requests have no identity.

    From token ids (prompt and output) at any size; from the source's own block hashes (prompt only) at its block
    size, a divisor or a multiple of it. Raises UserError for another size.
    """
    if requests.tokens is not None:
        return _of_tokens(requests, requests.tokens, block_tokens)
    if requests.blocks is None:
        return None
    own = requests.block_tokens
    full = np.minimum(
        requests.isl.astype(np.int64) // block_tokens, requests.blocks.length * own // block_tokens
    )
    part_offset = offsets(full)
    if block_tokens % own == 0:
        last = np.repeat(requests.blocks.offset[:-1] - part_offset[:-1] * (block_tokens // own), full)
        cell = last + (np.arange(part_offset[-1]) + 1) * (block_tokens // own) - 1
        return Ragged(part_offset, requests.blocks.value[cell])
    if own % block_tokens:
        raise UserError(
            f"the trace identifies blocks of {own} tokens",
            field="block_size",
            value=block_tokens,
            allowed=f"a divisor or a multiple of {own}",
        )
    out = np.empty(part_offset[-1], np.uint64)
    hashing.split_blocks(requests.blocks.value, requests.blocks.offset, own // block_tokens, part_offset, out)
    return Ragged(part_offset, out)


def _of_tokens(requests: Requests, tokens: Ragged, block_tokens: int) -> Ragged:
    length = np.minimum(tokens.length, requests.isl.astype(np.int64) + requests.osl)
    block_offset = offsets(length // block_tokens)
    out = np.empty(block_offset[-1], np.uint64)
    hashing.chain_tokens(tokens.value, tokens.offset, block_tokens, block_offset, out)
    return Ragged(block_offset, out)
