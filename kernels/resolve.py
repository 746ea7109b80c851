"""From inputs to a deployment: shards, number formats, parameters, memory, verdict.

`resolve` runs once per combination of the inputs it reads (model, accelerator, precision, shape,
engine, lengths); the step and batching kernels then read the derived record only.
"""

import numpy as np

from kernels import reasons
from kernels.auto import default_to, given
from kernels.dtypes import BFLOAT16, FAMILY, FAMILY_FP4, FAMILY_WIDE, WIDTH_BYTES
from kernels.engines import GRAPH_FULL, default_max_seqs, default_token_budget, longest_request_tokens
from kernels.fabric import domain_gpus
from kernels.jit import inlined, kernel
from kernels.memory import memory_account
from kernels.once import compiled_once
from kernels.params import dense_mlp_layers, parameter_counts
from kernels.peaks import peak_tflops
from kernels.weights import VOCAB_MULTIPLE, round_up
from kernels.windows import sparse_layers, sparse_topk, window_layers, window_tokens


@kernel
def resolve_shape(p, d):
    """Shards of every weight class and layer counts of the fullest rank; a reason code where the shape is illegal."""
    group = p.tp * p.attention_dp
    d.gpus = group * p.pp * p.cp
    d.tp_attn = p.tp
    moe_ep = p.moe_ep
    moe_tp = p.moe_tp
    if not given(moe_ep):
        if given(moe_tp):
            moe_ep = group / moe_tp
        else:
            moe_ep = group if p.attention_dp > 1.0 else 1.0
    if not given(moe_tp):
        moe_tp = group / moe_ep
    if p.n_moe_layers <= 0.0:
        moe_ep = 1.0
        moe_tp = group
    d.moe_ep = moe_ep
    d.moe_tp = moe_tp
    d.ep_group = group
    d.layers_local = np.ceil(p.n_layers / p.pp)
    d.moe_layers = p.n_moe_layers
    d.dense_layers = dense_mlp_layers(p)
    d.window_layers = window_layers(p)
    d.window_tokens = window_tokens(p)
    d.linear_layers = p.n_linear_layers
    d.sparse_layers = sparse_layers(p)
    d.sparse_topk = sparse_topk(p)
    d.full_layers = p.n_layers - d.window_layers - d.linear_layers
    d.heads_local = p.n_heads / p.tp
    d.kv_heads_local = max(1.0, p.n_kv_heads / p.tp)
    window_kv_heads = p.window_n_kv_heads if p.window_n_kv_heads > 0.0 else p.n_kv_heads
    d.window_kv_heads_local = max(1.0, window_kv_heads / p.tp)
    d.ffn_local = p.ffn_dim / p.tp
    d.moe_ffn_local = p.moe_ffn_dim / moe_tp
    d.shared_ffn_local = p.shared_ffn_dim / p.tp
    d.experts_local = p.n_experts / moe_ep
    d.vocab_local = np.ceil(p.vocab_size / p.tp)
    d.reason = shape_reason(p, d)


@kernel
def shape_reason(p, d):
    """Why the parallel shape is illegal; 0 where it is legal."""
    if p.n_heads % p.tp != 0.0:
        return reasons.HEADS_NOT_DIVISIBLE
    if p.kv_lora_rank <= 0.0 and p.n_kv_heads % p.tp != 0.0 and p.tp % p.n_kv_heads != 0.0:
        return reasons.HEADS_NOT_DIVISIBLE
    if round_up(p.vocab_size, VOCAB_MULTIPLE) % p.tp != 0.0:
        return reasons.VOCAB_NOT_DIVISIBLE
    if p.pp > p.n_layers:
        return reasons.LAYERS_BELOW_STAGES
    if p.n_moe_layers > 0.0:
        if d.moe_ep * d.moe_tp != d.ep_group:
            return reasons.EXPERT_GRID_MISMATCH
        if p.n_experts % d.moe_ep != 0.0:
            return reasons.EXPERTS_NOT_DIVISIBLE
        if p.moe_ffn_dim % d.moe_tp != 0.0:
            return reasons.FFN_NOT_DIVISIBLE
    if p.n_moe_layers < p.n_layers and p.ffn_dim % p.tp != 0.0:
        return reasons.FFN_NOT_DIVISIBLE
    if p.tp > domain_gpus(p) * default_to(p.target_nodes, 1.0):
        return reasons.MORE_GPUS_THAN_DOMAIN
    if given(p.gpus_available) and d.gpus > p.gpus_available:
        return reasons.MORE_GPUS_THAN_AVAILABLE
    return reasons.OK


@kernel
def asks_for_checkpoint(asked, p):
    """Whether a format names the checkpoint's own kind: then every class keeps what the checkpoint stores.

    Asking "fp4" of a checkpoint whose experts are mxfp4 means that checkpoint, 16-bit attention included.
    """
    if np.isnan(asked):
        return True
    own = p.checkpoint_experts if p.n_moe_layers > 0.0 else p.checkpoint_mlp
    family = FAMILY[int(asked)]
    return family == FAMILY[int(own)] and family != FAMILY_WIDE


@inlined
def linear_of_weights(p):
    """What the precision of the resident weights says about linears: a 4-bit MoE checkpoint means its experts only."""
    if np.isnan(p.weight_dtype) or (p.n_moe_layers > 0.0 and FAMILY[int(p.weight_dtype)] >= FAMILY_FP4):
        return np.nan
    return p.weight_dtype


@kernel
def resolve_formats(p, d):
    """Number format of each weight class: what was asked for, else the checkpoint's own.

    `weight_dtype` stands for both where they are not given. A linear format that is given applies to attention projections, dense MLPs and shared experts; experts
    follow it only where the checkpoint stores them in 16 bit (asking fp8 of a 4-bit-expert checkpoint leaves
    the experts alone).
    """
    linear = default_to(p.linear_dtype, linear_of_weights(p))
    experts = default_to(p.expert_dtype, p.weight_dtype)
    linear = np.nan if asks_for_checkpoint(linear, p) else linear
    experts = np.nan if asks_for_checkpoint(experts, p) else experts
    d.attn_dtype = default_to(p.attn_dtype, default_to(linear, p.checkpoint_attn))
    d.mlp_dtype = default_to(linear, p.checkpoint_mlp)
    stored = p.checkpoint_experts
    if given(linear) and WIDTH_BYTES[int(stored)] >= 2.0:
        stored = linear
    d.expert_dtype = default_to(experts, stored)
    d.shared_dtype = default_to(p.shared_dtype, default_to(linear, p.checkpoint_shared))
    d.head_dtype = default_to(p.head_dtype, p.checkpoint_head)
    d.embed_dtype = default_to(p.embed_dtype, p.checkpoint_embed)
    d.router_dtype = default_to(p.router_dtype, p.checkpoint_router)
    d.kv_dtype = default_to(p.kv_cache_dtype, p.checkpoint_kv)
    d.kv_width = WIDTH_BYTES[int(d.kv_dtype)]
    d.act_width = WIDTH_BYTES[int(default_to(p.activation_dtype, float(BFLOAT16)))]


@kernel
def format_reason(p, d):
    """Why the accelerator cannot price the formats; 0 where it can.

    Weight formats without math of their own run on the next wider unit where engines do so (fp4 weights on
    fp8 or 16-bit units, fp8 weights on 16-bit units: weight-only kernels); int8 needs its unit.
    """
    if np.isnan(p.hbm_gb_s) or np.isnan(p.tflops_bf16) or np.isnan(p.hbm_gib):
        return reasons.HARDWARE_FIGURE_UNKNOWN
    if np.isnan(peak_tflops(d.attn_dtype, p)) or np.isnan(peak_tflops(d.mlp_dtype, p)):
        return reasons.NO_MATH_FOR_DTYPE
    if p.n_moe_layers > 0.0 and (
        np.isnan(peak_tflops(d.expert_dtype, p)) or np.isnan(peak_tflops(d.shared_dtype, p))
    ):
        return reasons.NO_MATH_FOR_DTYPE
    return reasons.OK


@kernel
def resolve_engine(p, d):
    """Scheduler settings with the engine's defaults: a budget or sequence limit of 0 means unlimited.

    An unlimited budget holds the prompts that are offered at once (inference_batch_size).
    """
    budget = default_to(p.max_num_batched_tokens, default_token_budget(p))
    d.token_budget = budget if budget > 0.0 else default_to(p.inference_batch_size, 1.0) * p.isl
    seqs = default_to(p.max_num_seqs, default_max_seqs(p))
    d.max_seqs = seqs if seqs > 0.0 else 1e9
    d.max_model_len = longest_request_tokens(p)
    d.graph_mode = default_to(p.cudagraph_mode, float(GRAPH_FULL))


@kernel
def resolve(p, d):
    """`resolve_deployment` through its symbol: fills the derived record `d` from the input record `p`."""
    resolve_deployment(p, d)


@compiled_once()
def resolve_deployment(p, d):
    """Fill the derived record `d` (kernels.layout.DERIVED) from the input record `p`.

    `d.reason` is 0 for a deployment that can run; else a code of kernels.reasons. Every legal input gives finite
    numbers in the columns that its reason leaves meaningful.
    """
    resolve_shape(p, d)
    resolve_formats(p, d)
    resolve_engine(p, d)
    parameter_counts(p, d)
    if d.reason == reasons.OK:
        d.reason = format_reason(p, d)
    if d.reason == reasons.OK and p.isl + p.osl > p.max_position:
        d.reason = reasons.CONTEXT_TOO_LONG
    if d.reason == reasons.OK and p.chunked_prefill <= 0.0 and p.isl > d.token_budget:
        d.reason = reasons.BUDGET_BELOW_PROMPT
    verdict = d.reason
    memory_account(p, d)
    if verdict != reasons.OK:
        d.reason = verdict
    return d.reason
