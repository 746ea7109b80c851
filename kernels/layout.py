"""Names of what kernels hand each other: the derived record, step parts, operator classes."""

import numpy as np

DERIVED = np.dtype(
    [
        (name, np.float64)
        for name in (
            # shape
            "reason gpus tp_attn moe_tp moe_ep ep_group layers_local dense_layers moe_layers "
            "full_layers window_layers linear_layers sparse_layers heads_local kv_heads_local "
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
            "kv_bytes_per_token kv_bytes_per_request "
            # capacity of one DP rank (tokens as the engine prints them), and of the whole deployment
            "kv_capacity_tokens kv_capacity_tokens_total max_concurrency min_memory_fraction "
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
