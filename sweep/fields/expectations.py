"""What each modelled input must do: the table that the generated feature tests read.

Per field: a result column, two values of the field, and the setting in which it matters on top of one Llama-3.1-8B
replica on one H100 (1024 -> 256 tokens, 32 requests in flight). Columns that the field does not name in `moves` must stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sweep.fields.spec import Expect, changes, falls, rises, stays

BASE: Mapping[str, Any] = MappingProxyType(
    {"model": "llama_3_1_8b", "hardware": "h100_sxm", "isl": 1024, "osl": 256, "concurrency": 32}
)
_MOE: dict[str, Any] = {"model": "qwen3_30b_a3b", "hardware": "h200_sxm"}
_BIG: dict[str, Any] = {"model": "llama_3_1_70b", "tp": 8}
_DEEPSEEK: dict[str, Any] = {
    "model": "deepseek_v3",
    "hardware": "h200_sxm",
    "attention_dp": 16,
    "enforce_memory": False,
}
_POOLS: dict[str, Any] = {"disaggregate": True}

EXPECTED: Mapping[str, tuple[Expect, ...]] = MappingProxyType(
    {
        "parallelism.tp": (
            falls("step_gemm_ms", 1, 4),
            rises("step_tp_comm_ms", 1, 4),
            falls("weights_gib_per_gpu", 1, 4),
            rises("gpus", 1, 4),
        ),
        "parallelism.pp": (
            falls("weights_gib_per_gpu", 1, 2),
            rises("step_pp_comm_ms", 1, 2),
            rises("gpus", 1, 2),
        ),
        "parallelism.cp": (
            falls("kv_bytes_per_token_per_gpu", 1, 2),
            falls("prefill_ms", 1, 2),
            rises("gpus", 1, 2),
        ),
        "parallelism.attention_dp": (
            rises("gpus", 1, 4, **_MOE),
            rises("kv_capacity_tokens_total", 1, 4, **_MOE),
            rises("step_ep_comm_ms", 1, 4, **_MOE),
        ),
        "parallelism.moe_ep": (changes("step_moe_ms", 1, 4, **_MOE, tp=4),),
        "parallelism.moe_tp": (changes("step_moe_ms", 1, 4, **_MOE, tp=4),),
        "parallelism.target_nodes": (rises("step_tp_comm_ms", 1, 2, **_BIG),),
        "parallelism.virtual_stages": (
            rises("step_pp_comm_ms", 1, 2, pp=4),
            falls("prefill_ms", 1, 2, pp=4, isl=8192, chunked_prefill_size=1024),
        ),
        "parallelism.pipeline_schedule": (
            falls("tpot_ms", "auto", "zerobubble", pp=4, global_batch_size=32),
            falls("prefill_ms", "auto", "zbv-formatted", pp=4, isl=8192, chunked_prefill_size=1024),
        ),
        "parallelism.enable_zero_bubble": (falls("tpot_ms", False, True, pp=4, global_batch_size=32),),
        "parallelism.micro_batch_size": (rises("tpot_ms", 8, 32, pp=4),),
        "parallelism.global_batch_size": (falls("tpot_ms", 8, 32, pp=4),),
        "precision.weight_dtype": (
            falls("weights_gib_per_gpu", "bfloat16", "fp8"),
            falls("step_gemm_ms", "bfloat16", "fp8"),
            falls("weights_experts_gib_per_gpu", "fp8", "mxfp4", **_MOE),
        ),
        "precision.linear_dtype": (
            falls("step_gemm_ms", "bfloat16", "fp8"),
            falls("weights_attention_gib_per_gpu", "bfloat16", "fp8"),
            stays("weights_other_gib_per_gpu", "bfloat16", "fp8"),
        ),
        "precision.attn_dtype": (
            falls("weights_attention_gib_per_gpu", "bfloat16", "fp8"),
            stays("weights_mlp_gib_per_gpu", "bfloat16", "fp8"),
        ),
        "precision.expert_dtype": (
            falls("step_moe_ms", "bfloat16", "fp8_block", **_MOE),
            falls("weights_experts_gib_per_gpu", "bfloat16", "fp8", **_MOE),
            stays("weights_attention_gib_per_gpu", "bfloat16", "fp8", **_MOE),
        ),
        "precision.shared_dtype": (falls("weights_mlp_gib_per_gpu", "bfloat16", "fp8", **_DEEPSEEK),),
        "precision.head_dtype": (falls("weights_other_gib_per_gpu", "bfloat16", "fp8"),),
        "precision.embed_dtype": (falls("weights_other_gib_per_gpu", "bfloat16", "fp8"),),
        "precision.router_dtype": (falls("weights_other_gib_per_gpu", "bfloat16", "fp8", **_MOE),),
        "precision.kv_cache_dtype": (
            falls("kv_bytes_per_token_per_gpu", "bfloat16", "fp8"),
            falls("step_attention_ms", "bfloat16", "fp8", isl=16384),
            stays("weights_gib_per_gpu", "bfloat16", "fp8"),
        ),
        "precision.activation_dtype": (rises("step_other_ms", "bfloat16", "float32"),),
        "precision.act_quant_dtype": (rises("step_other_ms", "none", "fp8", linear_dtype="fp8"),),
        "moe.ep_load_balance": (
            rises("step_moe_ms", 1.0, 2.0, **_MOE, tp=4, moe_ep=4, concurrency=512),
            stays("step_moe_ms", 1.0, 2.0, **_MOE, tp=4, moe_ep=1),
        ),
        "moe.redundant_experts": (
            falls("step_moe_ms", 0, 64, **_MOE, tp=4, moe_ep=4, concurrency=512, ep_load_balance=2.0),
        ),
        "moe.moe_routing_skew": (falls("step_moe_ms", 0.0, 1.5, **_MOE),),
        "moe.coverage_1": (rises("step_moe_ms", 0.5, 1.0, **_MOE, concurrency=1),),
        "moe.coverage_4": (rises("step_moe_ms", 0.5, 1.0, **_MOE, concurrency=4),),
        "moe.coverage_16": (rises("step_moe_ms", 0.5, 1.0, **_MOE, concurrency=16),),
        "moe.coverage_64": (rises("step_moe_ms", 0.5, 1.0, **_MOE, concurrency=64),),
        "moe.coverage_256": (rises("step_moe_ms", 0.5, 1.0, **_MOE, concurrency=256),),
        "moe.coverage_1024": (rises("step_moe_ms", 0.5, 1.0, **_MOE, concurrency=1024),),
        "speculation.speculative_num_tokens": (
            falls("tpot_ms", 0, 3, speculative_acceptance_rate=0.8),
            rises("step_ms", 0, 3),
        ),
        "speculation.speculative_acceptance_rate": (
            falls("tpot_ms", 0.2, 0.8, speculative_num_tokens=3),
            stays("step_ms", 0.2, 0.8, speculative_num_tokens=3, load="static"),
        ),
        "speculation.speculative_draft_cost_factor": (
            rises("tpot_ms", 0.0, 0.2, speculative_num_tokens=3, speculative_acceptance_rate=0.8),
        ),
        "comms.comm_model": (
            rises("tpot_ms", "explicit", "builtin", **_BIG),
            falls("step_tp_comm_ms", "explicit", "builtin", **_BIG),
        ),
        "comms.tp_allreduce_algo": (rises("step_tp_comm_ms", "auto", "ring", **_BIG),),
        "comms.ep_a2a_algo": (changes("step_ep_comm_ms", "direct", "single_shot", **_DEEPSEEK),),
        "comms.prefill_comm_overlap": (falls("ttft_ms", 0.0, 0.5, **_BIG),),
        "comms.decode_comm_overlap": (
            falls("step_tp_comm_ms", 0.0, 0.5, **_BIG),
            falls("tpot_ms", 0.0, 0.5, **_BIG),
        ),
        "comms.tp_allreduce_efficiency": (falls("step_tp_comm_ms", 1.0, 0.5, **_BIG),),
        "comms.ep_a2a_efficiency": (falls("step_ep_comm_ms", 1.0, 0.5, **_DEEPSEEK),),
        "comms.quick_reduce": (falls("step_tp_comm_ms", False, True, **_BIG),),
        "comms.fuse_rmsnorm_allreduce": (falls("step_tp_comm_ms", False, True, **_BIG),),
        "comms.enable_deepep": (
            changes("step_ep_comm_ms", False, True, **_DEEPSEEK),
            falls("step_ep_comm_ms", False, True, **_DEEPSEEK, ep_a2a_algo="single_shot"),
        ),
        "comms.sync_free_stage": (falls("step_ep_comm_ms", 1, 3, **_DEEPSEEK),),
        "engine.engine": (changes("ttft_ms", "vllm", "sglang"),),
        "engine.engine_version": (changes("kv_pool_gib_per_gpu", 1900, 2100),),
        "engine.max_num_batched_tokens": (
            falls("prefill_ms", 512, 8192, isl=4096),
            rises("activation_gib_per_gpu", 512, 16384),
        ),
        "engine.max_num_seqs": (rises("resident", 8, 32),),
        "engine.max_prefill_seqs": (changes("ttft_ms", 1, 16, isl=128),),
        "engine.chunked_prefill": (rises("reason", True, False, isl=16384),),
        "engine.chunked_prefill_size": (falls("prefill_ms", 256, 2048, isl=2048),),
        "engine.cudagraph_mode": (
            rises("step_host_ms", "full", "none"),
            rises("tpot_ms", "full", "piecewise"),
        ),
        "engine.attention_backend": (rises("ttft_ms", "aiter", "hip", isl=8192),),
        "engine.gemm_backend": (
            changes("step_gemm_ms", "fitted", "origami"),
            stays("step_attention_ms", "fitted", "origami"),
        ),
        "engine.gpu_memory_utilization": (
            rises("kv_pool_gib_per_gpu", 0.5, 0.9),
            rises("max_concurrency", 0.5, 0.9),
        ),
        "engine.block_size": (falls("max_concurrency", 16, 1024, isl=1100),),
        "engine.max_model_len": (
            falls("max_concurrency", 2048, 32768),
            stays("weights_gib_per_gpu", 2048, 32768),
        ),
        "engine.kv_cache_tokens": (rises("resident", 4096, 65536),),
        "engine.kv_offload_gib_per_gpu": (
            rises("held_tokens_total", 0.0, 100.0),
            stays("max_concurrency", 0.0, 100.0),
            rises("ttft_ms", 0.0, 100.0, prefix_hit_rate=0.5, isl=8192),
        ),
        "engine.kv_offload_gb_s": (
            falls("ttft_ms", 32.0, 64.0, kv_offload_gib_per_gpu=100.0, prefix_hit_rate=0.5, isl=8192),
        ),
        "engine.enforce_memory": (falls("reason", True, False, model="llama_3_1_70b"),),
        "engine.mixed_batch_penalty": (
            rises("tpot_ms", 0.0, 0.3),
            stays("step_ms", 0.0, 0.3, load="static"),
        ),
        "engine.decode_step_overhead_us": (
            rises("step_host_ms", 0.0, 1000.0),
            rises("tpot_ms", 0.0, 1000.0),
        ),
        "engine.decode_admission_steps": (
            rises("ttft_ms", 0, 80),
            rises("e2e_ms", 0, 80),
            stays("output_tok_s_per_gpu", 0, 80),
        ),
        "engine.kernel_launch_latency_us": (
            rises("tpot_ms", 0.0, 50.0, cudagraph_mode="none"),
            stays("tpot_ms", 0.0, 50.0, cudagraph_mode="full"),
        ),
        "engine.kernels_per_layer": (rises("step_host_ms", 5, 50, decode_kernel_occupancy_us=5.0),),
        "engine.decode_kernel_occupancy_us": (rises("step_host_ms", 0.0, 5.0),),
        "engine.fused_kernels": (falls("step_host_ms", False, True, decode_kernel_occupancy_us=5.0),),
        "engine.exclusive_prefill": (changes("tpot_ms", False, True),),
        "engine.window_in_decode": (falls("step_attention_ms", False, True, model="gpt_oss_20b", isl=16384),),
        "host.request_overhead_ms": (
            rises("ttft_ms", 0.0, 50.0),
            stays("tpot_ms", 0.0, 50.0),
            stays("output_tok_s_per_gpu", 0.0, 50.0),
        ),
        "host.tokenize_overhead_us": (
            rises("ttft_ms", 0.0, 10.0),
            stays("output_tok_s_per_gpu", 0.0, 10.0),
        ),
        "host.detokenize_overhead_us": (
            rises("tpot_ms", 0.0, 100.0),
            rises("e2e_ms", 0.0, 100.0),
            stays("output_tok_s_per_gpu", 0.0, 100.0),
        ),
        "host.stream_interval": (
            rises("ttft_ms", 1, 30),
            falls("tpot_ms", 1, 30),
            stays("e2e_ms", 1, 30),
        ),
        "host.prefill_rate_us_per_token": (
            rises("ttft_ms", 20.0, 60.0, prefill_rate_lo_tokens=512, prefill_rate_hi_tokens=4096),
            stays("tpot_ms", 20.0, 60.0, prefill_rate_lo_tokens=512, prefill_rate_hi_tokens=4096),
        ),
        "host.prefill_rate_lo_tokens": (
            changes(
                "ttft_ms",
                128,
                2048,
                prefill_rate_us_per_token=30.0,
                prefill_rate_hi_tokens=65536,
                max_position=131072,
            ),
        ),
        "host.prefill_rate_hi_tokens": (
            falls("ttft_ms", 1024, 65536, prefill_rate_us_per_token=30.0, prefill_rate_lo_tokens=512),
        ),
        "host.sampling_top_k": (rises("step_other_ms", 0, 50),),
        "host.sampling_top_p": (rises("step_other_ms", 1.0, 0.9),),
        "host.sampling_temperature": (rises("step_other_ms", 1.0, 0.7),),
        "host.sampling": (rises("step_other_ms", False, True),),
        "attention.sliding_window": (
            falls("step_attention_ms", 0, 1024, isl=8192),
            falls("kv_bytes_per_token_per_gpu", 0, 1024, isl=8192),
            stays("weights_gib_per_gpu", 0, 1024, isl=8192),
        ),
        "attention.sliding_window_layer_fraction": (
            falls("step_attention_ms", 0.5, 1.0, sliding_window=1024, isl=8192),
            falls("kv_bytes_per_token_per_gpu", 0.5, 1.0, sliding_window=1024, isl=8192),
        ),
        "attention.sparse_attention_topk": (
            falls("step_attention_ms", 0, 512, isl=16384),
            falls("prefill_ms", 0, 512, isl=16384),
            stays("kv_bytes_per_token_per_gpu", 0, 512, isl=16384),
        ),
        "hardware.hbm_gib": (
            rises("kv_pool_gib_per_gpu", 40.0, 80.0),
            stays("weights_gib_per_gpu", 40.0, 80.0),
        ),
        "hardware.hbm_gb_s": (falls("step_ms", 1500.0, 3000.0),),
        "hardware.tflops_bf16": (falls("prefill_ms", 300.0, 900.0),),
        "hardware.gpu_clock_mhz": (
            falls("prefill_ms", 900.0, 1800.0),
            rises("prefill_ms", None, 900.0),
        ),
        "hardware.link_gb_s": (falls("step_tp_comm_ms", 50.0, 450.0, **_BIG),),
        "hardware.link_latency_us": (rises("step_tp_comm_ms", 1.0, 20.0, **_BIG),),
        "hardware.nic_gb_s": (falls("step_tp_comm_ms", 5.0, 50.0, **_BIG, target_nodes=2, concurrency=512),),
        "hardware.nic_latency_us": (rises("step_tp_comm_ms", 1.0, 30.0, **_BIG, target_nodes=2),),
        "hardware.tdp_w": (rises("joules_per_output_token", 350.0, 700.0, facility_kw_per_gpu=None),),
        "hardware.facility_kw_per_gpu": (rises("joules_per_output_token", 1.0, 2.0),),
        "workload.isl": (
            rises("ttft_ms", 512, 2048),
            rises("tpot_ms", 512, 2048),
        ),
        "workload.osl": (
            rises("e2e_ms", 64, 256),
            stays("weights_gib_per_gpu", 64, 256),
        ),
        "workload.length_range": (rises("e2e_ms", 0.5, 1.0),),
        "workload.decode_spread": (
            falls("ttft_ms", 0.0, 0.5, concurrency=128),
            stays("ttft_ms", 0.0, 0.1, load="rate", request_rate=4.0),
        ),
        "workload.load": (falls("tpot_ms", "closed_loop", "static"),),
        "workload.concurrency": (
            rises("tpot_ms", 8, 64),
            rises("output_tok_s_per_gpu", 8, 64),
            stays("max_concurrency", 8, 64),
        ),
        "workload.num_prompts": (falls("ttft_ms", 32, 3200),),
        "workload.inference_batch_size": (
            rises("tpot_ms", 8, 64, load="static"),
            rises("activation_gib_per_gpu", 1, 8, max_num_batched_tokens=0, isl=4096),
        ),
        "workload.request_rate": (
            rises("tpot_ms", 1.0, 8.0, load="rate"),
            rises("output_tok_s_per_gpu", 1.0, 8.0, load="rate"),
        ),
        "workload.arrival": (falls("ttft_ms", "poisson", "deterministic", load="rate", request_rate=8.0),),
        "workload.burstiness": (falls("ttft_ms", 0.25, 1.0, load="rate", request_rate=8.0),),
        "workload.prefix_hit_rate": (
            falls("ttft_ms", 0.0, 0.8),
            stays("kv_bytes_per_token_per_gpu", 0.0, 0.8),
            stays("step_ms", 0.0, 0.8, load="static"),
        ),
        "disagg.disaggregate": (
            falls("mixed_share", False, True),
            rises("kv_transfer_ms", False, True),
            rises("gpus", False, True),
        ),
        "disagg.prefill_tp": (
            falls("ttft_ms", 1, 2, **_POOLS),
            rises("gpus", 1, 2, **_POOLS),
        ),
        "disagg.prefill_pp": (rises("gpus", 1, 2, **_POOLS),),
        "disagg.prefill_attention_dp": (falls("ttft_ms", 1, 4, **_POOLS, **_MOE, concurrency=256),),
        "disagg.prefill_moe_ep": (changes("prefill_ms", 1, 4, **_POOLS, **_MOE, prefill_tp=4),),
        "disagg.prefill_moe_tp": (changes("prefill_ms", 1, 4, **_POOLS, **_MOE, prefill_tp=4),),
        "disagg.decode_tp": (
            falls("tpot_ms", 1, 2, **_POOLS),
            rises("gpus", 1, 2, **_POOLS),
        ),
        "disagg.decode_pp": (rises("step_pp_comm_ms", 1, 2, **_POOLS),),
        "disagg.decode_attention_dp": (rises("step_ep_comm_ms", 1, 4, **_POOLS, **_MOE),),
        "disagg.decode_moe_ep": (changes("step_moe_ms", 1, 4, **_POOLS, **_MOE, decode_tp=4),),
        "disagg.decode_moe_tp": (changes("step_moe_ms", 1, 4, **_POOLS, **_MOE, decode_tp=4),),
        "disagg.prefill_replicas": (falls("ttft_ms", 1, 4, **_POOLS, concurrency=256),),
        "disagg.decode_replicas": (falls("tpot_ms", 1, 4, **_POOLS, concurrency=256),),
        "disagg.prefill_batch_size": (changes("ttft_ms", 1, 32, **_POOLS, isl=128, concurrency=256),),
        "disagg.decode_batch_size": (rises("tpot_ms", 4, 64, **_POOLS, concurrency=128),),
        "disagg.transfer_backend": (falls("kv_transfer_ms", "mooncake", "nixl", **_POOLS),),
        "disagg.kv_transfer_bw_gbps": (
            falls("kv_transfer_ms", 50.0, 400.0, **_POOLS),
            falls("ttft_ms", 50.0, 400.0, **_POOLS),
        ),
        "disagg.kv_transfer_latency_us": (rises("kv_transfer_ms", 0.0, 1000.0, **_POOLS),),
        "price.usd_per_gpu_hour": (
            rises("usd_per_m_total", 1.0, 4.0),
            stays("tpot_ms", 1.0, 4.0),
        ),
        "price.utilization": (falls("usd_per_m_total", 0.5, 1.0, usd_per_gpu_hour=2.0),),
    }
)
