"""Block identities of requests at the block sizes that a prefix cache may have."""

import numpy as np
import pytest

from sweep.errors import UserError
from sweep.traces.blocks import block_hashes
from sweep.traces.requests import Ragged, Requests, offsets


def with_blocks(ids, isl, block_tokens=512):
    n = len(ids)
    value = np.array([one for row in ids for one in row], np.uint64)
    blocks = Ragged(offsets(np.array([len(row) for row in ids])), value)
    return Requests(
        np.zeros(n, np.int64),
        np.array(isl, np.int32),
        np.ones(n, np.int32),
        blocks=blocks,
        block_tokens=block_tokens,
    )


def test_only_full_blocks_have_an_identity():
    found = block_hashes(with_blocks([[1, 2, 3], [1, 9]], [1100, 1024]), 512)
    assert [found.row(i).tolist() for i in range(2)] == [[1, 2], [1, 9]]


def test_larger_blocks_are_named_by_the_last_of_their_parts():
    found = block_hashes(with_blocks([[1, 2, 3, 4, 5], [6, 7]], [2560, 1024]), 1024)
    assert [found.row(i).tolist() for i in range(2)] == [[2, 4], [7]]


def test_smaller_blocks_share_exactly_what_the_larger_ones_share():
    found = block_hashes(with_blocks([[1, 2], [1, 3]], [1000, 1024]), 256)
    first, second = found.row(0), found.row(1)
    assert (len(first), len(second)) == (3, 4)
    assert first[:2].tolist() == second[:2].tolist()
    assert first[2] != second[2]


def test_a_block_size_that_does_not_fit_the_traces_own_is_refused():
    with pytest.raises(UserError, match="a divisor or a multiple of 512"):
        block_hashes(with_blocks([[1]], [600]), 100)


def test_token_ids_identify_blocks_of_any_size_and_of_the_output_too():
    tokens = Ragged(np.array([0, 7, 14]), np.array([1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 8], np.int32))
    requests = Requests(
        np.zeros(2, np.int64), np.full(2, 4, np.int32), np.full(2, 3, np.int32), tokens=tokens
    )
    found = block_hashes(requests, 3)
    assert found.length.tolist() == [2, 2]
    assert found.row(0).tolist() == found.row(1).tolist()
    assert (
        block_hashes(Requests(np.zeros(1, np.int64), np.ones(1, np.int32), np.ones(1, np.int32)), 3) is None
    )
