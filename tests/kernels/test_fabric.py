"""The scale-up domain: the accelerator's usual one unless the cluster says otherwise."""

import math

import numpy as np
import pytest

from kernels import reasons
from kernels.coefficients import roofline_coefficients
from kernels.collectives import all_reduce_us
from kernels.fabric import TOPOLOGY_PCIE, TOPOLOGY_SWITCH, domain_gpus, reduces_in_switch, scale_up_gb_s
from kernels.layout import DERIVED
from kernels.resolve import resolve
from sweep.catalog.hardware import hardware, hardware_names
from sweep.fields.hardware import TOPOLOGIES
from sweep.records import default_records, set_values

MIB = 1024.0**2


def record(name, **values):
    records = default_records(1)
    set_values(records[0], hardware(name).fields)
    set_values(records[0], values)
    return records[0]


def test_codes_are_the_positions_of_the_choices():
    assert TOPOLOGIES[TOPOLOGY_SWITCH] == "switch"
    assert TOPOLOGIES[TOPOLOGY_PCIE] == "pcie"


@pytest.mark.parametrize("name", hardware_names())
def test_nothing_given_is_the_usual_domain(name):
    p = record(name)
    assert domain_gpus(p) == hardware(name).fields["domain_gpus"]
    assert bool(reduces_in_switch(p)) == hardware(name).fields["multicast"]


def test_a_given_domain_wins():
    assert domain_gpus(record("b200_sxm", scale_up_gpus=72)) == 72.0


def test_a_mesh_pair_has_one_of_seven_links_and_a_switch_all():
    mi300x, h100 = record("mi300x"), record("h100_sxm")
    assert [scale_up_gb_s(n, mi300x) for n in (2.0, 8.0)] == [64.0, 448.0]
    assert [scale_up_gb_s(n, h100) for n in (2.0, 8.0)] == [450.0, 450.0]


def test_bridged_pairs_talk_to_others_over_pcie():
    p = record("a100_sxm_80_pairwise_nvlink")
    assert [scale_up_gb_s(n, p) for n in (2.0, 4.0)] == [300.0, 32.0]


def test_a_cluster_joined_by_pcie_loses_links_and_in_switch_reduction():
    p = record("h100_sxm", interconnect="pcie")
    assert scale_up_gb_s(8.0, p) == 64.0
    assert not reduces_in_switch(p)


def test_a_narrower_domain_never_makes_an_all_reduce_faster():
    c = roofline_coefficients()
    usual = all_reduce_us(64 * MIB, 8.0, 0.0, record("h100_sxm"), c)
    narrow = all_reduce_us(64 * MIB, 8.0, 0.0, record("h100_sxm", scale_up_gpus=4), c)
    assert usual < narrow < math.inf


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"tp": 8, "gpus_available": 8}, reasons.OK),
        ({"tp": 8, "gpus_available": 4}, reasons.MORE_GPUS_THAN_AVAILABLE),
        ({"tp": 8, "scale_up_gpus": 4}, reasons.MORE_GPUS_THAN_DOMAIN),
    ],
)
def test_a_shape_must_fit_the_domain_and_the_cluster(values, reason):
    p = record("h100_sxm", **values)
    d = np.zeros(1, DERIVED)[0]
    resolve(p, d)
    assert int(d["reason"]) == reason
