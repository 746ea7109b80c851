"""Collectives: the lines against a numpy twin, physics that every coefficient must keep, and published facts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import coefficients as k
from kernels import collectives as kc
from kernels import fabric
from sweep.catalog.fitted_collectives import fitted_collectives
from sweep.catalog.hardware import hardware, hardware_names
from sweep.fields.comms import ALL_REDUCE_ALGORITHMS, ALL_TO_ALL_ALGORITHMS
from sweep.fields.hardware import TOPOLOGIES
from sweep.records import default_records, set_values

MIB = 2.0**20
ENGINES = ("nccl", "vllm", "sglang", "trtllm", "atom")


def record(name="h100_sxm", **values):
    p = default_records(1)[0]
    set_values(p, hardware(name).fields)
    for key, value in values.items():
        p[key] = value
    return p


def fitted(name, engine):
    c = k.roofline_coefficients()
    fitted_collectives(name, engine).fill(c)
    return c


def all_reduce(n_bytes, n, p, c, algorithm=kc.ALGO_AUTO):
    return kc.all_reduce_us(float(n_bytes), float(n), float(algorithm), p, c)


def busbw_gb_s(n_bytes, n, p, c):
    return 2 * (n - 1) / n * n_bytes / all_reduce(n_bytes, n, p, c) / 1e3


def twin_slowdown(row, n):
    return float(np.interp(np.log2(n), [1.0, 2.0, 3.0], [row[4], row[5], 0.0]))


def twin_line(row, volume, n, hops, gb_s, latency_us, step_share=1.0):
    alpha = row[2] + row[3] * (n - 2) * step_share + hops * latency_us
    return alpha + volume * (1 + twin_slowdown(row, n)) / (gb_s * 1e3 * row[1])


def twin_ring(c, volume, n, hops, gb_s, latency_us):
    share = hops / (2 * (n - 1))
    rows = (k.OP_RING_LL, k.OP_RING_LL128, k.OP_RING_SIMPLE)
    return min(twin_line(c[row], volume, n, hops, gb_s, latency_us, share) for row in rows)


def test_codes_follow_the_choices_of_the_fields():
    assert ALL_REDUCE_ALGORITHMS == ("auto", "ring", "one_shot", "two_shot", "hierarchical")
    assert (kc.ALGO_AUTO, kc.ALGO_RING, kc.ALGO_ONE_SHOT, kc.ALGO_TWO_SHOT, kc.ALGO_HIERARCHICAL) == (
        0,
        1,
        2,
        3,
        4,
    )
    assert ALL_TO_ALL_ALGORITHMS == ("auto", "direct", "single_shot", "hierarchical")
    assert (kc.A2A_AUTO, kc.A2A_DIRECT, kc.A2A_SINGLE_SHOT, kc.A2A_HIERARCHICAL) == (0, 1, 2, 3)
    assert TOPOLOGIES[fabric.TOPOLOGY_MESH] == "mesh"


@settings(max_examples=60, deadline=None)
@given(
    st.floats(256, 2**31),
    st.integers(2, 8),
    st.floats(0.05, 1.0),
    st.floats(0.5, 50.0),
    st.floats(0.0, 3.0),
    st.floats(0.0, 2.0),
)
def test_every_scale_up_algorithm_matches_its_numpy_twin(n_bytes, n, efficiency, overhead, step, slow):
    p = record()
    c = k.roofline_coefficients()
    c[k.OP_ONE_SHOT : k.OP_NVLS + 1, 1:6] = [efficiency, overhead, step, slow, slow / 2]
    c[k.OP_RING_LL, 1] = efficiency / 4
    c[k.OP_RING_SIMPLE, 2] = 2 * overhead
    gb_s, lat = p["link_gb_s"], p["link_latency_us"]
    ring_volume = 2 * n_bytes * (n - 1) / n
    twins = {
        kc.ALGO_RING: twin_ring(c, ring_volume, n, 2 * (n - 1), gb_s, lat),
        kc.ALGO_ONE_SHOT: twin_line(c[k.OP_ONE_SHOT], n_bytes * (n - 1), n, 1, gb_s, lat),
        kc.ALGO_TWO_SHOT: twin_line(c[k.OP_TWO_SHOT], ring_volume, n, 2, gb_s, lat),
        kc.ALGO_NVLS: twin_line(c[k.OP_NVLS], n_bytes * (n + 1) / n, n, 2, gb_s, lat),
    }
    for algorithm, expected in twins.items():
        assert all_reduce(n_bytes, n, p, c, algorithm) == pytest.approx(expected, rel=1e-12)
    assert all_reduce(n_bytes, n, p, c) == pytest.approx(min(twins.values()), rel=1e-12)
    gathered = twin_ring(c, n_bytes * (n - 1) / n, n, n - 1, gb_s, lat)
    assert kc.all_gather_us(n_bytes, float(n), p, c) == pytest.approx(gathered, rel=1e-12)
    assert kc.reduce_scatter_us(n_bytes, float(n), p, c) == pytest.approx(gathered, rel=1e-12)


def test_across_domains_the_nics_carry_what_leaves():
    p = record()
    c = k.roofline_coefficients()
    n, inside, n_bytes = 32.0, 8.0, 64 * MIB
    nic = p["nic_gb_s"] * 1e3
    hop = p["nic_latency_us"]
    shard = 2 * n_bytes / inside * 3 / 4
    within = 2 * n_bytes * 7 / 8 / (450 * 1e3) + 14 * p["link_latency_us"]
    assert all_reduce(n_bytes, n, p, c, kc.ALGO_HIERARCHICAL) == pytest.approx(shard / nic + 6 * hop + within)
    one_shot = n_bytes * 24 / nic + hop
    assert all_reduce(n_bytes, n, p, c, kc.ALGO_ONE_SHOT) == pytest.approx(one_shot)
    two_shot = 2 * n_bytes * 24 / 32 / nic + 2 * hop
    assert all_reduce(n_bytes, n, p, c, kc.ALGO_TWO_SHOT) == pytest.approx(two_shot)
    ring = 2 * n_bytes * 31 / 32 / inside / nic + 8 * hop + 2 * 28 * p["link_latency_us"]
    assert all_reduce(n_bytes, n, p, c, kc.ALGO_RING) == pytest.approx(ring)


def test_groups_wider_than_a_domain_are_slower_than_the_domain():
    p, c = record(), fitted("h100_sxm", "vllm")
    for n_bytes in (2**14, 2**20, 2**27):
        assert all_reduce(n_bytes, 16, p, c) > all_reduce(n_bytes, 8, p, c)
        assert kc.all_to_all_us(float(n_bytes), 16.0, 0.0, p, c) > kc.all_to_all_us(
            float(n_bytes), 8.0, 0.0, p, c
        )


def test_nothing_to_send_takes_no_time():
    p, c = record(), fitted("h100_sxm", "vllm")
    assert all_reduce(0, 8, p, c) == 0.0
    assert all_reduce(1024, 1, p, c) == 0.0
    assert kc.all_gather_us(0.0, 8.0, p, c) == 0.0
    assert kc.all_to_all_us(1024.0, 1.0, 0.0, p, c) == 0.0
    assert kc.expert_dispatch_us(0.0, 8.0, 0.0, p, c) == 0.0
    assert kc.expert_combine_us(0.0, 8.0, 0.0, p, c) == 0.0
    assert kc.point_to_point_us(0.0, 0.0, p, c) == 0.0


@pytest.mark.parametrize("packed", [0.0, 1.0])
@pytest.mark.parametrize("name", hardware_names())
def test_more_bytes_never_take_less_time_and_no_price_beats_the_link(name, packed):
    p = record(name, quick_reduce=packed)
    sizes = 2.0 ** np.arange(8, 33, 0.5)
    domain = int(p["domain_gpus"])
    groups = [n for n in (2, 3, 4, 6, 8) if n <= domain] or [2]
    for engine in ENGINES:
        c = fitted(name, engine)
        for n in groups:
            inside = n <= domain
            gb_s = fabric.scale_up_gb_s(float(n), p) if inside else p["nic_gb_s"]
            for primitive in (
                kc.ALL_REDUCE,
                kc.ALL_GATHER,
                kc.REDUCE_SCATTER,
                kc.ALL_TO_ALL,
                kc.DISPATCH,
                kc.COMBINE,
            ):
                t = kc.collective_times(primitive, sizes, np.full(sizes.size, float(n)), 0.0, p, c)
                assert np.all(np.isfinite(t))
                assert np.all(np.diff(t) > -1e-9 * t[1:])
                volume = sizes * (n - 1) / n
                if primitive == kc.ALL_REDUCE:
                    volume = sizes * (n + 1) / n if p["multicast"] > 0 else 2 * volume
                    volume = np.minimum(volume, 2 * sizes * (n - 1) / n)
                    volume *= kc.INT4_SHARE if packed and kc.has_quantized(c) else 1.0
                assert np.all(t >= volume / (gb_s * 1e3))


def test_forced_algorithms_are_really_priced_by_that_algorithm():
    p, c = record("h100_sxm"), fitted("h100_sxm", "vllm")
    for n_bytes in (16384, MIB, 256 * MIB):
        times = {a: all_reduce(n_bytes, 8, p, c, a) for a in (1, 2, 3, 5)}
        assert len({round(t, 6) for t in times.values()}) == 4
        for algorithm in times:
            _, chosen = kc.all_reduce_choice(float(n_bytes), 8.0, float(algorithm), p, c)
            assert chosen == algorithm
    # One-shot moves n - 1 messages where two-shot moves 2 (n - 1) / n: it loses once bandwidth counts.
    assert all_reduce(4096, 8, p, c, kc.ALGO_ONE_SHOT) < all_reduce(4096, 8, p, c, kc.ALGO_TWO_SHOT)
    assert all_reduce(64 * MIB, 8, p, c, kc.ALGO_ONE_SHOT) > 2 * all_reduce(
        64 * MIB, 8, p, c, kc.ALGO_TWO_SHOT
    )


def test_auto_is_the_fastest_on_an_ideal_machine_and_the_engines_choice_on_a_fitted_one():
    p = record("h100_sxm")
    ideal, engine = k.roofline_coefficients(), fitted("h100_sxm", "vllm")
    for n_bytes in 2.0 ** np.arange(10, 30):
        forced = [all_reduce(n_bytes, 8, p, ideal, a) for a in (1, 2, 3, 5)]
        assert all_reduce(n_bytes, 8, p, ideal) == min(forced)
    _, small = kc.all_reduce_choice(8192.0, 8.0, 0.0, p, engine)
    _, large = kc.all_reduce_choice(512 * MIB, 8.0, 0.0, p, engine)
    assert small == kc.ALGO_ONE_SHOT
    assert large == kc.ALGO_NVLS
    _, library = kc.all_reduce_choice(8192.0, 8.0, 0.0, p, fitted("h100_sxm", "nccl"))
    assert library == kc.ALGO_RING


def test_decode_messages_take_the_engines_kernel_not_the_librarys_time():
    """8 KiB over 8 H100: NCCL 15.96 us, vLLM's kernel 4.98 us, TensorRT-LLM's 3.5 us; 512 MiB: 2,110 us all."""
    p = record("h100_sxm")
    for engine, expected in (("nccl", 15.96), ("vllm", 4.98), ("trtllm", 3.54)):
        c = fitted("h100_sxm", engine)
        assert all_reduce(8192, 8, p, c) == pytest.approx(expected, rel=0.15)
        assert all_reduce(512 * MIB, 8, p, c) == pytest.approx(2110, rel=0.05)


def test_reduction_in_the_switch_breaks_the_ring_formula():
    """H200: 8 GPUs 480 GB/s with NVLS and 367 without, 4 GPUs 363 (NVLS never used); B200: ring below 6 GPUs."""
    c = fitted("h200_sxm", "nccl")
    with_nvls, without = record("h200_sxm"), record("h200_sxm", multicast=0.0)
    large = 2.0**34
    assert busbw_gb_s(large, 8, with_nvls, c) == pytest.approx(480, rel=0.06)
    assert busbw_gb_s(large, 8, without, c) == pytest.approx(367, rel=0.06)
    assert busbw_gb_s(large, 4, with_nvls, c) == pytest.approx(363, rel=0.06)
    assert busbw_gb_s(large, 4, with_nvls, c) == busbw_gb_s(large, 4, without, c)
    b200, cb = record("b200_sxm"), fitted("b200_sxm", "nccl")
    assert kc.all_reduce_choice(large, 4.0, 0.0, b200, cb)[1] == kc.ALGO_RING
    assert kc.all_reduce_choice(large, 8.0, 0.0, b200, cb)[1] == kc.ALGO_NVLS


def test_all_gather_and_reduce_scatter_do_not_gain_from_the_switch():
    """On the same H200 node they stay near 360 GB/s."""
    p, c = record("h200_sxm"), fitted("h200_sxm", "nccl")
    large = 2.0**34
    for price in (kc.all_gather_us, kc.reduce_scatter_us):
        assert 7 / 8 * large / price(large, 8.0, p, c) / 1e3 == pytest.approx(361, rel=0.12)


def test_two_gpus_of_a_mesh_are_slower_per_byte_than_eight():
    """MI300X: bus bandwidth 47.7 GB/s for 2 GPUs (one of seven links), 312.9 for 8."""
    p = record("mi300x")
    large = 2.0**34
    c = fitted("mi300x", "nccl")
    assert busbw_gb_s(large, 2, p, c) == pytest.approx(47.7, rel=0.05)
    assert busbw_gb_s(large, 8, p, c) == pytest.approx(312.9, rel=0.05)
    for engine in ENGINES:
        for n_bytes in (16 * MIB, 256 * MIB):
            c = fitted("mi300x", engine)
            assert all_reduce(n_bytes, 2, p, c) > all_reduce(n_bytes, 8, p, c)
            assert busbw_gb_s(n_bytes, 2, p, c) < busbw_gb_s(n_bytes, 8, p, c)


def test_bridged_pairs_pay_pcie_between_pairs():
    p, c = record("h100_sxm_pairwise_nvlink"), fitted("h100_sxm_pairwise_nvlink", "nccl")
    assert busbw_gb_s(64 * MIB, 2, p, c) > 3 * busbw_gb_s(64 * MIB, 4, p, c)
    assert busbw_gb_s(64 * MIB, 4, p, c) < p["host_link_gb_s"]


def test_all_to_all_algorithms_differ_across_domains_and_auto_is_the_cheapest():
    p, c = record("h100_sxm"), fitted("h100_sxm", "sglang")
    for n in (8.0, 32.0):
        for n_bytes in (64 * 1024.0, 64 * MIB):
            times = [kc.all_to_all_us(n_bytes, n, float(a), p, c) for a in range(4)]
            assert times[0] == min(times[1:])
            if n > 8:
                assert len(set(times[1:])) >= 2


def test_dispatch_and_combine_are_never_slower_than_the_librarys_exchange():
    """H100, 128 tokens of 7168 to 8 of 256 experts: DeepEP low latency 37 us (fp8) out and 67 us (bf16) back."""
    p, c = record("h100_sxm"), fitted("h100_sxm", "sglang")
    copies = 128 * 8 * (1 - (7 / 8) ** 8) * 7168
    out = kc.expert_dispatch_us(copies * (1 + 4 / 128), 8.0, float(kc.A2A_SINGLE_SHOT), p, c)
    back = kc.expert_combine_us(copies * 2.0, 8.0, float(kc.A2A_SINGLE_SHOT), p, c)
    assert out == pytest.approx(36.7, rel=0.25)
    assert back == pytest.approx(67.0, rel=0.25)
    for n_bytes in (1e4, 1e6, 1e8):
        direct = kc.all_to_all_us(n_bytes, 8.0, float(kc.A2A_DIRECT), p, c)
        assert kc.expert_dispatch_us(n_bytes, 8.0, 0.0, p, c) <= direct
        assert kc.expert_combine_us(n_bytes, 8.0, 0.0, p, c) <= direct


def test_a_pipeline_hop_pays_the_nic_when_it_leaves_the_domain():
    p, c = record("h100_sxm"), k.roofline_coefficients()
    assert kc.point_to_point_us(MIB, 0.0, p, c) == pytest.approx(MIB / 450e3 + p["link_latency_us"])
    assert kc.point_to_point_us(MIB, 1.0, p, c) == pytest.approx(MIB / 50e3 + p["nic_latency_us"])


def test_an_engine_packs_large_all_reduces_only_where_it_has_the_kernel_and_is_not_told_otherwise():
    size = 32.0 * MIB
    c = fitted("mi355x", "vllm")
    for told, packs in ((np.nan, True), (1.0, True), (0.0, False)):
        p = record("mi355x", quick_reduce=told)
        assert (all_reduce(size, 4, p, c) < 0.6 * kc.two_shot_us(size, 4.0, p, c)) is packs
    c = fitted("mi300x", "vllm")
    p = record("mi300x")
    assert all_reduce(size, 4, p, c) == pytest.approx(kc.two_shot_us(size, 4.0, p, c))
    p = record("mi300x", quick_reduce=1.0)
    assert all_reduce(size, 4, p, c) == pytest.approx(kc.quantized_us(size, 4.0, p, c))
    assert all_reduce(MIB, 4, p, c) < kc.quantized_us(float(MIB), 4.0, p, c)
    c = fitted("h100_sxm", "vllm")
    asked, plain = (all_reduce(size, 4, record(quick_reduce=told), c) for told in (1.0, 0.0))
    assert asked == plain


def test_packed_all_reduces_take_what_was_published_for_mi300x():
    """QuickReduce INT4 over 4 GPUs, latency table of vllm#19744."""
    p, c = record("mi300x"), fitted("mi300x", "vllm")
    for mib, us in ((2, 28.49), (4, 37.49), (8, 64.23)):
        assert kc.quantized_us(float(mib * MIB), 4.0, p, c) == pytest.approx(us, rel=0.1)
