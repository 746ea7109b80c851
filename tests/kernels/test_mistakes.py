"""Interactions that a naive model gets wrong, one test each, numbered as in the specification (inferasim, section 16)."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.batching import prompt_chunk
from kernels.coefficients import roofline_coefficients
from kernels.dtypes import MXFP4, MXFP8, WIDTH_BYTES
from kernels.experts import coverage_at, touched_experts
from kernels.layout import DERIVED
from kernels.overlap import all_reduce_factor, all_to_all_factor
from kernels.resolve import resolve
from kernels.speculation import tokens_per_step
from sweep.errors import UserError
from sweep.estimation.arguments import parse
from sweep.estimation.price import estimate
from sweep.estimation.rules import deployment
from sweep.fields.dtype_names import canonical
from sweep.fields.inert import inert, of_record
from tests.deployments import evaluated, priced, record_of, swept

MOE = {"model": "qwen3_30b_a3b", "hardware": "h200_sxm"}
OSS = {"model": "gpt_oss_120b", "hardware": "mi355x"}
DEEPSEEK = {"model": "deepseek_v3", "hardware": "h200_sxm", "tp": 8, "enforce_memory": False}
GIB = 1024.0**3


def derived(**values: object) -> np.void:
    d = np.zeros(1, DERIVED)
    resolve(record_of(**values)[0], d[0])
    return d[0]


def estimated(*argv: str):
    return estimate(deployment(parse(["--model", "llama_3_1_8b", "--hardware", "h100_sxm", *argv])[1]))


def test_01_a_4_bit_checkpoint_is_sized_and_streamed_class_by_class() -> None:
    wide, narrow = swept("weight_dtype", ("bfloat16", "mxfp4"), **MOE)
    ratio = narrow["weights_experts_gib_per_gpu"] / wide["weights_experts_gib_per_gpu"]
    assert ratio == pytest.approx(0.53125 / 2.0, rel=0.02)
    assert narrow["step_moe_ms"] < wide["step_moe_ms"]
    for same in ("weights_attention_gib_per_gpu", "weights_other_gib_per_gpu", "step_gemm_ms"):
        assert narrow[same] == wide[same]
    dense_wide, dense_narrow = swept("weight_dtype", ("bfloat16", "nvfp4"), hardware="b200_sxm")
    assert dense_narrow["weights_mlp_gib_per_gpu"] < 0.3 * dense_wide["weights_mlp_gib_per_gpu"]
    assert dense_narrow["step_gemm_ms"] < dense_wide["step_gemm_ms"]
    assert dense_narrow["weights_other_gib_per_gpu"] == dense_wide["weights_other_gib_per_gpu"]
    oss = derived(**OSS)
    assert oss["weights_bytes"] > 1.01 * oss["params_total"] * WIDTH_BYTES[MXFP4]


def test_02_the_kv_format_reaches_memory_and_the_attention_stream() -> None:
    savings = []
    for isl in (1024, 4096, 16384, 32768):
        wide, narrow = swept("kv_cache_dtype", ("bfloat16", "fp8"), isl=isl, concurrency=8, load="static")
        assert narrow["kv_bytes_per_token_per_gpu"] == 0.5 * wide["kv_bytes_per_token_per_gpu"]
        savings.append(1.0 - narrow["step_ms"] / wide["step_ms"])
    assert savings == sorted(savings)
    assert savings[0] > 0.0 and savings[-1] < 0.5


def test_03_tensor_parallelism_does_not_shard_the_latent_cache_and_attention_dp_splits_requests_once() -> (
    None
):
    one, eight = swept("tp", (1, 8), **{**DEEPSEEK, "tp": None})
    assert one["kv_bytes_per_token_per_gpu"] == eight["kv_bytes_per_token_per_gpu"]
    tp, dp = priced(DEEPSEEK, {**DEEPSEEK, "tp": 1, "attention_dp": 8, "moe_ep": 8})
    assert dp["kv_bytes_per_token_per_gpu"] == tp["kv_bytes_per_token_per_gpu"]
    d = evaluated({**DEEPSEEK, "tp": 1, "attention_dp": 8, "enforce_memory": True}).derived[0]
    assert d["kv_capacity_tokens_total"] == 8 * d["kv_capacity_tokens"]


def test_04_block_scaled_formats_carry_their_scales_and_unknown_names_are_refused() -> None:
    assert WIDTH_BYTES[MXFP4] == 0.53125 and WIDTH_BYTES[MXFP8] == 1.03125
    with pytest.raises(UserError, match="not one of the choices"):
        record_of(weight_dtype="mxfp5")


def test_05_experts_are_sharded_once_over_the_whole_group() -> None:
    shards = [derived(**MOE, tp=8, moe_ep=ep)["weights_experts_bytes"] for ep in (1, 2, 4, 8)]
    whole = derived(**MOE, tp=1)["weights_experts_bytes"]
    assert shards == pytest.approx([whole / 8] * 4, rel=1e-9)
    even, uneven = swept("ep_load_balance", (1.0, 3.0), **MOE, tp=8, moe_ep=1)
    assert even["step_ms"] == uneven["step_ms"]


def test_06_distinct_experts_are_draws_of_the_whole_step_then_skewed_then_covered() -> None:
    p, c = record_of(**MOE, moe_routing_skew=0.0)[0], roofline_coefficients()
    experts, k = 128.0, 8.0
    assert touched_experts(16.0, p, c) == pytest.approx(experts * (1.0 - (1.0 - k / experts) ** 16), rel=0.02)
    skewed = record_of(**MOE, moe_routing_skew=1.0)[0]
    covered = record_of(**MOE, moe_routing_skew=1.0, coverage_16=0.5)[0]
    assert touched_experts(16.0, skewed, c) < touched_experts(16.0, p, c)
    assert touched_experts(16.0, covered, c) == pytest.approx(0.5 * touched_experts(16.0, skewed, c))
    one, four = swept("speculative_num_tokens", (0, 3), **MOE, concurrency=4)
    assert four["step_moe_ms"] > 1.5 * one["step_moe_ms"]


def test_07_occupancy_adds_and_survives_graphs_while_the_launch_floor_is_a_maximum_that_graphs_delete() -> (
    None
):
    eager = {"cudagraph_mode": "none", "load": "static"}
    idle, tiny, huge = swept("kernel_launch_latency_us", (0.0, 0.1, 100.0), **eager)
    assert tiny["step_ms"] == idle["step_ms"]
    kernels = 32 * 11 + 6
    assert huge["step_ms"] > kernels * 100.0 / 1e3
    assert huge["step_ms"] < kernels * 100.0 / 1e3 + idle["step_ms"]
    without, occupied = swept("decode_kernel_occupancy_us", (0.0, 5.0), cudagraph_mode="full", load="static")
    assert occupied["step_host_ms"] - without["step_host_ms"] == pytest.approx(kernels * 5.0 / 1e3)
    preset, given, zero = swept("decode_step_overhead_us", (None, 5000.0, 0.0), **eager)
    assert given["step_ms"] > preset["step_ms"] > zero["step_ms"]


def test_08_unset_concurrency_is_what_memory_sustains_and_neither_batch_nor_offload_changes_it() -> None:
    ceiling = estimated().record["concurrency"][0]
    assert ceiling == np.floor(estimated().results["max_concurrency"])
    assert (
        estimated("--inference-batch-size", "1", "--kv-offload-gb-per-gpu", "200").record["concurrency"][0]
        == ceiling
    )
    less = estimated("--kv-cache-memory-fraction", "0.6").record["concurrency"][0]
    assert less < ceiling
    assert estimated("--max-concurrency", "7").record["concurrency"][0] == 7


def test_09_decodes_come_out_of_the_token_budget_first_and_speculation_multiplies_them() -> None:
    d = np.zeros(1, DERIVED)
    for k, running, chunk in ((0, 100, 412), (3, 100, 112), (3, 500, 1)):
        p = record_of(max_num_batched_tokens=512, speculative_num_tokens=k, isl=4096)[0]
        resolve(p, d[0])
        assert prompt_chunk(float(running), 4096.0, p, d[0])[0] == chunk
    roomy, tight = swept("max_num_batched_tokens", (8192, 64), isl=2048, concurrency=64)
    assert tight["ttft_ms"] > 5.0 * roomy["ttft_ms"]
    assert tight["output_tok_s_per_gpu"] < 0.5 * roomy["output_tok_s_per_gpu"]


def test_10_a_prefix_hit_shortens_prefill_and_changes_neither_kv_nor_decode() -> None:
    cold, warm, all_but_one = swept("prefix_hit_rate", (0.0, 0.8, 0.999), isl=8192, chunked_prefill_size=1024)
    assert cold["prefill_ms"] > warm["prefill_ms"] > all_but_one["prefill_ms"] > 0.0
    assert warm["prefill_ms"] > 0.2 * cold["prefill_ms"], "the rest still attends to the cached prefix"
    for same in ("kv_bytes_per_token_per_gpu", "max_concurrency"):
        assert cold[same] == warm[same]
    pure_cold, pure_warm = swept("prefix_hit_rate", (0.0, 0.8), load="static")
    assert pure_cold["step_ms"] == pure_warm["step_ms"]


def test_11_a_stream_interval_shifts_time_admission_adds_half_its_window_and_detokenising_adds_to_gaps() -> (
    None
):
    plain, buffered = swept("stream_interval", (1, 30), load="static")
    assert buffered["e2e_ms"] == pytest.approx(plain["e2e_ms"])
    assert buffered["ttft_ms"] - plain["ttft_ms"] == pytest.approx(29 * plain["tpot_ms"])
    assert buffered["tpot_ms"] * 255 == pytest.approx(plain["tpot_ms"] * (255 - 29))
    now, waits = swept("decode_admission_steps", (0, 80), load="static")
    assert waits["ttft_ms"] - now["ttft_ms"] == pytest.approx(40 * now["step_ms"], rel=1e-6)
    bare, detokenised = swept("detokenize_overhead_us", (0.0, 1000.0), load="static")
    assert detokenised["tpot_ms"] - bare["tpot_ms"] == pytest.approx(1.0)
    for a, b in ((plain, buffered), (now, waits), (bare, detokenised)):
        assert a["output_tok_s_per_gpu"] == b["output_tok_s_per_gpu"]


def test_12_speculation_yields_one_token_at_acceptance_zero_and_drafting_costs_in_mixed_steps_too() -> None:
    assert tokens_per_step(3.0, 0.0) == 1.0 and tokens_per_step(0.0, 0.9) == 1.0
    assert tokens_per_step(3.0, 1.0) == 4.0
    assert tokens_per_step(3.0, 0.5) == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    none, rejected = swept("speculative_num_tokens", (0, 3), load="static", concurrency=256)
    assert rejected["tpot_ms"] > none["tpot_ms"]
    free, drafted = swept(
        "speculative_draft_cost_factor", (0.0, 0.5), speculative_num_tokens=3, speculative_acceptance_rate=0.7
    )
    assert drafted["mixed_step_ms"] > free["mixed_step_ms"]


def test_13_a_window_bounds_memory_and_prefill_and_decode_only_where_the_engine_delivers_it() -> None:
    long = {"model": "gpt_oss_20b", "hardware": "h100_sxm", "isl": 32768, "concurrency": 4, "load": "static"}
    bounded, full = swept("sliding_window", (None, 0), **long)
    assert bounded["kv_bytes_per_token_per_gpu"] == pytest.approx(0.5 * full["kv_bytes_per_token_per_gpu"])
    assert bounded["prefill_ms"] < full["prefill_ms"]
    delivered, ignored = swept("window_in_decode", (True, False), **long)
    assert ignored["step_attention_ms"] == pytest.approx(full["step_attention_ms"])
    assert delivered["step_attention_ms"] < 0.7 * ignored["step_attention_ms"]
    dense, sparse = swept("sparse_attention_topk", (0, 2048), isl=32768, concurrency=4)
    assert sparse["prefill_ms"] < dense["prefill_ms"]
    assert sparse["kv_bytes_per_token_per_gpu"] == dense["kv_bytes_per_token_per_gpu"]


def test_14_hiding_factors_multiply_and_a_sync_free_stage_implies_deepep() -> None:
    both = record_of(quick_reduce=True, fuse_rmsnorm_allreduce=True, tp_allreduce_efficiency=0.5)[0]
    assert all_reduce_factor(both, False) == pytest.approx(0.6 * 0.8 * 0.5)
    assert all_reduce_factor(both, True) == pytest.approx(0.8 * 0.5)
    hidden = [all_to_all_factor(record_of(sync_free_stage=s, enable_deepep=s == 0)[0]) for s in range(4)]
    assert hidden == pytest.approx([0.35, 0.25, 0.20, 0.15])
    wide = {**DEEPSEEK, "tp": 1, "attention_dp": 16, "sync_free_stage": 1}
    exposed, overlapped = swept("decode_comm_overlap", (0.0, 0.5), **wide)
    assert 0.5 * exposed["step_ep_comm_ms"] <= overlapped["step_ep_comm_ms"] < exposed["step_ep_comm_ms"]


def test_15_spellings_are_canonical_and_defaults_are_not_taken_for_what_the_user_pinned() -> None:
    assert {canonical(name) for name in ("fp8_e4m3", "FP8", "e4m3", "float8")} == {"fp8"}
    asked = deployment(parse(["--model", "m", "--hardware", "h", "--output-len", "5"])[1])
    assert set(asked.by_hand) == {"workload.osl"}
    assert asked.values["workload.isl"] == 1024


def test_16_what_fitted_operator_times_contain_is_not_added_again() -> None:
    unset, none = swept("decode_kernel_occupancy_us", (None, 0.0))
    assert unset["step_ms"] == none["step_ms"]
    auto, named = swept("act_quant_dtype", (None, "fp8"), linear_dtype="fp8", load="static")
    assert named["step_other_ms"] > auto["step_other_ms"]
    assert named["step_gemm_ms"] <= auto["step_gemm_ms"]


def test_17_a_measured_prefill_rate_moves_the_first_token_only_and_is_clamped() -> None:
    span = {"prefill_rate_lo_tokens": 512, "prefill_rate_hi_tokens": 4096}
    none = {"request_overhead_ms": 0.0}
    model = priced(none)[0]
    slow, absurd, worse = swept("prefill_rate_us_per_token", (40.0, 1e5, 1e6), **span, **none)
    assert slow["ttft_ms"] > model["ttft_ms"]
    assert absurd["ttft_ms"] == worse["ttft_ms"] == pytest.approx(3.0 * model["ttft_ms"], rel=1e-6)
    for same in ("tpot_ms", "mixed_share", "tpot_rise", "output_tok_s_per_gpu"):
        assert slow[same] == model[same]
    assert priced({"prefill_rate_us_per_token": 40.0, **none})[0]["ttft_ms"] == model["ttft_ms"]


def test_18_a_split_deployment_is_as_fast_as_its_slower_pool_and_hands_over_once() -> None:
    pools = {"disaggregate": True, "isl": 4096, "osl": 64, "concurrency": 256}
    one, two, many = swept("prefill_replicas", (1, 2, 64), **pools)
    assert two["requests_per_s"] == pytest.approx(2.0 * one["requests_per_s"], rel=0.1), "prefill limits"
    assert many["requests_per_s"] < 64.0 * one["requests_per_s"], "decode limits"
    quick, slow = swept("kv_transfer_latency_us", (0.0, 50_000.0), **pools, prefill_replicas=8)
    assert slow["kv_transfer_ms"] - quick["kv_transfer_ms"] == pytest.approx(50.0)
    shared, doubled = swept("decode_replicas", (1, 2), **pools, prefill_replicas=8)
    assert doubled["tpot_ms"] < shared["tpot_ms"], "replicas share the population"


def test_19_the_simulator_s_prefix_cache_is_another_knob_than_the_declared_hit_rate() -> None:
    possible = of_record(record_of()[0])
    keys = ("des.num_prefixes", "des.kv_blocks", "workload.prefix_hit_rate")
    assert set(inert(possible, keys, verb="sweep")) == {"des.num_prefixes", "des.kv_blocks"}
    assert inert(possible, keys, verb="sweep", read=keys) == {}


def test_20_zero_is_a_value_and_not_the_same_as_unset() -> None:
    auto, zero = swept("mixed_batch_penalty", (None, 0.0), cudagraph_mode="piecewise")
    assert auto["tpot_ms"] > zero["tpot_ms"]
    preset, off = swept("decode_step_overhead_us", (None, 0.0), cudagraph_mode="none")
    assert preset["step_host_ms"] > off["step_host_ms"]
    assert coverage_at(5000.0, record_of(coverage_1024=0.5)[0]) == 0.5
