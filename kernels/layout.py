"""Names of what kernels hand each other: the derived record, step parts, operator classes."""

import numpy as np

from kernels.mode import record_type

DERIVED = record_type(
    [
        (name, np.float64)
        for name in (
            # shape
            "reason gpus tp_attn moe_tp moe_ep ep_group layers_local dense_layers moe_layers "
            "full_layers window_layers window_tokens linear_layers sparse_layers sparse_topk heads_local kv_heads_local "
            "window_kv_heads_local ffn_local moe_ffn_local shared_ffn_local experts_local vocab_local "
            # resolved formats (codes of kernels.dtypes) and widths in bytes
            "attn_dtype mlp_dtype expert_dtype shared_dtype head_dtype embed_dtype router_dtype kv_dtype "
            "kv_width act_width "
            # parameters, whole model
            "params_attn params_mlp params_experts params_shared params_router params_embed params_head "
            "params_other params_total params_active "
            # bytes on the fullest GPU
            "weights_attn_bytes weights_mlp_bytes weights_experts_bytes weights_shared_bytes "
            "weights_router_bytes weights_embed_bytes weights_head_bytes weights_other_bytes weights_bytes "
            "activation_bytes non_torch_bytes graph_bytes comm_buffer_bytes usable_bytes kv_pool_bytes "
            "kv_bytes_per_token kv_bytes_per_request kv_bytes_longest_request kv_blocks "
            # capacity of one DP rank (tokens as the engine prints them), and of the whole deployment
            "kv_capacity_tokens kv_capacity_tokens_total "
            "max_concurrency min_memory_fraction "
            "kv_offload_tokens "
            # engine settings resolved
            "token_budget max_seqs max_model_len memory_fraction graph_mode "
        ).split()
    ]
)
"""What `kernels.resolve` derives once per deployment: shards, formats, bytes, capacity."""

(
    PART_GEMM,
    PART_ATTENTION,
    PART_MOE,
    PART_TP_COMM,
    PART_EP_COMM,
    PART_PP_COMM,
    PART_HOST,
    PART_OTHER,
) = range(8)
PART_NAMES = ("gemm", "attention", "moe", "tp_comm", "ep_comm", "pp_comm", "host", "other")
N_PARTS = 8

REPLAY = record_type(
    [
        (name, np.float64)
        for name in (
            # means over requests
            "ttft_us tpot_us pure_tpot_us "
            # throughput of the rank, sequences that decode at once, share of decode time in mixed steps
            "requests_per_us decoding mixed_share "
            # a pure decode step, a mixed step under full load, the prefill of one prompt by itself
            "pure_step_us mixed_step_us prompt_us"
        ).split()
    ]
)
"""What `kernels.batching.replay` says of one attention-DP rank."""

RESULT_COLUMNS = tuple(
    (
        "reason gpus over_ceiling saturated bound "
        # memory of the fullest GPU
        "weights_gib_per_gpu weights_attention_gib_per_gpu weights_mlp_gib_per_gpu weights_experts_gib_per_gpu "
        "weights_other_gib_per_gpu activation_gib_per_gpu reserve_gib_per_gpu kv_pool_gib_per_gpu "
        "kv_bytes_per_token_per_gpu kv_capacity_tokens kv_capacity_tokens_total held_tokens_total "
        "max_concurrency min_memory_fraction "
        # latency
        "ttft_ms tpot_ms itl_ms e2e_ms "
        # throughput
        "output_tok_s_per_gpu total_tok_s_per_gpu tok_s_per_user requests_per_s resident "
        # one decode step at the operating point and its parts
        "step_ms step_gemm_ms step_attention_ms step_moe_ms step_tp_comm_ms step_ep_comm_ms step_pp_comm_ms "
        "step_host_ms step_other_ms mixed_step_ms mixed_share tpot_rise prefill_ms kv_transfer_ms doublings_from_measured "
        # money and power
        "usd_per_m_input usd_per_m_output usd_per_m_total joules_per_output_token output_tok_s_per_mw "
        "prefill_tok_s_per_prefill_gpu decode_tok_s_per_decode_gpu"
    ).split()
)
"""Columns of the result of one row, in order."""
RESULT_INDEX = {name: i for i, name in enumerate(RESULT_COLUMNS)}
N_OUT = len(RESULT_COLUMNS)

BOUND_COMPUTE, BOUND_MEMORY, BOUND_COMMUNICATION, BOUND_HOST, BOUND_CAPACITY = range(5)
BOUND_NAMES = ("compute", "memory", "communication", "host", "capacity")

RESULT = record_type([(name, np.float64) for name in RESULT_COLUMNS])
"""The same columns as a record: kernels write fields by name, the block is read as a matrix."""
