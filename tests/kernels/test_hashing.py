"""Chained hashes of KV blocks against a plain twin."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.hashing import chain_tokens, split_blocks
from sweep.traces.requests import offsets

WORD = 2**64


def twin_mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def twin_link(h, value):
    return twin_mix((h + 0x9E3779B97F4A7C15 + value * 0xD1B54A32D192ED03) % WORD)


def chained(rows, block_tokens):
    token_offset = offsets(np.array([len(row) for row in rows]))
    block_offset = offsets(np.diff(token_offset) // block_tokens)
    out = np.zeros(block_offset[-1], np.uint64)
    token = np.array([t for row in rows for t in row], np.int32)
    chain_tokens(token, token_offset, block_tokens, block_offset, out)
    return [out[a:b].tolist() for a, b in itertools.pairwise(block_offset)]


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=1, max_size=6),
    block_tokens=st.integers(1, 5),
)
def test_chains_match_the_plain_twin_and_are_equal_exactly_where_prefixes_are(rows, block_tokens):
    got = chained(rows, block_tokens)
    named = {}
    for row, hashes in zip(rows, got, strict=True):
        h = 0x9E3779B97F4A7C15
        for i, found in enumerate(hashes):
            for token in row[i * block_tokens : (i + 1) * block_tokens]:
                h = twin_link(h, token)
            assert found == h
            prefix = tuple(row[: (i + 1) * block_tokens])
            assert named.setdefault(found, prefix) == prefix


def test_pieces_of_a_block_are_named_by_block_and_place():
    block = np.array([7, 8, 7], np.uint64)
    out = np.zeros(9, np.uint64)
    split_blocks(block, np.array([0, 2, 3]), 4, np.array([0, 6, 9]), out)
    assert out[6:9].tolist() == out[0:3].tolist()
    assert len(set(out[:6].tolist())) == 6
    assert int(out[5]) == twin_link(twin_link(0x9E3779B97F4A7C15, 8), 1)
