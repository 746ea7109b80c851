"""GEMMs around attention cores on one rank.

MHA/GQA: fused QKV and output. MLA: down-projections replicated, up-projections by heads; prefill expands the latent of
the whole context, decode absorbs it (two batched products per head). Sparse layers add their indexer's, replicated.
"""

from kernels.attention_layers import N_KINDS, SPARSE, WINDOW, index_share, layers_of, shape_of
from kernels.dtypes import BFLOAT16
from kernels.gemm import gemm_us
from kernels.jit import inlined

BF16 = float(BFLOAT16)


@inlined
def grouped_projections_us(kind, tokens, p, d, c):
    """QKV and output of one MHA/GQA layer, us. Outside windows a key's projection may make the value too (k_is_v)."""
    kv_heads, head_dim, v_head_dim = shape_of(kind, p, d)
    projected = 0.0 if p.k_is_v > 0.0 and kind != WINDOW else v_head_dim
    q_width = d.heads_local * head_dim * (2.0 if p.attn_output_gate > 0.0 else 1.0)
    kv_width = kv_heads * (head_dim + projected)
    out_width = d.heads_local * (projected if projected > 0.0 else head_dim)
    t = gemm_us(tokens, q_width + kv_width, p.hidden_size, d.attn_dtype, p, c)
    return t + gemm_us(tokens, p.hidden_size, out_width, d.attn_dtype, p, c)


@inlined
def latent_projections_us(tokens, p, d, c):
    """Down, query and output projections of one MLA layer, us."""
    latent = p.kv_lora_rank + p.qk_rope_dim
    q_rank = p.q_lora_rank if p.q_lora_rank > 0.0 else p.hidden_size
    t = gemm_us(tokens, p.q_lora_rank + latent, p.hidden_size, d.attn_dtype, p, c)
    t += gemm_us(tokens, d.heads_local * (p.qk_nope_dim + p.qk_rope_dim), q_rank, d.attn_dtype, p, c)
    return t + gemm_us(tokens, p.hidden_size, d.heads_local * p.v_head_dim, d.attn_dtype, p, c)


@inlined
def latent_context_us(prefill_context, decode_tokens, p, d, c):
    """Expanding `prefill_context` latents and absorbing those of `decode_tokens` in all MLA layers, us; else 0."""
    if p.kv_lora_rank <= 0.0:
        return 0.0
    width = d.heads_local * (p.qk_nope_dim + p.v_head_dim)
    t = gemm_us(prefill_context, width, p.kv_lora_rank, d.attn_dtype, p, c)
    t += gemm_us(decode_tokens, width, p.kv_lora_rank, BF16, p, c)
    return (d.full_layers + d.window_layers) * t


@inlined
def indexer_projections_us(tokens, p, d, c):
    """Projections of the indexer of a sparse layer, replicated on every rank, us (mean over the sparse layers)."""
    query_in = p.q_lora_rank if p.q_lora_rank > 0.0 else p.hidden_size
    t = gemm_us(tokens, p.index_heads * p.index_head_dim, query_in, d.attn_dtype, p, c)
    t += gemm_us(tokens, p.index_head_dim + p.index_heads, p.hidden_size, BF16, p, c)
    return index_share(p) * t


@inlined
def projections_us(tokens, p, d, c):
    """What depends on the number of tokens alone, of all layers with an attention core, us."""
    t = 0.0
    if p.kv_lora_rank > 0.0:
        t += (d.full_layers + d.window_layers) * latent_projections_us(tokens, p, d, c)
    else:
        for kind in range(N_KINDS):
            if layers_of(kind, d) > 0.0:
                t += layers_of(kind, d) * grouped_projections_us(kind, tokens, p, d, c)
    if layers_of(SPARSE, d) > 0.0:
        t += layers_of(SPARSE, d) * indexer_projections_us(tokens, p, d, c)
    return t
