"""Weight bytes of one GPU, by class.

bytes = sum over the stage's layers of params / shards x width, with the shards of an engine's layers:

    attention        query, output: tp; key, value: min(tp, kv_heads) (heads replicate beyond); MLA's down
                     projections and the indexer: replicated; MLA keeps its absorbed key and value matrices beside
                     the projection they come from (16 bit)
    dense MLP        tp, or tp x attention_dp (SGLang)
    shared experts   as the dense MLP
    routed experts   ceil((E + redundant) / moe_ep) of them at width f / moe_tp; FP4 kernels pad both dimensions
    router, norms    replicated
    embedding, head  vocabulary in multiples of 64, by tp; the head as the dense MLP
    rotary table     max_position x rotary width, 16 bit, one per distinct width
    encoder          replicated, 16 bit
"""

import numpy as np

from kernels.dtypes import INT4_WO, MXFP4, WIDTH_BYTES
from kernels.engines import SGLANG, VLLM, version
from kernels.jit import inlined, kernel
from kernels.params import attention_layers, indexer_params, window_shape
from kernels.stages import FIRST, LAST, stage_layers, stage_moe_layers

VOCAB_MULTIPLE = 64.0
"""Engines pad the vocabulary to a multiple of this before they shard it (vllm, sglang)."""
BLACKWELL, CDNA3, CDNA4 = 3, 5, 6
"""Codes of hardware families whose MXFP4 expert kernels pad both dimensions to 256."""
VLLM_TRITON_MXFP4 = (1100.0, 1200.0)
"""vLLM 0.11 ran MXFP4 experts on Triton kernels, which pad only the expert width."""
GPTQ_ZERO_POINT_BYTES = 0.5 / 128.0
"""int4 checkpoints carry a 4-bit zero point per group of 128 beside the scale."""


@inlined
def round_up(value, multiple):
    return np.ceil(value / multiple) * multiple


@inlined
def group_width(p):
    """GPUs over which an engine shards dense MLPs, shared experts and the LM head.

    Under attention DP, SGLang gathers the tokens and shards over the whole group; vLLM, TensorRT-LLM and ATOM keep
    a copy per attention rank.
    """
    return p.tp * p.attention_dp if p.engine == SGLANG else p.tp


@inlined
def key_value_params(p):
    """Key and value projections of the whole model that shard by KV heads; (full layers, window layers)."""
    layers = attention_layers(p)
    window = min(p.n_window_layers, layers)
    owning = 1.0 - min(p.n_kv_shared_layers, layers) / layers if layers > 0.0 else 1.0
    w_kv, w_qk, w_v = window_shape(p)
    windowed = owning * window * p.hidden_size * w_kv * (w_qk + w_v)
    if p.kv_lora_rank > 0.0:
        return 0.0, windowed
    width = p.head_dim if p.k_is_v > 0.0 else p.head_dim + p.v_head_dim
    return owning * (layers - window) * p.hidden_size * p.n_kv_heads * width, windowed


@inlined
def replicated_attention_params(p):
    """Attention parameters that every rank holds whole: MLA's down projections, the indexers."""
    params = p.n_index_layers * indexer_params(p)
    if p.kv_lora_rank > 0.0:
        full = attention_layers(p) - min(p.n_window_layers, attention_layers(p))
        params += full * p.hidden_size * (p.q_lora_rank + p.kv_lora_rank + p.qk_rope_dim)
    return params


@inlined
def absorbed_bytes(p):
    """MLA's key and value up projections in the layout that decode multiplies with, whole model, one rank."""
    if p.kv_lora_rank <= 0.0:
        return 0.0
    full = attention_layers(p) - min(p.n_window_layers, attention_layers(p))
    return full * p.kv_lora_rank * p.n_heads / p.tp * (p.qk_nope_dim + p.v_head_dim) * 2.0


@inlined
def class_width(dtype):
    """Bytes per parameter of a weight class, scales and zero points included."""
    code = int(dtype)
    return WIDTH_BYTES[code] + GPTQ_ZERO_POINT_BYTES if code == INT4_WO else WIDTH_BYTES[code]


@inlined
def stored_width(dtype, stored_dtype, mean_width):
    """Bytes per parameter of a class: the checkpoint's own mean where the class keeps the checkpoint's format.

    The mean says what a mix costs: DeepSeek NVFP4 with its 16-bit query projections, int4 in groups of 32.
    """
    if dtype == stored_dtype and mean_width > 0.0:  # false for NaN, "auto"
        return mean_width
    return class_width(dtype)


@inlined
def attention_bytes(p, d):
    """Attention weights of the whole model as one rank of the TP group holds them."""
    width = stored_width(d.attn_dtype, p.checkpoint_attn, p.checkpoint_attn_width)
    full_kv, window_kv = key_value_params(p)
    whole = replicated_attention_params(p)
    sharded = d.params_attn - full_kv - window_kv - whole
    w_kv = window_shape(p)[0]
    full_shards = min(p.tp, max(p.n_kv_heads, 1.0))
    window_shards = min(p.tp, max(w_kv, 1.0))
    local = sharded / p.tp + full_kv / full_shards + window_kv / window_shards + whole
    return local * width + absorbed_bytes(p)


@inlined
def expert_padding(p, d):
    """Growth of an expert's matrices by the padding of FP4 kernels: bytes held / bytes in the checkpoint.

    MXFP4 on vLLM: hidden to 256 and the rank's width to 128 (Marlin), both to 256 (Blackwell and CDNA),
    the width alone to 256 (Triton, 0.11). Measured: gpt-oss 20B and 120B.
    """
    if p.engine != VLLM or int(d.expert_dtype) != MXFP4:
        return 1.0
    hidden = p.moe_hidden_dim if p.moe_hidden_dim > 0.0 else p.hidden_size
    width = p.moe_ffn_dim / d.moe_tp
    if p.family == BLACKWELL or p.family == CDNA3 or p.family == CDNA4:
        return round_up(hidden, 256.0) / hidden * round_up(width, 256.0) / width
    release = version(p)
    if VLLM_TRITON_MXFP4[0] <= release < VLLM_TRITON_MXFP4[1]:
        return round_up(width, 256.0) / width
    return round_up(hidden, 256.0) / hidden * round_up(width, 128.0) / width


@inlined
def vocab_padding(p, shards):
    """Padded vocabulary of one shard over its plain share."""
    return round_up(round_up(p.vocab_size, VOCAB_MULTIPLE) / shards, 1.0) * shards / p.vocab_size


@inlined
def rotary_table_bytes(p):
    """Cosine and sine table that every rank keeps, one per distinct rotary width of the attention layers."""
    layers = attention_layers(p)
    if layers <= 0.0:
        return 0.0
    window = min(p.n_window_layers, layers)
    full_width = p.qk_rope_dim if p.kv_lora_rank > 0.0 else p.head_dim
    window_width = window_shape(p)[1]
    elements = full_width if layers > window else 0.0
    if window > 0.0 and window_width != elements:
        elements += window_width
    return p.max_position * elements * 2.0


@kernel
def stage_weights(stage, p, d):
    """Fill `weights_*_bytes` of `d` for a GPU of one kind of pipeline stage (kernels.stages)."""
    layers = stage_layers(stage, p)
    share = layers / p.n_layers
    moe = stage_moe_layers(stage, p)
    moe_share = moe / p.n_moe_layers if p.n_moe_layers > 0.0 else 0.0
    dense_total = p.n_layers - p.n_moe_layers - p.n_mlp_free_layers
    dense = (layers - moe) * dense_total / max(p.n_layers - p.n_moe_layers, 1.0)
    dense_share = dense / dense_total if dense_total > 0.0 else 0.0
    group = group_width(p)
    is_first = stage == FIRST or p.pp <= 1.0
    is_last = stage == LAST

    d.weights_attn_bytes = share * attention_bytes(p, d)
    mlp_width = stored_width(d.mlp_dtype, p.checkpoint_mlp, p.checkpoint_mlp_width)
    d.weights_mlp_bytes = dense_share * d.params_mlp / group * mlp_width
    experts = 0.0
    if p.n_experts > 0.0:
        slots = p.n_experts + (p.redundant_experts if d.moe_ep > 1.0 else 0.0)
        held = np.ceil(slots / d.moe_ep) / p.n_experts / d.moe_tp
        width = stored_width(d.expert_dtype, p.checkpoint_experts, p.checkpoint_experts_width)
        experts = d.params_experts * held * width * expert_padding(p, d)
    d.weights_experts_bytes = moe_share * experts
    shared_width = stored_width(d.shared_dtype, p.checkpoint_shared, p.checkpoint_shared_width)
    d.weights_shared_bytes = moe_share * d.params_shared / group * shared_width
    d.weights_router_bytes = moe_share * d.params_router * class_width(d.router_dtype)
    d.weights_other_bytes = share * d.params_other * 2.0
    if layers > 0.0:
        d.weights_other_bytes += rotary_table_bytes(p)
    embed = d.params_embed / p.tp * vocab_padding(p, p.tp) * class_width(d.embed_dtype)
    d.weights_embed_bytes = embed if is_first else 0.0
    if is_first:
        d.weights_other_bytes += 2.0 * p.encoder_params
    d.weights_head_bytes = 0.0
    if is_last and p.tied_embeddings <= 0.0:
        d.weights_head_bytes = d.params_head / group * vocab_padding(p, group) * class_width(d.head_dtype)
    elif is_last and not is_first:
        # A tied head on another stage than the embedding is a second copy of the matrix.
        d.weights_head_bytes = embed
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
