"""Split pools in the simulator: the closed form's deployment, with both pools and the links between them."""

import numpy as np
import pytest

from kernels.des_layout import DECODE, PREFILL
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.simulate.deployment import Deployment, client_traffic, run, simulate_deployment
from sweep.simulate.pools import split_deployment, twin
from sweep.traces.synthetic import synthesize
from tests.deployments import record_of


def split(**changes):
    record = record_of(**{"disaggregate": True, "length_range": 0.8, "concurrency": 32, **changes})
    return record, coefficients_of(coefficients_for("fitted"), record)


def test_every_rank_of_both_pools_is_there_and_every_gpu_is_counted():
    one = split_deployment(*split(prefill_replicas=2, decode_replicas=3, prefill_tp=2, decode_tp=4))
    roles = [engine.settings["role"] for engine in one.engines(1)]
    assert roles == [PREFILL] * 2 + [DECODE] * 3
    assert one.gpus == 2 * 2 + 3 * 4
    assert len(one.engines(2)) == 10


@pytest.mark.parametrize(
    "changes",
    [
        {"concurrency": 16},
        {"concurrency": 64, "prefill_replicas": 2},
        {"concurrency": 64, "osl": 64},
        {"concurrency": 128, "prefill_replicas": 3, "decode_replicas": 2, "isl": 2000, "osl": 500},
    ],
)
def test_the_two_drivers_agree(changes):
    record, coefficients = split(**changes)
    closed = evaluate(record, coefficients_for("fitted")).results[0]
    simulated = simulate_deployment(twin(record, coefficients))
    assert simulated["tpot_ms"] == pytest.approx(closed["tpot_ms"], rel=0.03)
    assert simulated["ttft_ms"] == pytest.approx(closed["ttft_ms"], rel=0.2)
    assert simulated["output_tok_s_per_gpu"] == pytest.approx(closed["output_tok_s_per_gpu"], rel=0.1)
    assert simulated["requests"] == 10 * changes["concurrency"]


def test_a_slow_link_delays_the_first_token_and_serialises_hand_overs():
    took = {}
    for gb_s in (400.0, 4.0):
        record, coefficients = split(kv_transfer_bw_gbps=gb_s, concurrency=16)
        one = split_deployment(record, coefficients)
        traffic, clients = client_traffic(one)
        req = run(one, synthesize(traffic), clients).world.req
        took[gb_s] = np.mean(req["first_token"] - req["arrival"]) / 1e6
        gaps = np.diff(np.sort(req["first_token"]))
        moved_ns = req["isl"].min() * float(one.decode.d["kv_bytes_per_token"]) / gb_s
        assert (gaps >= 0.99 * moved_ns).all()
    assert took[4.0] > took[400.0] + 25.0


def test_one_rank_stands_for_a_deployment_without_pools():
    record, coefficients = split()
    record["disaggregate"] = 0.0
    assert isinstance(twin(record, coefficients), Deployment)


def test_split_pools_under_an_offered_rate_are_refused():
    with pytest.raises(UserError, match="closed loops"):
        twin(*split(load="rate", request_rate=1.0))
