"""Columns of a result: memory, step split, latency on the client's clock."""

import numpy as np

from kernels.auto import given
from kernels.hostcost import front_end_us
from kernels.jit import kernel
from kernels.layout import (
    BOUND_CAPACITY,
    BOUND_COMMUNICATION,
    BOUND_COMPUTE,
    BOUND_HOST,
    BOUND_MEMORY,
    PART_ATTENTION,
    PART_EP_COMM,
    PART_GEMM,
    PART_HOST,
    PART_MOE,
    PART_OTHER,
    PART_PP_COMM,
    PART_TP_COMM,
)
from kernels.nearby import doublings_from_measured
from kernels.peaks import peak_tflops
from kernels.speculation import tokens_per_step
from kernels.units import BYTES_PER_US_PER_GB_S, FLOP_PER_US_PER_TFLOPS, GIB, US_PER_MS, US_PER_S


@kernel
def fill_memory(d, o):
    """Memory columns of the result record `o` from the derived record, GiB per GPU."""
    o.reason = d.reason
    o.gpus = d.gpus
    o.weights_gib_per_gpu = d.weights_bytes / GIB
    o.weights_attention_gib_per_gpu = d.weights_attn_bytes / GIB
    o.weights_mlp_gib_per_gpu = (d.weights_mlp_bytes + d.weights_shared_bytes) / GIB
    o.weights_experts_gib_per_gpu = d.weights_experts_bytes / GIB
    o.weights_other_gib_per_gpu = (
        d.weights_router_bytes + d.weights_embed_bytes + d.weights_head_bytes + d.weights_other_bytes
    ) / GIB
    o.activation_gib_per_gpu = d.activation_bytes / GIB
    o.reserve_gib_per_gpu = (d.non_torch_bytes + d.graph_bytes + d.comm_buffer_bytes) / GIB
    o.kv_pool_gib_per_gpu = max(0.0, d.kv_pool_bytes) / GIB
    o.kv_bytes_per_token_per_gpu = d.kv_bytes_per_token
    o.kv_capacity_tokens = d.kv_capacity_tokens
    o.kv_capacity_tokens_total = d.kv_capacity_tokens_total
    o.held_tokens_total = d.kv_capacity_tokens_total + d.kv_offload_tokens * d.ep_group / d.tp_attn
    o.max_concurrency = d.max_concurrency
    o.min_memory_fraction = d.min_memory_fraction


@kernel
def residents(isl, osl, p, d):
    """Requests that one DP rank holds at once at their mean length isl + osl / 2, and the engine's limit on sequences.

    A pool that is given in tokens (kv_cache_tokens) reserves prompt and output of each request.
    """
    bytes_each = (isl + 0.5 * osl) * d.kv_bytes_per_token + d.kv_bytes_per_request
    held = max(1.0, np.floor(max(0.0, d.kv_pool_bytes) / bytes_each))
    if p.enforce_memory <= 0.0:
        held = max(held, p.concurrency)
    if given(p.kv_cache_tokens):
        held = max(1.0, np.floor(p.kv_cache_tokens / (isl + osl)))
    return min(held, d.max_seqs)


@kernel
def binding_constraint(context, resident, parts, p, d):
    """What most of a decode step waits for: communication, host, or the device (compute or memory)."""
    comm = parts[PART_TP_COMM] + parts[PART_EP_COMM] + parts[PART_PP_COMM]
    device = parts[PART_GEMM] + parts[PART_ATTENTION] + parts[PART_MOE] + parts[PART_OTHER]
    if comm > device and comm > parts[PART_HOST]:
        return BOUND_COMMUNICATION
    if parts[PART_HOST] > device:
        return BOUND_HOST
    flops = 2.0 * d.params_active * resident * p.attention_dp / d.gpus
    compute_us = flops / (peak_tflops(d.mlp_dtype, p) * FLOP_PER_US_PER_TFLOPS)
    kv_bytes = resident * (context * d.kv_bytes_per_token + d.kv_bytes_per_request)
    memory_us = (d.weights_bytes + kv_bytes) / (p.hbm_gb_s * BYTES_PER_US_PER_GB_S)
    return BOUND_COMPUTE if compute_us > memory_us else BOUND_MEMORY


@kernel
def fill_parts(parts, o):
    """Step-time columns of the result record `o`, ms."""
    o.step_gemm_ms = parts[PART_GEMM] / US_PER_MS
    o.step_attention_ms = parts[PART_ATTENTION] / US_PER_MS
    o.step_moe_ms = parts[PART_MOE] / US_PER_MS
    o.step_tp_comm_ms = parts[PART_TP_COMM] / US_PER_MS
    o.step_ep_comm_ms = parts[PART_EP_COMM] / US_PER_MS
    o.step_pp_comm_ms = parts[PART_PP_COMM] / US_PER_MS
    o.step_host_ms = parts[PART_HOST] / US_PER_MS
    o.step_other_ms = parts[PART_OTHER] / US_PER_MS
    o.step_ms = parts.sum() / US_PER_MS


@kernel
def host_latency(ttft_us, tpot_us, pure_step_us, streams, isl, osl, p, c, o):
    """What host and streaming add, into the latency columns of `o`.

    TTFT gains request overhead (with `streams` responses on their way) and tokenisation; admission adds half its
    window of pure steps; a stream interval moves (interval - 1) gaps from decode to TTFT, leaving end to end
    unchanged; detokenisation adds to every gap.
    """
    ttft = ttft_us + front_end_us(streams, isl, p, c)
    ttft += 0.5 * p.decode_admission_steps * pure_step_us
    gap = tpot_us + p.detokenize_overhead_us
    intervals = max(0.0, osl - 1.0)
    buffered = min(p.stream_interval - 1.0, intervals) * gap
    decode = intervals * gap - buffered
    ttft += buffered
    o.ttft_ms = ttft / US_PER_MS
    o.tpot_ms = (decode / intervals if intervals > 0.0 else 0.0) / US_PER_MS
    o.itl_ms = gap * tokens_per_step(p.speculative_num_tokens, p.speculative_acceptance_rate) / US_PER_MS
    o.e2e_ms = (ttft + decode) / US_PER_MS
    o.tok_s_per_user = US_PER_S / (decode / intervals) if intervals > 0.0 and decode > 0.0 else 0.0


@kernel
def fill_steps(context, resident, p, d, c, parts, r, o):
    """Step-time columns of `o` from the replay `r` and the split `parts` of one decode step at the operating point."""
    fill_parts(parts, o)
    o.bound = BOUND_CAPACITY if o.over_ceiling > 0.0 else binding_constraint(context, resident, parts, p, d)
    o.mixed_step_ms = r.mixed_step_us / US_PER_MS
    o.mixed_share = r.mixed_share
    o.tpot_rise = r.tpot_us / r.pure_tpot_us - 1.0
    o.prefill_ms = r.prompt_us / US_PER_MS
    o.doublings_from_measured = doublings_from_measured(resident, context, p, c)
    o.kv_transfer_ms = 0.0
