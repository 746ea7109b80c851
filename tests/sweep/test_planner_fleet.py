"""Sizing fleets: equal to brute force, and monotone in load, capacity and price."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.planner.fleet import Units, best_mix, replicas_needed

amount = st.floats(0.5, 20.0)
count = st.integers(1, 8)


def units(rows: list[tuple[float, int, float, int]]) -> Units:
    load, gpus, usd, kind = zip(*rows, strict=True)
    return Units(np.array(load), np.array(gpus, float), np.array(usd), np.array(kind, np.int64))


def carries(a: float, n_a: int, b: float, n_b: int, load: float, spare: int) -> bool:
    """Whether the fleet carries the load with its `spare` largest replicas gone."""
    each = sorted([a] * n_a + [b] * n_b)
    return sum(each[: max(0, len(each) - spare)]) >= load * (1.0 - 1e-9)


def brute_force(u: Units, load: float, spare: int, smallest: bool) -> tuple[float, float] | None:
    keys = []
    for i, j in itertools.combinations(range(len(u.load)), 2):
        if u.kind[i] == u.kind[j]:
            continue
        for n_i, n_j in itertools.product(range(1, 30), repeat=2):
            if carries(u.load[i], n_i, u.load[j], n_j, load, spare):
                gpus = n_i * u.gpus[i] + n_j * u.gpus[j]
                usd = n_i * u.usd_per_hour[i] + n_j * u.usd_per_hour[j]
                keys.append((gpus, usd) if smallest else (usd, gpus))
    return min(keys) if keys else None


@given(
    st.lists(st.tuples(amount, count, amount, st.integers(0, 2)), min_size=2, max_size=4),
    st.floats(0.5, 10.0),
    st.integers(0, 1),
    st.booleans(),
)
def test_the_best_mix_of_two_types_equals_brute_force(rows, load, spare, smallest):
    fleet = units(rows)
    found = best_mix(fleet, load, spare, smallest=smallest)
    wanted = brute_force(fleet, load, spare, smallest)
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        key = (found.gpus, found.usd_per_hour) if smallest else (found.usd_per_hour, found.gpus)
        assert key == pytest.approx(wanted)


@given(st.floats(0.1, 1e4), st.floats(0.01, 1e3), st.integers(0, 4))
def test_replicas_carry_the_load_with_the_spare_gone_and_one_fewer_would_not(load, each, spare):
    n = float(replicas_needed(load, each, spare))
    assert (n - spare) * each >= load * (1.0 - 1e-6)
    assert n == 1 + spare or (n - spare - 1) * each < load


@given(st.floats(0.1, 1e4), st.floats(1.0, 2.0), st.floats(0.01, 1e3), st.integers(0, 4))
def test_more_load_never_needs_fewer_replicas(load, factor, each, spare):
    assert replicas_needed(load * factor, each, spare) >= replicas_needed(load, each, spare)


def test_a_deployment_that_carries_nothing_needs_infinitely_many_replicas():
    assert replicas_needed(3.0, np.array([0.0, 1.5]), 1).tolist() == [math.inf, 3.0]


def test_a_mix_keeps_to_the_limits_on_gpus_and_money():
    fleet = units([(4.0, 2, 5.0, 0), (1.0, 1, 2.0, 1)])
    assert best_mix(fleet, 9.0, 0) is not None
    assert best_mix(fleet, 9.0, 0, max_gpus=4) is None
    assert best_mix(fleet, 9.0, 0, budget=11.0) is None
