"""ns-3 as a price of collectives: schedules and topologies by themselves, and real runs where the package is there."""

import importlib.util
import json

import pytest

from sweep import network_ns3 as ns3
from sweep.errors import UserError

MIB = 2**20
needs_ns3 = pytest.mark.skipif(importlib.util.find_spec("ns3") is None, reason="package ns3 is not installed")


def fabric(topology="switch", n_gpus=8, domain_gpus=8, link_gb_s=450.0):
    return ns3.Fabric(
        topology=topology,
        n_gpus=n_gpus,
        domain_gpus=min(domain_gpus, n_gpus),
        mesh_gpus=8,
        link_gb_s=link_gb_s,
        link_latency_us=0.87,
        host_link_gb_s=64.0,
        nic_gb_s=50.0,
        nic_latency_us=3.0,
    )


def run(f, algorithm, n_bytes, primitive="all_reduce"):
    return ns3.simulate_us(f, ns3.schedule(primitive, algorithm, f, n_bytes))


@pytest.mark.parametrize("topology", ["switch", "mesh", "pcie", "pairwise"])
@pytest.mark.parametrize("n_gpus", [2, 8, 16])
def test_every_gpu_reaches_every_other_by_the_routes(topology, n_gpus):
    plan = ns3.topology(fabric(topology, n_gpus))
    following = {(node, destination): after for node, destination, after in plan.routes}
    neighbours = {pair for a, b, _, _ in plan.links for pair in ((a, b), (b, a))}
    for a in range(n_gpus):
        for b in range(n_gpus):
            node, hops = a, 0
            while node != b:
                assert (node, following[node, b]) in neighbours
                node, hops = following[node, b], hops + 1
                assert hops <= 2


@pytest.mark.parametrize("topology", ["switch", "mesh"])
@pytest.mark.parametrize("n_gpus", [2, 5, 8, 16])
def test_schedules_move_the_bytes_of_their_algorithms(topology, n_gpus):
    f = fabric(topology, n_gpus)
    n_bytes = 840 * n_gpus * 64
    sent = {}
    for algorithm in ("ring", "one_shot", "two_shot"):
        transfers = ns3.schedule("all_reduce", algorithm, f, n_bytes)
        sent[algorithm] = sum(size for _, source, _, size in transfers if source == 0)
    assert sent["one_shot"] == n_bytes * (n_gpus - 1)
    assert sent["two_shot"] == pytest.approx(2 * n_bytes * (n_gpus - 1) / n_gpus, rel=1e-3)
    assert sent["ring"] == pytest.approx(2 * n_bytes * (n_gpus - 1) / n_gpus, rel=1e-3)


def test_rings_of_a_mesh_share_no_link():
    orders = ns3.ring_orders(fabric("mesh"))
    links = [(order[i], order[(i + 1) % 8]) for order in orders for i in range(8)]
    assert len(orders) == 4
    assert len(set(links)) == len(links)


def test_a_combination_without_schedule_is_named():
    with pytest.raises(UserError, match="algorithm=nvls"):
        ns3.schedule("all_reduce", "nvls", fabric(), MIB)


@pytest.mark.skipif(importlib.util.find_spec("ns3") is not None, reason="package ns3 is installed")
def test_without_the_package_one_line_says_how_to_get_it():
    with pytest.raises(UserError) as caught:
        ns3.require()
    assert "pip install" in caught.value.message
    assert "\n" not in caught.value.message


def test_times_between_grid_sizes_are_interpolated_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def line(_, transfers):
        calls.append(transfers)
        return 5.0 + max(size for *_, size in transfers) / 1000.0

    monkeypatch.setattr(ns3, "simulate_us", line)
    f = fabric(n_gpus=2)
    for n_bytes in (1024, 3000, 5 * MIB, 2**33):
        assert ns3.collective_us(f, "all_reduce", "one_shot", n_bytes) == pytest.approx(
            5.0 + n_bytes / 1000.0
        )
    assert ns3.collective_us(f, "all_reduce", "one_shot", 8) == ns3.collective_us(
        f, "all_reduce", "one_shot", 1024
    )
    before = len(calls)
    assert ns3.collective_us(f, "all_reduce", "one_shot", 2500) == pytest.approx(7.5)
    assert len(calls) == before
    (file,) = ns3.cache_folder().glob("*.json")
    assert json.loads(file.read_text())["fabric"]["n_gpus"] == 2
    file.write_text("not json")
    assert ns3.collective_us(f, "all_reduce", "one_shot", 2500) == pytest.approx(7.5)


def test_an_effective_link_gives_the_simulated_ring_back(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def ring(_, transfers):
        steps = 1 + max(step for step, *_ in transfers)
        return steps * (3.0 + transfers[0][3] / 20e3)

    monkeypatch.setattr(ns3, "simulate_us", ring)
    gb_s, latency_us = ns3.effective_link(4, 25.0, 2.0)
    assert gb_s == pytest.approx(20.0, rel=1e-3)
    assert latency_us == pytest.approx(3.0, rel=1e-3)


@needs_ns3
def test_an_effective_link_is_close_to_the_link_on_a_free_network(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    gb_s, latency_us = ns3.effective_link(4, 16.0, 20.0)
    assert gb_s == pytest.approx(16.0, rel=0.03)
    assert latency_us == pytest.approx(20.0, rel=0.03)


def test_a_table_holds_the_fastest_algorithm_of_every_size(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def slowest_link(_, transfers):
        steps = 1 + max(step for step, *_ in transfers)
        return steps + sum(size for _, source, _, size in transfers if source == 0) / 1000.0

    monkeypatch.setattr(ns3, "simulate_us", slowest_link)
    sizes, times = ns3.table(fabric(), "all_reduce")
    assert sizes == ns3.GRID_BYTES
    assert list(times) == sorted(times)
    assert times[0] == pytest.approx(2 + 2 * 7 / 8 * 1.024)


@needs_ns3
def test_packets_around_a_switch_take_what_the_links_allow():
    f = fabric()
    for n_bytes in (4 * MIB, 64 * MIB):
        ring = 2 * 7 / 8 * n_bytes / 450e3 + 14 * 0.87
        assert run(f, "ring", n_bytes) == pytest.approx(ring, rel=0.02)
        two_shot = 2 * 7 / 8 * n_bytes / 450e3 + 2 * 0.87
        assert two_shot <= run(f, "two_shot", n_bytes) < 1.05 * two_shot
    assert run(f, "one_shot", 1024) < run(f, "two_shot", 1024) < run(f, "ring", 1024)


@needs_ns3
def test_two_gpus_of_a_mesh_use_one_link():
    pair, full = fabric("mesh", 2, link_gb_s=448.0), fabric("mesh", 8, link_gb_s=448.0)
    n_bytes = 16 * MIB
    assert run(pair, "two_shot", n_bytes) == pytest.approx(n_bytes / 64e3 + 2 * 0.87, rel=0.01)
    assert run(full, "two_shot", n_bytes) < run(pair, "two_shot", n_bytes) / 3


@needs_ns3
def test_across_domains_every_nic_carries_its_share():
    f = fabric(n_gpus=16)
    n_bytes = 16 * MIB
    inside = 2 * 7 / 8 * n_bytes / 450e3 + 14 * 0.87
    across = n_bytes / 8 / 50e3 + 2 * 3.0
    assert run(f, "hierarchical", n_bytes) == pytest.approx(inside + across, rel=0.05)
    assert run(f, "ring", n_bytes) > 2 * 15 / 16 * n_bytes / 8 / 50e3
    assert run(f, "one_shot", MIB) > 8 * MIB / 50e3
