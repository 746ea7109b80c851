"""MLPs and mixtures of experts of one layer on one rank."""

from kernels.dtypes import BFLOAT16
from kernels.elementwise import elementwise_us
from kernels.experts import rank_imbalance, touched_experts
from kernels.exposed import sends_to_experts
from kernels.gemm import gemm_us
from kernels.jit import inlined
from kernels.moe import moe_us

BF16 = float(BFLOAT16)


@inlined
def mlp_us(tokens, ffn, dtype, p, d, c):
    """One MLP of width `ffn` on this rank, up (and gate) and down, us: (gemm, element-wise)."""
    gemm = gemm_us(tokens, (p.mlp_matrices - 1.0) * ffn, p.hidden_size, dtype, p, c)
    gemm += gemm_us(tokens, p.hidden_size, ffn, dtype, p, c)
    return gemm, elementwise_us(p.mlp_matrices * tokens * ffn * d.act_width, p, c)


@inlined
def moe_layer_us(tokens, p, d, c):
    """Experts of one MoE layer on one rank, us: (router and shared GEMMs, routed experts, element-wise).

    `tokens` are the rank's own; the experts see those of all attention-DP ranks.
    """
    all_tokens = tokens * p.attention_dp
    gemm = gemm_us(tokens, p.n_experts, p.hidden_size, BF16, p, c)
    other = elementwise_us(8.0 * tokens * p.n_experts, p, c)
    if d.shared_ffn_local > 0.0:
        shared_gemm, shared_other = mlp_us(tokens, d.shared_ffn_local, d.shared_dtype, p, d, c)
        gemm += shared_gemm
        other += shared_other
    width = p.hidden_size
    if p.moe_hidden_dim > 0.0:  # latent MoE: projected down before the experts and up after
        width = p.moe_hidden_dim
        gemm += 2.0 * gemm_us(tokens, p.moe_hidden_dim, p.hidden_size, d.shared_dtype, p, c)
    routings = all_tokens * p.experts_per_token / d.moe_ep
    touched = touched_experts(all_tokens, p, c) / d.moe_ep
    touched = min(d.experts_local, max(touched, min(1.0, routings)))
    # An all-to-all hands a rank the pairs of its own experts; otherwise it sorts through those of all tokens
    dispatched = (p.attention_dp > 1.0 and d.moe_ep > 1.0) or sends_to_experts(p, d)
    pairs = routings if dispatched else all_tokens * p.experts_per_token
    experts = moe_us(
        pairs,
        routings,
        touched,
        width,
        d.moe_ffn_local,
        p.mlp_matrices,
        d.expert_dtype,
        rank_imbalance(p, d),
        p,
        c,
    )
    return gemm, experts, other
