"""`servesweep simulate --network-backend ns3`: link figures replaced by what ns-3 times over them."""

import importlib.util
import sys

import pytest

from sweep import cli, network_ns3
from sweep.simulate.cluster import ClusterConfig
from sweep.simulate.network import with_simulated_links

HERE = importlib.util.find_spec("ns3") is not None


@pytest.fixture
def links(monkeypatch):
    """Calls of the link model; it answers half the bandwidth and twice the latency."""
    calls = []

    def half(ranks, gb_s, latency_us):
        calls.append((ranks, gb_s, latency_us))
        return gb_s / 2, latency_us * 2

    monkeypatch.setattr(network_ns3, "require", lambda: None)
    monkeypatch.setattr(network_ns3, "effective_link", half)
    return calls


def cluster(monkeypatch, sizes):
    monkeypatch.setattr(sys.modules[with_simulated_links.__module__], "topology", lambda _: sizes)
    return ClusterConfig("c.json", [], [], [16.0, 4.0], [20_000.0, 100_000.0])


def test_every_dimension_with_traffic_takes_the_simulated_link(monkeypatch, links):
    changed = with_simulated_links(cluster(monkeypatch, [4, 2]))
    assert changed.link_bandwidth == pytest.approx([8.0, 2.0])
    assert changed.link_latency == pytest.approx([40_000.0, 200_000.0])
    assert links == [(4, pytest.approx(16 * 1.073741824), 20.0), (2, pytest.approx(4 * 1.073741824), 100.0)]


def test_a_dimension_of_one_rank_stays(monkeypatch, links):
    changed = with_simulated_links(cluster(monkeypatch, [1, 2]))
    assert changed.link_bandwidth == pytest.approx([16.0, 2.0])
    assert changed.link_latency[0] == 20_000.0
    assert [ranks for ranks, *_ in links] == [2]


@pytest.mark.skipif(HERE, reason="package ns3 is installed")
def test_without_the_package_the_simulator_says_how_to_get_it(capsys):
    assert cli.main(["simulate", "--network-backend", "ns3"]) == 2
    message = capsys.readouterr().err
    assert "pip install" in message
    assert message.count("\n") == 1
