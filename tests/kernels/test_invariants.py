"""Invariants of any serving model (inferasim, section 17) and the checks of users' reports that concern speed and cost."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.collectives import all_reduce_us, all_to_all_us
from kernels.experts import coverage_at
from kernels.layout import RESULT_COLUMNS
from sweep.fidelity import coefficients_for
from sweep.fields.engine import ENGINES
from tests.deployments import evaluated, priced, record_of, swept

OSS = {"model": "gpt_oss_120b", "hardware": "mi355x", "osl": 256, "concurrency": 64, "load": "static"}
DEEPSEEK = {
    "model": "deepseek_v3",
    "hardware": "h200_sxm",
    "tp": 8,
    "load": "static",
    "enforce_memory": False,
}
MEASURED_STEP_MS = {1024: 10.44, 4096: 12.29, 16384: 23.57, 65536: 64.01}
"""gpt-oss-120b on one MI355X, mxfp4, batch 64, decode reading the whole context in every layer (inferasim, section 17)."""
KIB, MIB = 1024.0, 1024.0**2


def contexts(fidelity: str = "fitted", **changes: object) -> dict[int, float]:
    setting = {**OSS, "window_in_decode": False, "enforce_memory": False, **changes}
    rows = priced(*({**setting, "isl": isl} for isl in MEASURED_STEP_MS), fidelity=fidelity)
    return {isl: float(row["step_ms"]) for isl, row in zip(MEASURED_STEP_MS, rows, strict=True)}


@pytest.mark.parametrize("isl", [1024, 4096, 16384])
def test_the_measured_context_curve_of_gpt_oss_is_met_within_20_percent(isl: int) -> None:
    assert contexts()[isl] == pytest.approx(MEASURED_STEP_MS[isl], rel=0.20)


def test_the_context_curve_grows_at_least_4_4_fold_from_1k_to_64k() -> None:
    steps = contexts()
    assert steps[65536] >= 4.4 * steps[1024]


def test_wider_tensor_parallelism_shortens_a_decode_step_and_halves_memory_per_rank() -> None:
    one, four, eight = priced(OSS, {**OSS, "tp": 4, "moe_ep": 4}, {**OSS, "tp": 8, "moe_ep": 8})
    assert eight["step_ms"] < one["step_ms"]
    per_rank = [row["weights_gib_per_gpu"] for row in (four, eight)]
    assert 1.7 <= per_rank[0] / per_rank[1] <= 2.3


def test_steps_grow_with_the_batch_without_a_cliff() -> None:
    steps = swept("concurrency", range(96, 257, 8), **DEEPSEEK)["step_ms"]
    assert (np.diff(steps) >= 0.0).all()
    assert (steps[1:] / steps[:-1]).max() < 1.35
    assert steps[-1] / steps[0] < 2.0


def test_tensor_parallelism_wider_than_a_node_is_priced() -> None:
    wide = priced(
        *({**DEEPSEEK, "tp": tp, "target_nodes": tp // 8, "concurrency": 64} for tp in (8, 16, 32, 64))
    )
    assert np.isfinite(wide["step_ms"]).all()
    assert (np.diff(wide["weights_gib_per_gpu"]) < 0.0).all()
    assert wide["step_gemm_ms"][1] < wide["step_gemm_ms"][0]
    assert wide["step_tp_comm_ms"][1] > wide["step_tp_comm_ms"][0]


def test_decode_attention_never_implies_more_than_the_peak_bandwidth() -> None:
    for isl in (1024, 8192, 32768):
        row = priced({"isl": isl, "concurrency": 8, "load": "static"})[0]
        read_gb = 8 * (isl + 128) * 131072 / 1e9
        assert read_gb / (row["step_attention_ms"] * 1e-3) < record_of()[0]["hbm_gb_s"]


def test_a_latent_cache_costs_less_to_read_than_one_per_head() -> None:
    latent = priced({**DEEPSEEK, "isl": 8192})[0]
    assert latent["kv_bytes_per_token_per_gpu"] == 61 * 576 * 2
    per_head = 61 * 2 * 128 * 128 * 2 / 8
    assert latent["kv_bytes_per_token_per_gpu"] < per_head


def test_router_coverage_is_flat_outside_the_measured_curve() -> None:
    p = record_of(coverage_1=0.9, coverage_4=0.8, coverage_1024=0.7)[0]
    assert coverage_at(0.5, p) == coverage_at(1.0, p) == 0.9
    assert coverage_at(1e6, p) == coverage_at(1024.0, p) == 0.7
    assert coverage_at(2.0, p) == pytest.approx(0.85)


def test_collectives_grow_with_the_message_and_small_ones_are_latency() -> None:
    p = record_of(hardware="mi355x")[0]
    c = coefficients_for("fitted")[0, int(p["hardware_index"]), ENGINES.index("vllm")]
    exchange = [all_to_all_us(size, 8.0, 0.0, p, c) for size in (1 * KIB, 64 * KIB, 64 * MIB, 1024 * MIB)]
    assert exchange == sorted(exchange)
    assert exchange[1] < 1.5 * exchange[0] and exchange[3] > 12.0 * exchange[2]
    assert all_reduce_us(1.5 * MIB, 8.0, 0.0, p, c) == pytest.approx(25.0, rel=0.5)


def test_the_queue_in_front_of_prefill_is_monotone_and_bounded_by_everybody_s_service() -> None:
    rows = swept("concurrency", (1, 2, 4, 8, 16, 32, 64), isl=2048, request_overhead_ms=0.0)
    ttft = rows["ttft_ms"]
    assert (np.diff(ttft) > 0.0).all()
    assert ttft[0] == pytest.approx(rows["prefill_ms"][0], rel=0.05)
    assert (ttft <= np.array([1, 2, 4, 8, 16, 32, 64]) * rows["prefill_ms"] * 1.5).all()


def test_report_40_no_estimate_beats_the_roofline() -> None:
    settings = [
        {
            "model": model,
            "hardware": hardware,
            "tp": tp,
            "isl": isl,
            "concurrency": concurrency,
            "load": "static",
            "moe_routing_skew": 0.0,  # the same experts for both
        }
        for model in ("llama_3_1_8b", "qwen3_30b_a3b")
        for hardware in ("h100_sxm", "b200_sxm", "mi355x")
        for tp in (1, 4)
        for isl in (512, 8192)
        for concurrency in (1, 64)
    ]
    fitted, bound = priced(*settings), priced(*settings, fidelity="roofline")
    for column in ("step_ms", "prefill_ms", "step_gemm_ms", "step_attention_ms", "step_moe_ms"):
        assert (fitted[column] >= bound[column] * (1.0 - 1e-9)).all(), column


# Users' reports (numbers as in the list of reports)


def test_report_3_a_deployment_that_does_not_fit_has_a_reason_and_no_latency() -> None:
    row = priced({"model": "llama_3_1_405b"})[0]
    assert row["reason"] > 0
    assert all(
        np.isnan(row[c]) for c in RESULT_COLUMNS if c.endswith(("tpot_ms", "ttft_ms", "e2e_ms", "_per_gpu_s"))
    )


def test_report_34_each_pool_has_a_shape_of_its_own() -> None:
    pools = {"disaggregate": True, "prefill_tp": 4, "decode_tp": 2, "decode_replicas": 3}
    row = priced(pools)[0]
    assert row["gpus"] == 4 + 3 * 2
    assert row["weights_gib_per_gpu"] == priced({"tp": 2})[0]["weights_gib_per_gpu"]


def test_report_37_tpot_is_what_remains_of_end_to_end_after_the_first_token() -> None:
    rows = priced(
        {}, {"speculative_num_tokens": 3, "speculative_acceptance_rate": 0.7}, {"disaggregate": True}
    )
    assert rows["tpot_ms"] == pytest.approx((rows["e2e_ms"] - rows["ttft_ms"]) / 255)


def test_report_39_tpot_grows_with_the_context() -> None:
    rows = swept("isl", (320, 2048, 8192), concurrency=16, load="static")
    assert (np.diff(rows["tpot_ms"]) > 0.0).all()
    share = rows["step_attention_ms"] / rows["step_ms"]
    assert share[2] > 2.0 * share[0]


def test_report_42_cost_has_three_names_and_pools_pay_for_what_they_make() -> None:
    pools = {"disaggregate": True, "usd_per_gpu_hour": 3.0, "prefill_replicas": 2, "decode_replicas": 4}
    row = priced(pools)[0]
    per_hour = row["requests_per_s"] * 3600.0
    assert row["usd_per_m_input"] == pytest.approx(3.0 * 2 / (per_hour * 1024) * 1e6)
    assert row["usd_per_m_output"] == pytest.approx(3.0 * 4 / (per_hour * 256) * 1e6)
    assert row["usd_per_m_total"] == pytest.approx(3.0 * 6 / (per_hour * 1280) * 1e6)
    assert row["output_tok_s_per_gpu"] == pytest.approx(row["requests_per_s"] * 256 / 6)


def test_report_43_cost_is_price_over_tokens_per_hour_and_idle_time_is_paid() -> None:
    full, half = swept("utilization", (1.0, 0.5), usd_per_gpu_hour=2.0)
    assert full["usd_per_m_total"] == pytest.approx(2.0 / (full["total_tok_s_per_gpu"] * 3600.0) * 1e6)
    assert half["usd_per_m_total"] == pytest.approx(2.0 * full["usd_per_m_total"])


def test_report_46_kv_per_gpu_is_divided_by_tp_and_not_by_attention_dp() -> None:
    d = evaluated({"tp": 1}, {"tp": 2}, {"tp": 1, "attention_dp": 2}).derived
    assert d["kv_bytes_per_token"][1] == 0.5 * d["kv_bytes_per_token"][0]
    assert d["kv_bytes_per_token"][2] == d["kv_bytes_per_token"][0]
