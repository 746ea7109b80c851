"""Decoding requests that advance together end as if each had gone by itself."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep.fidelity import coefficients_for, coefficients_of
from sweep.point_rows import row_values
from sweep.records import default_records, set_values
from sweep.simulate import world
from sweep.simulate.deployment import deployment
from sweep.simulate.runner import simulate
from sweep.simulate.world import RunOptions
from sweep.traces.requests import Ragged, Requests, offsets

COUNTED = ("n_steps", "mixed_steps", "n_preempted", "recomputed", "generated", "prompt_tokens", "hit_tokens",
           "busy_ns", "peak_blocks", "n_free")  # fmt: skip


@pytest.fixture(scope="module")
def engine():
    record = default_records(1)
    set_values(record[0], row_values({"model": "llama_3_1_8b", "hardware": "h100_sxm", "tp": 1}))
    table = coefficients_for("roofline")
    return deployment(record, coefficients_of(table, record))


def one_by_one(inst):
    """In place of the rule that lets instances form cohorts."""
    return np.zeros(len(inst), bool)


def run(engine, changes, requests, n=1, together=True):
    instances = []
    for _ in range(n):
        one = engine.instance()
        one.settings.update(changes)
        instances.append(one)
    with pytest.MonkeyPatch.context() as patch:
        if not together:
            patch.setattr(world, "_may_form_cohorts", one_by_one)
        options = RunOptions(record_tokens=True, log_steps=50_000, n_buckets=4)
        return simulate(instances, requests, options)


@st.composite
def cases(draw):
    """Settings of an engine that is often short of blocks, and requests with and without shared beginnings."""
    block = draw(st.sampled_from([1, 4, 16]))
    changes = {
        "max_seqs": draw(st.integers(1, 12)),
        "budget": draw(st.sampled_from([16, 64, 256, 2048])),
        "chunked": draw(st.sampled_from([1, 1, 0])),
        "reserve": draw(st.integers(0, 1)),
        "block_size": block,
        "n_blocks": draw(st.integers(130, 500)) // block + 1,
        "exclusive_prefill": draw(st.integers(0, 1)),
        "max_prefill_seqs": draw(st.integers(0, 1)),
        "caching": draw(st.integers(0, 1)),
    }
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    isl, osl = rng.integers(1, 90, n), rng.integers(1, 40, n)
    arrival = np.sort(rng.integers(0, draw(st.sampled_from([1, 3 * 10**8])), n))
    tokens = None
    if draw(st.booleans()):
        ids = [np.concatenate([np.arange(m // 2), rng.integers(0, 3, m - m // 2)]) for m in isl + osl]
        tokens = Ragged(offsets(isl + osl), np.concatenate(ids).astype(np.int64))
    return changes, Requests(arrival, isl.astype(np.int32), osl.astype(np.int32), tokens=tokens)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases(), n=st.integers(1, 3))
def test_a_cohort_gives_every_request_and_step_what_going_alone_gives_it(engine, case, n):
    changes, requests = case
    together, alone = (run(engine, changes, requests, n, flag) for flag in (True, False))
    for field in together.world.req.dtype.names:
        if field not in ("next", "joined"):
            assert np.array_equal(together.world.req[field], alone.world.req[field]), field
    for field in COUNTED:
        assert np.array_equal(together.world.inst[field], alone.world.inst[field]), field
    for name in ("token_ns", "gaps"):
        assert np.array_equal(together.world.arrays[name], alone.world.arrays[name]), name
    n_log = int(together.world["n_log"])
    assert n_log == int(alone.world["n_log"])
    assert np.array_equal(together.world.arrays["log"][:n_log], alone.world.arrays["log"][:n_log])


def test_cohorts_are_formed_only_where_every_decode_takes_one_token_per_step(engine):
    for changes, formed in (
        ({}, 1),
        ({"pp": 2}, 0),
        ({"spec_tokens": 2}, 0),
        ({"threshold": 64}, 0),
        ({"group": 0}, 0),
    ):
        requests = Requests(np.zeros(3, np.int64), np.full(3, 20, np.int32), np.full(3, 5, np.int32))
        assert run(engine, changes, requests).world.inst["cohorts"][0] == formed
