"""Second tier of the prefix cache: it keeps what the KV cache forgets, at the price of a recall."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.errors import UserError
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.point_rows import row_values
from sweep.records import default_records, set_values
from sweep.simulate.deployment import deployment
from sweep.simulate.runner import simulate
from sweep.simulate.tier import Pool, attach
from sweep.simulate.world import RunOptions
from sweep.traces import Traffic, synthesize

BLOCK = 16
BLOCK_BYTES = 131_072 * BLOCK
FAST, SLOW = 400, 1


@pytest.fixture(scope="module")
def one():
    record = default_records(1)
    set_values(record[0], row_values({"model": "llama_3_1_8b", "hardware": "h100_sxm"}))
    return deployment(record, coefficients_of(coefficients_for("fitted"), record))


def run(one, requests, *, kv_blocks, chunks=0, bytes_per_ns=FAST, n=1, shared=False, policy=1):
    instances = [one.instance() for _ in range(n)]
    for k, instance in enumerate(instances):
        instance.settings["n_blocks"] = kv_blocks
        if chunks:
            attach(instance, 0 if shared else k, BLOCK_BYTES)
    n_pools = 0 if not chunks else 1 if shared else n
    pools = tuple(Pool(chunks, 100, bytes_per_ns) for _ in range(n_pools))
    outcome = simulate(instances, requests, RunOptions(policy=policy, pools=pools))
    assert outcome.finished
    return outcome


def hits(outcome):
    return int(outcome.world.inst["hit_tokens"].sum())


def traffic(**more):
    return synthesize(
        Traffic(
            **{
                "n_requests": 120,
                "rate_per_s": 5.0,
                "isl": 1024,
                "osl": 8,
                "n_prefixes": 12,
                "prefix_tokens": 768,
                "block_tokens": BLOCK,
                **more,
            }
        )
    )


def test_what_the_kv_cache_forgets_is_recalled(one):
    without = run(one, traffic(), kv_blocks=200)
    behind = run(one, traffic(), kv_blocks=200, chunks=1000)
    assert hits(behind) > 1.5 * hits(without)
    recalled = int(behind.world.inst["recalled_tokens"].sum())
    assert 0 < recalled <= hits(behind)
    assert recalled % BLOCK == 0
    assert behind.world.req["cached"].sum() == hits(behind)


def test_recalls_take_time_and_wait_for_each_other(one):
    fast = run(one, traffic(), kv_blocks=200, chunks=1000, bytes_per_ns=FAST)
    slow = run(one, traffic(), kv_blocks=200, chunks=1000, bytes_per_ns=SLOW)
    ttft = [np.mean(o.world.req["first_token"] - o.world.req["arrival"]) for o in (fast, slow)]
    moved = int(slow.world.inst["recalled_tokens"].sum()) // BLOCK * BLOCK_BYTES
    assert ttft[1] > ttft[0] + 0.3 * moved / SLOW / 120


def test_a_shared_pool_finds_what_another_instance_wrote(one):
    requests = traffic(n_prefixes=4, n_requests=60)
    private = run(one, requests, kv_blocks=4000, chunks=1000, n=4)
    shared = run(one, requests, kv_blocks=4000, chunks=1000, n=4, shared=True)
    assert hits(shared) > hits(private)


@settings(max_examples=25, deadline=None)
@given(
    kv_blocks=st.integers(70, 900),
    chunks=st.integers(1, 60),
    prefixes=st.integers(1, 20),
    prefix_tokens=st.integers(0, 1024),
    seed=st.integers(0, 1000),
)
def test_a_second_tier_never_lowers_the_hits_of_requests_that_run_one_by_one(
    one, kv_blocks, chunks, prefixes, prefix_tokens, seed
):
    requests = traffic(
        n_requests=40, rate_per_s=0.5, n_prefixes=prefixes, prefix_tokens=prefix_tokens, seed=seed
    )
    assert hits(run(one, requests, kv_blocks=kv_blocks, chunks=chunks)) >= hits(
        run(one, requests, kv_blocks=kv_blocks)
    )


def test_a_prompt_that_is_wholly_resident_still_computes_its_last_token(one):
    requests = traffic(n_requests=10, n_prefixes=1, prefix_tokens=1024, rate_per_s=0.5)
    outcome = run(one, requests, kv_blocks=70, chunks=100)
    assert outcome.world.req["cached"].max() <= 1024 - BLOCK


def test_a_cluster_without_cxl_has_no_cxl_tier():
    from sweep.simulate.cluster import read_cluster
    from sweep.simulate.command import default_cluster
    from sweep.simulate.instances import Defaults, Pricing, build_instances
    from sweep.simulate.tier import pools

    cluster = read_cluster(default_cluster())
    built = build_instances(cluster, Defaults(), Pricing())
    assert pools(built, cluster, "None", False) == ()
    with pytest.raises(UserError, match="no cxl_mem"):
        pools(built, cluster, "CXL", True)
    (pool,) = pools(built, cluster, "CPU", False)
    assert pool.chunks > 0
    assert built[0].instance.settings["tier"] == 0
