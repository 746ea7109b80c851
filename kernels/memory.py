"""Memory account of the fullest GPU: weights by class, KV cache, reserves, verdict."""

from kernels import reasons
from kernels.auto import default_to
from kernels.dtypes import WIDTH_BYTES
from kernels.jit import kernel
from kernels.units import GIB

DEFAULT_FRACTION = 0.9


@kernel
def memory_account(p, d):
    """Fill the byte and capacity columns of `d`; `d.reason` says whether one longest request fits."""
    share = 1.0 / p.pp
    d.weights_attn_bytes = d.params_attn * WIDTH_BYTES[int(d.attn_dtype)] * share / p.tp
    d.weights_mlp_bytes = d.params_mlp * WIDTH_BYTES[int(d.mlp_dtype)] * share / p.tp
    d.weights_experts_bytes = d.params_experts * WIDTH_BYTES[int(d.expert_dtype)] * share / d.ep_group
    d.weights_shared_bytes = d.params_shared * WIDTH_BYTES[int(d.shared_dtype)] * share / p.tp
    d.weights_router_bytes = d.params_router * WIDTH_BYTES[int(d.router_dtype)] * share
    d.weights_embed_bytes = d.params_embed * WIDTH_BYTES[int(d.embed_dtype)] / p.tp
    d.weights_head_bytes = d.params_head * WIDTH_BYTES[int(d.head_dtype)] / p.tp
    d.weights_other_bytes = d.params_other * 2.0 * share
    d.weights_bytes = (
        d.weights_attn_bytes
        + d.weights_mlp_bytes
        + d.weights_experts_bytes
        + d.weights_shared_bytes
        + d.weights_router_bytes
        + d.weights_embed_bytes
        + d.weights_head_bytes
        + d.weights_other_bytes
    )
    d.memory_fraction = default_to(p.gpu_memory_utilization, DEFAULT_FRACTION)
    d.activation_bytes = 2.0 * GIB
    d.non_torch_bytes = 0.25 * GIB
    d.graph_bytes = 0.0
    d.comm_buffer_bytes = 0.0
    d.usable_bytes = p.hbm_gib * GIB * d.memory_fraction
    d.kv_pool_bytes = d.usable_bytes - d.weights_bytes - d.activation_bytes - d.non_torch_bytes
    layers = d.full_layers + d.window_layers
    if p.kv_lora_rank > 0.0:
        per_layer = (p.kv_lora_rank + p.qk_rope_dim) * d.kv_width
    else:
        per_layer = 2.0 * d.kv_heads_local * p.head_dim * d.kv_width
    d.kv_bytes_per_token = per_layer * layers / p.pp
    d.kv_bytes_per_request = 0.0
    d.kv_capacity_tokens = max(0.0, d.kv_pool_bytes / d.kv_bytes_per_token)
    d.kv_capacity_tokens_total = d.kv_capacity_tokens * p.attention_dp
    d.max_concurrency = d.kv_capacity_tokens / d.max_model_len
    reserve = d.activation_bytes + d.non_torch_bytes
    d.min_memory_fraction = (d.weights_bytes + reserve + d.max_model_len * d.kv_bytes_per_token) / (
        p.hbm_gib * GIB
    )
    if d.weights_bytes + reserve >= d.usable_bytes:
        d.reason = reasons.WEIGHTS_DO_NOT_FIT
    elif d.kv_capacity_tokens < d.max_model_len:
        d.reason = reasons.KV_BELOW_ONE_REQUEST
