"""What the step charges for the rarer features of an architecture."""

import numpy as np
import pytest

from kernels.coefficients import roofline_coefficients
from kernels.layout import PART_ATTENTION, PART_GEMM, PART_MOE
from kernels.priced import PRICED
from kernels.step import step_us
from tests.kernels.deployments import LATENT, MOE, derived, record

C = roofline_coefficients()


def decode(context=4096.0, batch=32.0, **figures):
    p = record(**figures)
    s = np.zeros(1, PRICED)
    step_us(p[0], derived(p)[0], C, batch, batch * context, 1.0, 0.0, 0.0, 0.0, s[0])
    return s["parts"][0]


def bytes_us(n_bytes, gb_s=3350e9):
    return 1e6 * n_bytes / gb_s


def test_layers_without_an_mlp_are_charged_for_none():
    p = record()
    layers, hidden, ffn = (float(p[k][0]) for k in ("n_layers", "hidden_size", "ffn_dim"))
    with_mlp, without = decode(), decode(n_mlp_free_layers=layers)
    weights = layers * 3 * hidden * ffn * 2
    assert with_mlp[PART_GEMM] - without[PART_GEMM] == pytest.approx(bytes_us(weights), rel=0.05)


def test_latent_experts_are_narrower_and_their_projections_are_paid_for():
    hidden = float(record(**MOE)["hidden_size"][0])
    plain, latent = decode(**MOE), decode(**MOE, moe_hidden_dim=hidden / 4)
    assert latent[PART_MOE] == pytest.approx(plain[PART_MOE] / 4, rel=0.1)
    assert latent[PART_GEMM] > plain[PART_GEMM]


def test_one_projection_for_key_and_value_saves_the_gemm_and_not_the_cache():
    plain, shared = decode(), decode(k_is_v=True)
    assert shared[PART_GEMM] < plain[PART_GEMM]
    assert shared[PART_ATTENTION] == plain[PART_ATTENTION]


def test_narrower_values_shrink_the_cache_that_decode_reads():
    plain, narrow = decode(), decode(v_head_dim=float(record()["head_dim"][0]) / 2)
    assert narrow[PART_ATTENTION] == pytest.approx(0.75 * plain[PART_ATTENTION], rel=0.05)


def sparse(n_index_layers):
    layers = 60
    return decode(
        context=65536.0,
        **LATENT,
        n_sparse_layers=layers,
        sparse_topk=2048.0,
        n_index_layers=n_index_layers,
        index_heads=32.0,
        index_head_dim=128.0,
    )


def test_layers_that_reuse_an_indexers_choice_do_not_score_again():
    every, quarter, none = sparse(60), sparse(15), sparse(0)
    scoring = every[PART_ATTENTION] - none[PART_ATTENTION]
    assert scoring > 0
    assert quarter[PART_ATTENTION] - none[PART_ATTENTION] == pytest.approx(scoring / 4, rel=1e-9)
    assert every[PART_GEMM] > quarter[PART_GEMM] > none[PART_GEMM]


def test_tensor_parallelism_does_not_shard_the_indexer():
    def scoring(tp):
        figures = LATENT | {"tp": tp, "n_sparse_layers": 60.0, "sparse_topk": 2048.0, "index_head_dim": 128.0}
        with_indexer = decode(context=65536.0, **figures, n_index_layers=60.0, index_heads=32.0)
        without = decode(context=65536.0, **figures, n_index_layers=0.0, index_heads=32.0)
        return with_indexer[PART_ATTENTION] - without[PART_ATTENTION]

    assert scoring(4.0) == pytest.approx(scoring(1.0), rel=1e-9)
