"""Parameter counts: the kernel against a plain twin, and against models counted by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.layout import DERIVED
from kernels.params import parameter_counts
from sweep.fields import record_dtype

LLAMA_8B = {
    "hidden_size": 4096,
    "n_layers": 32,
    "n_heads": 32,
    "n_kv_heads": 8,
    "head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 128256,
    "ffn_dim": 14336,
    "mlp_matrices": 3,
    "other_params": 65 * 4096,
}
DEEPSEEK_V3 = {
    "hidden_size": 7168,
    "n_layers": 61,
    "n_heads": 128,
    "n_kv_heads": 1,
    "head_dim": 192,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "ffn_dim": 18432,
    "mlp_matrices": 3,
    "n_moe_layers": 58,
    "n_experts": 256,
    "experts_per_token": 8,
    "moe_ffn_dim": 2048,
    "shared_ffn_dim": 2048,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_dim": 64,
    "qk_nope_dim": 128,
    # two norms of 7168 and norms of the two ranks per layer, the last norm, the router's bias
    "other_params": 61 * (2 * 7168 + 1536 + 512) + 7168 + 58 * 256,
}


def record(figures):
    p = np.zeros(1, record_dtype()).view(np.recarray)[0]
    for name, value in figures.items():
        p[name] = value
    return p


def counts(figures):
    d = np.zeros(1, DERIVED).view(np.recarray)[0]
    parameter_counts(record(figures), d)
    return {name: float(d[name]) for name in DERIVED.names if name.startswith("params_")}


def twin(figures):
    """The same counts from matrix shapes, layer by layer."""
    m = dict.fromkeys(record_dtype().names, 0) | figures
    h = m["hidden_size"]
    n_attention = m["n_layers"] - m["n_linear_layers"]
    n_window = min(m["n_window_layers"], n_attention)
    n_full = n_attention - n_window
    owning = 1 - min(m["n_kv_shared_layers"], n_attention) / n_attention if n_attention else 1

    def size(*shapes):
        return sum(int(np.prod(shape)) for shape in shapes)

    def gqa(kv_heads, qk, v, k_is_v):
        q_and_out = size((h, m["n_heads"] * qk * (1 + m["attn_output_gate"])), (m["n_heads"] * v, h))
        return q_and_out + owning * size((h, kv_heads * qk), *([] if k_is_v else [(h, kv_heads * v)]))

    if m["kv_lora_rank"]:
        q_width = m["n_heads"] * (m["qk_nope_dim"] + m["qk_rope_dim"])
        rank = m["q_lora_rank"]
        full = size(
            *([(h, rank), (rank, q_width)] if rank else [(h, q_width)]),
            (h, m["kv_lora_rank"] + m["qk_rope_dim"]),
            (m["kv_lora_rank"], m["n_heads"] * (m["qk_nope_dim"] + m["v_head_dim"])),
            (m["n_heads"] * m["v_head_dim"], h),
        ) + m["attn_output_gate"] * size((h, m["n_heads"] * m["v_head_dim"]))
    else:
        full = gqa(m["n_kv_heads"], m["head_dim"], m["v_head_dim"], m["k_is_v"])
    window_dim = m["window_head_dim"]
    window = gqa(
        m["window_n_kv_heads"] or m["n_kv_heads"],
        window_dim or m["head_dim"],
        window_dim or m["v_head_dim"],
        False,
    )
    k_width = m["linear_k_heads"] * m["linear_k_dim"]
    v_width = m["linear_v_heads"] * m["linear_v_dim"]
    linear = size((h, k_width), (h, k_width), (h, v_width), (h, v_width), (v_width, h))
    indexer = size(
        (m["q_lora_rank"] or h, m["index_heads"] * m["index_head_dim"]),
        (h, m["index_head_dim"]),
        (h, m["index_heads"]),
    )
    latent = m["moe_hidden_dim"]
    attn = n_full * full + n_window * window + m["n_linear_layers"] * linear + m["n_index_layers"] * indexer
    mlp_layers = m["n_layers"] - m["n_moe_layers"] - m["n_mlp_free_layers"]
    mlp = mlp_layers * m["mlp_matrices"] * size((h, m["ffn_dim"]))
    expert = m["mlp_matrices"] * size((latent or h, m["moe_ffn_dim"]))
    experts = m["n_moe_layers"] * m["n_experts"] * expert
    shared = m["n_moe_layers"] * (
        m["mlp_matrices"] * size((h, m["shared_ffn_dim"])) + size((h, latent), (latent, h))
    )
    router = m["n_moe_layers"] * size((h, m["n_experts"]))
    vocab = size((m["vocab_size"], h))
    rest = attn + mlp + shared + router + m["other_params"]
    return {
        "params_attn": attn,
        "params_mlp": mlp,
        "params_experts": experts,
        "params_shared": shared,
        "params_router": router,
        "params_embed": vocab,
        "params_head": 0 if m["tied_embeddings"] else vocab,
        "params_other": m["other_params"],
        "params_total": rest + experts + vocab + (0 if m["tied_embeddings"] else vocab),
        "params_active": rest + m["n_moe_layers"] * m["experts_per_token"] * expert + vocab,
    }


@st.composite
def architectures(draw):
    def some(low, high):
        return draw(st.integers(low, high))

    layers = some(1, 80)
    linear = some(0, layers)
    moe = some(0, layers)
    return {
        "hidden_size": 64 * some(1, 128),
        "n_layers": layers,
        "n_heads": some(1, 128),
        "n_kv_heads": some(1, 16),
        "head_dim": some(1, 512),
        "v_head_dim": some(1, 512),
        "vocab_size": some(1, 262144),
        "ffn_dim": some(0, 53248),
        "mlp_matrices": some(2, 3),
        "tied_embeddings": some(0, 1),
        "attn_output_gate": some(0, 1),
        "n_moe_layers": moe,
        "n_mlp_free_layers": some(0, layers - moe),
        "n_experts": some(1, 512),
        "experts_per_token": some(1, 16),
        "moe_ffn_dim": some(0, 8192),
        "moe_hidden_dim": some(0, 1) * some(1, 4096),
        "shared_ffn_dim": some(0, 8192),
        "kv_lora_rank": some(0, 1) * some(1, 512),
        "q_lora_rank": some(0, 1) * some(1, 2048),
        "qk_rope_dim": some(0, 64),
        "qk_nope_dim": some(0, 256),
        "n_window_layers": some(0, layers),
        "window_n_kv_heads": some(0, 16),
        "window_head_dim": some(0, 512),
        "n_kv_shared_layers": some(0, layers),
        "k_is_v": some(0, 1),
        "n_linear_layers": linear,
        "linear_k_heads": some(0, 64),
        "linear_v_heads": some(0, 64),
        "linear_k_dim": some(0, 128),
        "linear_v_dim": some(0, 128),
        "n_index_layers": some(0, layers),
        "index_heads": some(0, 64),
        "index_head_dim": some(0, 128),
        "other_params": some(0, 10**9),
    }


@settings(max_examples=200, deadline=None)
@given(architectures())
def test_the_kernel_counts_what_the_matrix_shapes_add_up_to(figures):
    got = counts(figures)
    for name, expected in twin(figures).items():
        assert got[name] == pytest.approx(expected, rel=1e-12), name


def test_llama_3_1_8b_has_exactly_its_published_parameters():
    assert counts(LLAMA_8B)["params_total"] == 8_030_261_248


def test_deepseek_v3_has_671_billion_parameters_of_which_37_are_active():
    got = counts(DEEPSEEK_V3)
    assert got["params_total"] == 671_026_419_200
    assert got["params_active"] == pytest.approx(37e9, rel=0.02)


def test_a_tied_head_is_counted_once_and_still_multiplied():
    tied = counts(LLAMA_8B | {"tied_embeddings": 1})
    assert tied["params_total"] == counts(LLAMA_8B)["params_total"] - 128256 * 4096
    assert tied["params_head"] == 0
    assert tied["params_active"] == counts(LLAMA_8B)["params_active"]
