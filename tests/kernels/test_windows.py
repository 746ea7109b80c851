"""Windows and sparse top-k: the architecture's, or as the user overrides them."""

from __future__ import annotations

import pytest

from kernels.windows import sparse_layers, sparse_topk, window_layers, window_tokens
from tests.deployments import record_of

GPT_OSS = {"model": "gpt_oss_120b"}


@pytest.mark.parametrize(
    ("given", "tokens", "layers"),
    [
        ({}, 0, 0),
        ({"sliding_window": 4096}, 4096, 32),
        ({"sliding_window": 4096, "sliding_window_layer_fraction": 0.25}, 4096, 8),
        ({"sliding_window_layer_fraction": 0.25}, 0, 0),
        (GPT_OSS, 128, 18),
        ({**GPT_OSS, "sliding_window": 0}, 0, 0),
        ({**GPT_OSS, "sliding_window": 1024}, 1024, 18),
        ({**GPT_OSS, "sliding_window_layer_fraction": 1.0}, 128, 36),
    ],
)
def test_the_given_window_wins_over_the_architecture_s(
    given: dict[str, object], tokens: int, layers: int
) -> None:
    p = record_of(**given)[0]
    assert (window_tokens(p), window_layers(p)) == (tokens, layers)


@pytest.mark.parametrize(
    ("given", "topk", "layers"),
    [
        ({}, 0, 0),
        ({"sparse_attention_topk": 512}, 512, 32),
        ({**GPT_OSS, "sparse_attention_topk": 512}, 512, 18),
        ({"model": "deepseek_v3_2"}, 2048, 61),
        ({"model": "deepseek_v3_2", "sparse_attention_topk": 0}, 0, 0),
    ],
)
def test_the_given_topk_wins_over_the_architecture_s(
    given: dict[str, object], topk: int, layers: int
) -> None:
    p = record_of(**given)[0]
    assert (sparse_topk(p), sparse_layers(p)) == (topk, layers)
