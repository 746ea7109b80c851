"""`--network-backend ns3`: link figures of a cluster as ns-3 times ring steps over them."""

from __future__ import annotations

from dataclasses import replace

from sweep import network_ns3
from sweep.simulate.cluster import GIB_S_TO_BYTES_PER_NS, ClusterConfig, topology

NS_PER_US = 1e3


def with_simulated_links(cluster: ClusterConfig) -> ClusterConfig:
    """The cluster with each dimension's bandwidth (GiB/s) and latency (ns) replaced by what packets through ns-3 take.

    A dimension of one rank carries nothing and stays. Raises UserError where the package is not installed.
    """
    network_ns3.require()
    sizes = topology(cluster)
    bandwidths, latencies = [], []
    for axis, ranks in enumerate(sizes):
        bandwidth = cluster.link_bandwidth[min(axis, len(cluster.link_bandwidth) - 1)]
        latency_ns = cluster.link_latency[min(axis, len(cluster.link_latency) - 1)]
        if ranks > 1:
            gb_s, latency_us = network_ns3.effective_link(
                ranks, bandwidth * GIB_S_TO_BYTES_PER_NS, latency_ns / NS_PER_US
            )
            bandwidth, latency_ns = gb_s / GIB_S_TO_BYTES_PER_NS, latency_us * NS_PER_US
        bandwidths.append(bandwidth)
        latencies.append(latency_ns)
    return replace(cluster, link_bandwidth=bandwidths, link_latency=latencies)
