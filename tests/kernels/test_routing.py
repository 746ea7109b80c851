"""Routing policies against plain twins."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import routing
from kernels.jit import kernel

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=9)


@kernel
def run(policy, hits, load, busy, prompt_blocks, start):
    if policy == 0:
        return routing.rotating_least(load, start)
    if policy == 1:
        return routing.prefix_aware(hits, load, start)
    return routing.kv(hits, prompt_blocks, busy, start)


def drawn(data):
    load = np.array(data.draw(COUNTS), float)
    same = st.lists(st.integers(0, 20), min_size=load.size, max_size=load.size)
    return load, np.array(data.draw(same)), np.array(data.draw(same)), data.draw(st.integers(0, 30))


def from_start(n, start):
    return [(start + step) % n for step in range(n)]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_least_load_takes_the_first_minimum_in_rotation(data):
    load, hits, busy, start = drawn(data)
    expected = min(from_start(load.size, start), key=lambda i: load[i])
    assert run(0, hits, load, busy, 5, start) == expected


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_prefix_aware_takes_the_longest_prefix_unless_the_fleet_is_out_of_balance(data):
    load, hits, busy, start = drawn(data)
    order = from_start(load.size, start)
    if (load.max() - load.min() > 8 and load.max() > 1.5 * load.min()) or hits.max() == 0:
        expected = min(order, key=lambda i: load[i])
    else:
        expected = min(order, key=lambda i: (-hits[i], load[i]))
    assert run(1, hits, load, busy, 5, start) == expected


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_kv_takes_the_least_cost_of_prompt_to_compute_and_blocks_in_use(data):
    load, hits, busy, start = drawn(data)
    expected = min(from_start(load.size, start), key=lambda i: 20 - hits[i] + busy[i])
    assert run(2, hits, load, busy, 20, start) == expected


def test_random_choice_stays_inside_the_fleet():
    assert [routing.at_random(4, u) for u in (0.0, 0.26, 0.999999)] == [0, 1, 3]
    assert [routing.in_turn(3, k) for k in range(4)] == [0, 1, 2, 0]
