"""What an engine keeps of GPU memory beside weights and KV cache: activation peak, non-torch, graphs, buffers.

Fitted to the figures that vLLM prints at start-up (measured/kv_capacity_dev.csv, 22 pairs of model and TP width of
0.19.0; docs/memory.md has the residuals). Sizes are bytes per GPU.
"""

from kernels.dtypes import INT4_WO, MXFP4
from kernels.engines import GRAPH_NONE, SGLANG, TRTLLM, VLLM, VLLM_GRAPHS_COUNTED, version
from kernels.jit import inlined, kernel
from kernels.stages import LAST, stage_layers
from kernels.units import GIB, MIB

SAMPLER_BYTES = 14.0
"""Per logit of a profiled sequence: 16-bit logits, float32 logits, probabilities and noise."""
SAMPLER_SORT_BYTES = 38.0
"""The same where top-k and top-p sort the vocabulary (vLLM up to 0.16): sorted values, 64-bit indices, scratch."""
SAMPLER_ROW_BYTES = 4.0
"""Per vocabulary entry and multiprocessor: scratch rows of the top-k/top-p kernel that replaced the sort."""
VLLM_SORTLESS_SAMPLER = 1700.0
VLLM_MOE_WORKSPACE = 1200.0
"""From this release on the expert kernels' workspace stays allocated between layers and under the sampler."""
HELD_HIDDEN_STATES = 1.22
"""16-bit hidden states of the whole budget that live beside the logits (fit, 1.0 expected)."""
SAMPLER_CONSTANT_BYTES = 0.032 * GIB
FORWARD_CONSTANT_BYTES = 0.265 * GIB
"""GEMM workspaces and compiler scratch while a layer runs (fit)."""
ENCODER_HIDDEN_STATES = 3.0
"""16-bit hidden states of the budget that a multimodal model adds: encoder output, its cache, merged embeddings."""

CONTEXT_BYTES = 0.51 * GIB
"""CUDA context of a process: H100 total 79.19 less free 78.68 GiB at start; counted by engines that read the device."""
NON_TORCH_BYTES = 0.25 * GIB
NON_TORCH_OLD_BYTES = 0.13 * GIB
VLLM_TORCH_PEAK = 400.0
"""Up to vLLM 0.3 the profiler took the peak from the device, the context included."""
VLLM_NON_TORCH_ROSE = 1800.0
"""Outside PyTorch's allocator on one GPU: 0.13 GiB up to vLLM 0.17, 0.25 GiB from 0.18 on (kv062 to kv065)."""
NCCL_BYTES = 1.02 * GIB
"""NCCL communicators of a group in one NVSwitch domain: free memory at start 78.68 less 77.66 GiB."""
TP_BUFFER_BYTES = 0.81 * GIB
TP_BUFFER_STEP_BYTES = 0.09 * GIB
"""Custom and multicast all-reduce buffers of TP 2, and what each doubling adds (2.06 to 2.10, 2.13 to 2.21 GiB in all)."""
OLD_GROUP_BYTES = 0.42 * GIB
"""NCCL and buffers of a TP group behind an NVSwitch up to vLLM 0.17 (0.55 less 0.13 GiB)."""
PLAIN_GROUP_BYTES = 0.12 * GIB
"""The same between GPUs without a multicast switch (RTX 4090 pair, 0.25 less 0.13 GiB)."""
GRAPH_BYTES_PER_LAYER = 22.0 * MIB
"""Captured graphs per layer (estimates of 0.55 to 1.8 GiB for 24 to 80 layers)."""


@inlined
def profiled_sequences(p, d):
    """Sequences whose logits are held at once when the engine measures its peak."""
    return min(d.max_seqs, d.token_budget)


@inlined
def expert_workspace_bytes(p, d):
    """Intermediate buffers of the routed experts: tokens x top-k rows of max(2f, h) and max(f, h), 16 bit.

    Weight-only kernels (MXFP4, int4) need none that lasts.
    """
    if p.n_moe_layers <= 0.0 or int(d.expert_dtype) in (INT4_WO, MXFP4):
        return 0.0
    tokens = min(d.token_budget * p.attention_dp, max(d.token_budget, 32768.0))
    # An expert-parallel rank sees its share of the routings; its buffers hold them all at the worst.
    rows = tokens * p.experts_per_token / d.moe_ep
    hidden = p.moe_hidden_dim if p.moe_hidden_dim > 0.0 else p.hidden_size
    width = p.moe_ffn_dim / d.moe_tp
    return rows * (max((p.mlp_matrices - 1.0) * width, hidden) + max(width, hidden)) * 2.0


@inlined
def forward_peak_bytes(p, d):
    """Peak inside one layer: the MLP's gate, up and product of the whole budget, or the experts' buffers."""
    dense = 0.0
    if p.n_moe_layers < p.n_layers:
        dense = d.token_budget * p.mlp_matrices * p.ffn_dim / p.tp * 2.0
    moe = 0.0
    if p.n_moe_layers > 0.0:
        shared = d.token_budget * p.mlp_matrices * p.shared_ffn_dim / p.tp * 2.0
        moe = expert_workspace_bytes(p, d) + shared
    return max(dense, moe)


@inlined
def hidden_state_bytes(p, d):
    """One 16-bit hidden state of the whole token budget."""
    return d.token_budget * p.hidden_size * 2.0


@inlined
def sampler_peak_bytes(p, d):
    """Peak while logits are sampled, with what outlives the forward pass."""
    logits = profiled_sequences(p, d) * p.vocab_size
    if p.engine == VLLM and version(p) < VLLM_SORTLESS_SAMPLER:
        peak = SAMPLER_SORT_BYTES * logits
    else:
        peak = SAMPLER_BYTES * logits
        if p.sm_count > 0.0:
            peak += SAMPLER_ROW_BYTES * p.sm_count * p.vocab_size
    if p.engine == VLLM and version(p) >= VLLM_MOE_WORKSPACE:
        peak += expert_workspace_bytes(p, d)
    return peak + HELD_HIDDEN_STATES * hidden_state_bytes(p, d) + SAMPLER_CONSTANT_BYTES


@kernel
def activation_peak_bytes(stage, p, d):
    """Activation peak of a GPU of one kind of pipeline stage; only the last one samples.

    max(forward pass, sampler). Under PP a stage also holds the two hidden states that it receives or sends.
    """
    hidden = hidden_state_bytes(p, d)
    peak = forward_peak_bytes(p, d) + FORWARD_CONSTANT_BYTES
    if p.pp > 1.0:
        peak += 2.0 * hidden
    if stage == LAST and p.engine == VLLM:
        peak = max(peak, sampler_peak_bytes(p, d))
    if p.encoder_params > 0.0:
        peak += ENCODER_HIDDEN_STATES * hidden
    return peak


@kernel
def non_torch_bytes(p):
    """Memory outside the framework's allocator on one GPU without a group."""
    if p.engine != VLLM:
        return CONTEXT_BYTES
    release = version(p)
    if release < VLLM_TORCH_PEAK:
        return CONTEXT_BYTES + NON_TORCH_OLD_BYTES
    return NON_TORCH_BYTES if release >= VLLM_NON_TORCH_ROSE else NON_TORCH_OLD_BYTES


@kernel
def comm_buffer_bytes(p):
    """Communicators and all-reduce buffers of one GPU; none for a deployment of one GPU."""
    if p.tp * p.attention_dp * p.pp * p.cp <= 1.0:
        return 0.0
    if not p.multicast > 0.0:
        return PLAIN_GROUP_BYTES
    if p.engine == VLLM and version(p) < VLLM_NON_TORCH_ROSE:
        return OLD_GROUP_BYTES
    n_bytes = NCCL_BYTES
    doublings = 0.0
    width = p.tp
    while width >= 4.0:
        doublings += 1.0
        width /= 2.0
    if p.tp > 1.0:
        n_bytes += TP_BUFFER_BYTES + doublings * TP_BUFFER_STEP_BYTES
    return n_bytes


@kernel
def graph_bytes(stage, p, d):
    """CUDA graphs, where the engine takes them out of the pool: vLLM from 0.21 on, TensorRT-LLM.

    Before, vLLM captures into what the memory fraction leaves; SGLang's static fraction leaves room for them.
    """
    counted = p.engine == TRTLLM or (p.engine == VLLM and version(p) >= VLLM_GRAPHS_COUNTED)
    if not counted or d.graph_mode == GRAPH_NONE:
        return 0.0
    return GRAPH_BYTES_PER_LAYER * stage_layers(stage, p)


@inlined
def is_static(p):
    """Whether the engine's fraction divides memory into static (weights, KV) and the rest (SGLang)."""
    return p.engine == SGLANG
