"""Invariants of the simulator over random engines and loads."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.des_layout import FINISHED, REJECTED
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.point_rows import row_values
from sweep.records import default_records, set_values
from sweep.simulate.deployment import deployment
from sweep.simulate.runner import inter_token_ns, simulate
from sweep.simulate.world import RunOptions
from sweep.traces.requests import Ragged, Requests, offsets


@pytest.fixture(scope="module")
def engine():
    """A small deployment."""
    record = default_records(1)
    set_values(record[0], row_values({"model": "llama_3_1_8b", "hardware": "h100_sxm", "tp": 1}))
    table = coefficients_for("roofline")
    c = coefficients_of(table, record)
    return deployment(record, c)


@st.composite
def cases(draw):
    """Settings of one to three engines, and a request stream with shared prefixes and sessions."""
    roles = draw(st.sampled_from([(0,), (0, 0), (1, 2), (1, 1, 2), (0, 0, 0)]))
    common = {
        "max_seqs": draw(st.integers(1, 12)),
        "budget": draw(st.sampled_from([16, 64, 256, 2048])),
        "threshold": draw(st.sampled_from([0, 0, 8])),
        "chunked": draw(st.sampled_from([1, 1, 1, 0])),
        "reserve": draw(st.integers(0, 1)),
        "block_size": draw(st.sampled_from([1, 4, 16])),
        "caching": draw(st.integers(0, 1)),
        "n_blocks": draw(st.integers(4, 120)),
        "exclusive_prefill": draw(st.integers(0, 1)),
        "max_prefill_seqs": draw(st.sampled_from([0, 1])),
        "spec_tokens": draw(st.sampled_from([0, 0, 3])),
        "spec_acceptance": 0.6,
        "pp": draw(st.sampled_from([1, 1, 2, 3])),
    }
    group = draw(st.booleans()) and roles == (0, 0)
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    isl, osl = rng.integers(1, 90, n), rng.integers(1, 60, n)
    closed = draw(st.sampled_from([0, 0, 1, 5]))
    arrival = np.zeros(n, np.int64) if closed else np.sort(rng.integers(0, 3 * 10**8, n))
    parent = np.full(n, -1, np.int64)
    if not closed and n > 4 and draw(st.booleans()):
        parent[-2:] = (0, n - 2)
        arrival[-2:] = arrival[0]
    tokens = None
    if draw(st.booleans()):
        ids = [np.concatenate([np.arange(m // 2), rng.integers(0, 3, m - m // 2)]) for m in isl + osl]
        tokens = Ragged(offsets(isl + osl), np.concatenate(ids).astype(np.int64))
    requests = Requests(
        arrival,
        isl.astype(np.int32),
        osl.astype(np.int32),
        parent=parent if (parent >= 0).any() else None,
        tool_ns=np.full(n, 10**6) if (parent >= 0).any() else None,
        tokens=tokens,
    )
    policy = draw(st.integers(0, 2))
    return (
        roles,
        common,
        group,
        requests,
        RunOptions(
            policy=policy, closed_loop=min(closed, n), record_tokens=True, log_steps=20_000, n_buckets=4
        ),
    )


def run(engine, case):
    roles, common, group, requests, options = case
    instances = []
    for role in roles:
        one = engine.instance()
        one.settings.update(
            common,
            group=0 if group else -1,
            role=role,
            transfer_bytes_per_token=131_072,
            pd_bytes_per_ns=50.0,
        )
        instances.append(one)
    return simulate(instances, requests, options)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_every_request_ends_or_says_why_and_nothing_is_lost(engine, case):
    out = run(engine, case)
    req, inst = out.world.req, out.world.inst
    done, rejected = req["state"] == FINISHED, req["state"] == REJECTED
    assert out.finished
    assert (done | rejected).all()
    assert (req["reason"][rejected] > 0).all()
    # tokens in = tokens out
    assert (req["generated"][done] == req["osl"][done]).all()
    assert inst["generated"].sum() == req["generated"].sum()
    # blocks are conserved
    assert (inst["n_free"] == inst["n_blocks"]).all()
    assert (inst["n_running"] == 0).all()
    assert (inst["n_waiting"] == 0).all()
    # clocks never go back
    assert (req["first_token"][done] > req["arrival"][done]).all()
    assert (req["finish"][done] >= req["first_token"][done]).all()
    for row in np.flatnonzero(done):
        gaps = inter_token_ns(out, row)
        assert (gaps >= 0).all()
        assert gaps.sum() == req["last_token"][row] - req["first_token"][row]
    steps = out.world.arrays["log"][: int(out.world["n_log"])]
    assert len(steps) == inst["n_steps"].sum()
    assert (steps["end"] >= steps["start"]).all()
    for k in range(len(inst)):
        mine = steps[steps["instance"] == k]
        assert (np.diff(mine["end"]) >= 0).all()
        assert (mine["running"] <= inst["max_seqs"][k]).all()
        if not case[2]:
            assert (mine["tokens"] <= inst["budget"][k]).all()
        assert (mine["blocks_used"] >= 0).all()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_the_same_seed_gives_the_same_bytes(engine, case):
    first, second = run(engine, case), run(engine, case)
    assert first.world.req.tobytes() == second.world.req.tobytes()
    assert first.world.arrays["token_ns"].tobytes() == second.world.arrays["token_ns"].tobytes()
