"""How far back attention looks: windows and sparse top-k, of the architecture or as the user overrides them."""

import numpy as np

from kernels.auto import default_to, given
from kernels.jit import inlined
from kernels.params import attention_layers


@inlined
def window_tokens(p):
    """Length of the window; 0 = none."""
    return default_to(p.sliding_window, p.window_tokens)


@inlined
def window_layers(p):
    """Layers bounded by the window: the given share of the attention layers, the architecture's, or all where it has none."""
    layers = attention_layers(p)
    if window_tokens(p) <= 0.0:
        return 0.0
    if given(p.sliding_window_layer_fraction):
        return np.floor(p.sliding_window_layer_fraction * layers + 0.5)
    if given(p.sliding_window) and p.n_window_layers <= 0.0:
        return layers
    return min(p.n_window_layers, layers)


@inlined
def sparse_topk(p):
    """Tokens that sparse attention reads per query; 0 = dense."""
    return default_to(p.sparse_attention_topk, p.sparse_topk)


@inlined
def sparse_layers(p):
    """Layers with sparse attention: the architecture's, or all that have no window where only a top-k is given."""
    if sparse_topk(p) <= 0.0:
        return 0.0
    if p.n_sparse_layers > 0.0:
        return p.n_sparse_layers
    return attention_layers(p) - window_layers(p)
