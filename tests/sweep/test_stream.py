"""Streamed simulations: the same requests, in memory that does not grow with their number."""

import numpy as np
import pytest

from kernels.des_layout import FINISHED
from sweep.errors import UserError
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.point_rows import row_values
from sweep.records import default_records, set_values
from sweep.simulate.deployment import deployment
from sweep.simulate.runner import simulate
from sweep.simulate.stream import Totals, can_stream, in_blocks, simulate_stream
from sweep.simulate.world import RunOptions
from sweep.traces import Traffic, synthesize
from sweep.traces.synthetic import blocks


@pytest.fixture(scope="module")
def one():
    record = default_records(1)
    set_values(record[0], row_values({"model": "llama_3_1_8b", "hardware": "h100_sxm"}))
    table = coefficients_for("roofline")
    return deployment(record, coefficients_of(table, record))


def traffic(n, rate=40.0):
    return synthesize(Traffic(n, rate, isl=800, osl=60, length_range=0.2))


class Kept:
    """A sink that keeps what ended, by number."""

    def __init__(self):
        self.number, self.ended = [], []

    def __call__(self, number, ended):
        self.number.append(number)
        self.ended.append(ended.copy())

    def in_order(self):
        number = np.concatenate(self.number)
        return number, np.concatenate(self.ended)[np.argsort(number)]


@pytest.mark.parametrize("block", [7, 100, 5000])
@pytest.mark.parametrize("settings", [{}, {"n_blocks": 300}, {"max_seqs": 3, "pp": 2}])
def test_a_stream_gives_every_request_what_a_run_in_memory_gives_it(one, block, settings):
    requests = traffic(1000)
    instance = one.instance()
    instance.settings.update(settings)
    whole = simulate([instance], requests, RunOptions()).world.req
    kept = Kept()
    simulate_stream([instance], in_blocks(requests, block), RunOptions(), kept)
    number, ended = kept.in_order()
    assert sorted(number.tolist()) == list(range(1000))
    for field in ("arrival", "first_token", "finish", "started", "generated", "preemptions", "state"):
        assert np.array_equal(ended[field], whole[field]), field


def test_places_grow_with_open_requests_not_with_all(one):
    sizes = []
    for n in (4000, 40_000):
        world = simulate_stream([one.instance()], in_blocks(traffic(n), 500), RunOptions(), Totals())
        assert int(world["n_done"]) == n
        sizes.append(len(world.req))
    assert sizes[1] <= 1.5 * sizes[0] < 4000


def test_traffic_drawn_in_blocks_is_the_traffic(one):
    traffic = Traffic(20_000, 40.0, "gamma", 0.5, isl=800, osl=60, length_range=0.2, seed=5)
    drawn = list(blocks(traffic, 3000))
    assert [len(block) for block in drawn] == [3000] * 6 + [2000]
    arrival = np.concatenate([block.arrival_ns for block in drawn])
    assert (np.diff(arrival) >= 0).all()
    assert len(arrival) / (arrival[-1] / 1e9) == pytest.approx(40.0, rel=0.03)
    gaps = np.diff(arrival)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(2.0, rel=0.1)
    again = list(blocks(traffic, 3000))
    assert all(np.array_equal(a.isl, b.isl) for a, b in zip(drawn, again, strict=True))
    assert not np.array_equal(drawn[0].isl, drawn[1].isl)
    totals = Totals()
    world = simulate_stream([one.instance()], blocks(traffic, 3000), RunOptions(), totals)
    assert totals.finished == 20_000
    assert len(world.req) < 6000
    with pytest.raises(UserError, match="in blocks"):
        next(blocks(Traffic(10, 1.0, "pulse"), 5))


def test_totals_are_those_of_the_requests(one):
    requests = traffic(3000)
    outcome = simulate([one.instance()], requests, RunOptions())
    req = outcome.world.req
    totals = Totals()
    world = simulate_stream([one.instance()], in_blocks(requests, 256), RunOptions(), totals)
    told = totals.summary(world, 1.0)
    assert told["finished"] == int((req["state"] == FINISHED).sum()) == 3000
    assert told["makespan_ns"] == req["finish"].max()
    ttft = (req["first_token"] - req["arrival"]) / 1e6
    assert told["ttft_ms_mean"] == pytest.approx(ttft.mean())
    for q in (50, 90, 99):
        assert told[f"ttft_ms_p{q}"] == pytest.approx(np.percentile(ttft, q), rel=0.005)
    assert told["steps"] == int(outcome.world.inst["n_steps"].sum())


def test_what_needs_more_than_its_own_record_is_not_streamed():
    plain, options = traffic(10), RunOptions()
    assert can_stream(plain, options)
    assert not can_stream(plain, RunOptions(record_tokens=True))
    shared = synthesize(Traffic(10, 1.0, isl=64, osl=4, n_prefixes=2, block_tokens=16))
    assert not can_stream(shared, options)
