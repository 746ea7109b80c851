"""What fills memory and what a step spends its time on: result column, name and colour of each part.

Colours: Okabe and Ito's palette, safe for colour-blind eyes; names and figures stand beside them.
"""

MEMORY = (
    ("weights_attention_gib_per_gpu", "attention weights", "#0072B2"),
    ("weights_mlp_gib_per_gpu", "MLP weights", "#56B4E9"),
    ("weights_experts_gib_per_gpu", "expert weights", "#009E73"),
    ("weights_other_gib_per_gpu", "other weights", "#999999"),
    ("activation_gib_per_gpu", "activations", "#E69F00"),
    ("reserve_gib_per_gpu", "reserve", "#D55E00"),
    ("kv_pool_gib_per_gpu", "KV cache", "#F0E442"),
)
STEP = (
    ("step_gemm_ms", "GEMM", "#0072B2"),
    ("step_attention_ms", "attention", "#56B4E9"),
    ("step_moe_ms", "experts", "#009E73"),
    ("step_tp_comm_ms", "all-reduce", "#E69F00"),
    ("step_ep_comm_ms", "expert exchange", "#D55E00"),
    ("step_pp_comm_ms", "pipeline hops", "#CC79A7"),
    ("step_host_ms", "host", "#000000"),
    ("step_other_ms", "norms, sampling", "#999999"),
)
