"""The scale-up domain of a deployment: the accelerator's usual one, unless the cluster says otherwise."""

import numpy as np

from kernels.auto import default_to, given
from kernels.jit import inlined

TOPOLOGY_SWITCH, TOPOLOGY_MESH, TOPOLOGY_PCIE, TOPOLOGY_PAIRWISE = range(4)
"""Codes of the fields topology and interconnect."""


@inlined
def domain_gpus(p):
    """GPUs that reach each other without a NIC: the domain, or one node's share of a replica spread over target_nodes."""
    reach = default_to(p.scale_up_gpus, p.domain_gpus)
    if given(p.target_nodes) and reach <= p.node_gpus:
        reach = min(reach, np.ceil(p.tp * p.attention_dp * p.pp * p.cp / p.target_nodes))
    return reach


@inlined
def scale_up_gb_s(n_ranks, p):
    """Bandwidth that `n_ranks` of one domain can use per GPU and direction, GB/s.

    A mesh of per-pair links leaves the links to GPUs outside the group idle; bridged pairs talk to others over
    PCIe, and so does everybody in a cluster that is joined by PCIe alone.
    """
    topology = default_to(p.interconnect, p.topology)
    if topology == TOPOLOGY_MESH:
        return p.link_gb_s * (n_ranks - 1.0) / (p.domain_gpus - 1.0)
    if topology == TOPOLOGY_PAIRWISE and n_ranks > 2.0:
        return p.host_link_gb_s
    if topology == TOPOLOGY_PCIE and given(p.interconnect):
        return p.host_link_gb_s
    return p.link_gb_s


@inlined
def reduces_in_switch(p):
    """Whether the domain's switch sums in the network (NVLS)."""
    return p.multicast > 0.0 and default_to(p.interconnect, TOPOLOGY_SWITCH) == TOPOLOGY_SWITCH
