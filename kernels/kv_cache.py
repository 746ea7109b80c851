"""KV cache of one GPU: bytes per token and per request, and what an engine counts as its capacity.

Bytes that one token of one layer leaves on a rank, w bytes per element (fp8 is exactly half of 16 bit):

    full attention   kv_heads / min(tp, kv_heads) x (qk + v) x w      heads replicate beyond tp = kv_heads
    window           the same with the window layers' heads, for window tokens at most
    MLA              (rank + rope) x w, the same on every TP rank; fp8 under sparse attention keeps the rotary part
                     in 16 bit and a float32 scale per 128 elements of the rank (vLLM and SGLang: 656 bytes)
    indexer          fp8 key and a float32 scale per 128 elements, the same on every rank
    linear attention a state per request: value heads / tp x k x v x w_state + convolution, no tokens

Engines turn that into blocks differently; `kv_layout` returns each engine's (bytes of a block, blocks of one request
of a given length, blocks per token in the limit, blocks per request beside its tokens).
"""

import numpy as np

from kernels.dtypes import BFLOAT16, WIDTH_BYTES
from kernels.engines import ATOM, SGLANG, VLLM, version
from kernels.jit import inlined, kernel
from kernels.params import attention_layers, window_shape
from kernels.windows import window_layers, window_tokens

VLLM_HYBRID_GROUPS = 1000.0
"""vLLM 0.10.0: window layers free what has left the window; before, they are held as full attention."""
VLLM_CONCURRENCY_TOKENS = 2100.0
"""vLLM 0.21.0 prints int(max_concurrency x max_model_len); before, blocks // groups x block size (vllm#43308)."""
VLLM_ALIGNED_STATES = 2100.0
"""vLLM 0.21.0: prefix caching of linear-attention models keeps two states per request and layer group."""
STATE_ALIGN_TOKENS = 16.0
"""vLLM rounds the attention block that equals a state page to this many tokens."""
SGLANG_WINDOW_SHARE = 0.8
"""SGLang sizes the window layers' pool at this share of the full layers' tokens (swa_full_tokens_ratio)."""
SGLANG_STATE_RATIO = 0.9
"""SGLang's linear-attention states take this multiple of what the KV cache gets (mamba_full_memory_ratio)."""


@inlined
def owning_share(p):
    """Share of attention layers that own a cache; the others reuse an earlier layer's."""
    layers = attention_layers(p)
    return 1.0 - min(p.n_kv_shared_layers, layers) / layers if layers > 0.0 else 1.0


@inlined
def layers_by_kind(p):
    """Layers that hold (full KV, windowed KV, linear-attention state), whole model."""
    layers = attention_layers(p)
    window = window_layers(p)
    own = owning_share(p)
    return np.floor((layers - window) * own + 0.5), np.floor(window * own + 0.5), p.n_linear_layers


@inlined
def heads_on_rank(kv_heads, tp):
    return max(1.0, np.ceil(kv_heads / tp))


@inlined
def mla_token_bytes(p, d):
    """Latent cache of one token of one layer, bytes."""
    if p.n_sparse_layers > 0.0 and d.kv_width < 2.0:
        return p.kv_lora_rank * (1.0 + 4.0 / 128.0) + 2.0 * p.qk_rope_dim
    return (p.kv_lora_rank + p.qk_rope_dim) * d.kv_width


@inlined
def full_token_bytes(p, d):
    """Bytes of one token of one full-attention layer on a rank, its share of indexer caches included."""
    if p.kv_lora_rank <= 0.0:
        return heads_on_rank(p.n_kv_heads, p.tp) * (p.head_dim + p.v_head_dim) * d.kv_width
    index = p.n_index_layers * p.index_head_dim * (1.0 + 4.0 / 128.0)
    return mla_token_bytes(p, d) + index / max(layers_by_kind(p)[0], 1.0)


@inlined
def window_token_bytes(p, d):
    """Bytes of one token of one window layer on a rank."""
    if p.kv_lora_rank > 0.0:
        return mla_token_bytes(p, d)
    kv_heads, qk, v = window_shape(p)
    return heads_on_rank(kv_heads, p.tp) * (qk + v) * d.kv_width


@inlined
def state_bytes(p):
    """State of one request in one linear-attention layer on a rank: recurrent matrix and convolution window."""
    v_heads = p.linear_v_heads / p.tp
    recurrent = v_heads * p.linear_k_dim * p.linear_v_dim * WIDTH_BYTES[int(p.linear_state_dtype)]
    channels = 2.0 * p.linear_k_heads / p.tp * p.linear_k_dim + v_heads * p.linear_v_dim
    return recurrent + max(0.0, p.linear_conv_kernel - 1.0) * channels * WIDTH_BYTES[BFLOAT16]


@inlined
def windows_are_bounded(p):
    """Whether the engine frees what has left a window."""
    if p.engine == ATOM:
        return False
    return p.engine != VLLM or version(p) >= VLLM_HYBRID_GROUPS


@inlined
def group_size(full, window, linear):
    """Layers of one vLLM cache group: the rarest kind's count, or the commonest's where they are within half of it."""
    least = 1e9
    most = 0.0
    for count in (full, window, linear):
        if count > 0.0:
            least = min(least, count)
            most = max(most, count)
    return most if most < 1.5 * least else least


@inlined
def state_blocks(p):
    """Blocks that one request holds per group of linear-attention layers."""
    return 2.0 if version(p) >= VLLM_ALIGNED_STATES else 1.0


@kernel
def vllm_layout(tokens, layer_share, p, d):
    """vLLM's blocks: layers in equal groups (padded) over one pool; every group's block costs the same bytes.

    Returns (block bytes, blocks of one request of `tokens` as admission counts them, blocks per token, blocks per
    request in steady state, block tokens printed, groups). A window group of a request counts
    min(window - 1 + token budget, tokens) tokens and a block more, and in steady state its window.
    """
    full, window, linear = layers_by_kind(p)
    if not windows_are_bounded(p):
        full, window = full + window, 0.0
    size = group_size(full, window, linear)
    page_full = p.block_size * full_token_bytes(p, d) if full > 0.0 else 0.0
    page_window = p.block_size * window_token_bytes(p, d) if window > 0.0 else 0.0
    page = max(page_full, page_window)
    full_block = p.block_size
    if linear > 0.0:
        state = state_bytes(p)
        if full > 0.0 and page < state:
            per_block = full_token_bytes(p, d) * STATE_ALIGN_TOKENS
            page = np.ceil(state / per_block) * per_block
        page = max(page, state)
    if full > 0.0:
        full_block = p.block_size * max(1.0, np.floor(page / page_full + 1e-9))
        if linear > 0.0:
            full_block = np.floor(page / full_token_bytes(p, d) + 1e-9)
    window_block = p.block_size
    if window > 0.0:
        window_block = p.block_size * max(1.0, np.floor(page / page_window + 1e-9))
    n_full = np.ceil(full / size)
    n_window = np.ceil(window / size)
    n_linear = np.ceil(linear / size)
    admitted = min(window_tokens(p) - 1.0 + d.token_budget, tokens)
    request = n_full * np.ceil(tokens / full_block) + n_linear * state_blocks(p)
    fixed = n_linear * state_blocks(p)
    if window > 0.0:
        request += n_window * (np.ceil(admitted / window_block) + 1.0)
        fixed += n_window * (np.ceil(min(window_tokens(p), tokens) / window_block) + 1.0)
    printed = full_block if full > 0.0 else window_block
    if window > 0.0:
        printed = min(printed, window_block)
    on_stage = np.ceil(size * layer_share - 1e-9)
    return on_stage * page, request, n_full / full_block, fixed, printed, n_full + n_window + n_linear


@kernel
def two_part_layout(tokens, layer_share, p, d):
    """(bytes per token, bytes per request of `tokens`) of engines that pool each kind of layer by its bytes."""
    full, window, linear = layers_by_kind(p)
    per_token = full * full_token_bytes(p, d)
    fixed = linear * state_bytes(p)
    if window > 0.0:
        if windows_are_bounded(p):
            fixed += window * window_token_bytes(p, d) * min(window_tokens(p), tokens)
        else:
            per_token += window * window_token_bytes(p, d)
    return per_token * layer_share, fixed * layer_share


@kernel
def vllm_capacity(pool_bytes, layer_share, p, d):
    """vLLM's capacity of a pool: fills kv_blocks, kv_capacity_tokens, max_concurrency and the bytes per token, per request."""
    tokens = d.max_model_len
    block, request, per_token, fixed, printed, groups = vllm_layout(tokens, layer_share, p, d)
    blocks = np.floor(max(0.0, pool_bytes) / block)
    d.kv_blocks = blocks
    d.kv_bytes_per_token = block * per_token
    d.kv_bytes_per_request = block * fixed
    d.kv_bytes_longest_request = block * request
    d.max_concurrency = blocks / request
    if version(p) >= VLLM_CONCURRENCY_TOKENS:
        d.kv_capacity_tokens = np.floor(d.max_concurrency * tokens)
    else:
        d.kv_capacity_tokens = np.floor(blocks / groups) * printed


@kernel
def sglang_capacity(pool_bytes, layer_share, p, d):
    """SGLang's capacity: one pool of full-attention tokens; window and state pools in fixed proportion to it.

    full tokens t:  pool = t (full + 0.8 window) bytes,  pool = 1.9 t full bytes with linear attention.
    """
    pool = max(0.0, pool_bytes)
    full, window, linear = layers_by_kind(p)
    tokens = d.max_model_len
    d.kv_bytes_per_token, d.kv_bytes_per_request = two_part_layout(tokens, layer_share, p, d)
    per_token = d.kv_bytes_per_token
    if window > 0.0:
        per_token = full * full_token_bytes(p, d) * layer_share
        per_token += SGLANG_WINDOW_SHARE * window * window_token_bytes(p, d) * layer_share
    requests = 1e18
    if linear > 0.0:
        states = pool * SGLANG_STATE_RATIO / (1.0 + SGLANG_STATE_RATIO)
        requests = states / (linear * state_bytes(p) * layer_share)
        pool -= states
    d.kv_capacity_tokens = np.floor(pool / per_token) if per_token > 0.0 else requests * tokens
    d.kv_blocks = d.kv_capacity_tokens
    d.kv_bytes_longest_request = tokens * d.kv_bytes_per_token + d.kv_bytes_per_request
    d.max_concurrency = min(d.kv_capacity_tokens / tokens, requests)


@kernel
def pooled_capacity(pool_bytes, layer_share, p, d):
    """TensorRT-LLM and ATOM: each kind of layer pooled by its bytes, tokens in whole blocks."""
    tokens = d.max_model_len
    whole = np.ceil(tokens / p.block_size) * p.block_size
    d.kv_bytes_per_token, d.kv_bytes_per_request = two_part_layout(tokens, layer_share, p, d)
    d.kv_bytes_longest_request = whole * d.kv_bytes_per_token + d.kv_bytes_per_request
    d.max_concurrency = max(0.0, pool_bytes) / d.kv_bytes_longest_request
    d.kv_blocks = np.floor(d.max_concurrency * whole / p.block_size)
    d.kv_capacity_tokens = d.kv_blocks * p.block_size


@kernel
def kv_capacity(pool_bytes, layer_share, p, d):
    """Fill the KV columns of `d` for a pool of `pool_bytes` on a GPU that holds `layer_share` of the layers.

    Tokens are what one DP rank prints as its KV cache size; context parallelism splits each token over cp GPUs.
    """
    if p.engine == VLLM:
        vllm_capacity(pool_bytes * p.cp, layer_share, p, d)
    elif p.engine == SGLANG:
        sglang_capacity(pool_bytes * p.cp, layer_share, p, d)
    else:
        pooled_capacity(pool_bytes * p.cp, layer_share, p, d)
    d.kv_bytes_per_token /= p.cp
    d.kv_bytes_per_request /= p.cp
    d.kv_bytes_longest_request /= p.cp
