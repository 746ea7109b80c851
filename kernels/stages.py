"""Pipeline stages: which layers each holds."""

import numpy as np

from kernels.jit import inlined

FIRST, MIDDLE, LAST = range(3)
"""Kinds of stage: the first holds the embedding, the last the LM head, a middle one the most layers."""


@inlined
def stage_layers(stage, p):
    """Layers of one kind of stage: n_layers // pp each, the remainder one by one on the stages before the last."""
    base = np.floor(p.n_layers / p.pp)
    rest = p.n_layers - base * p.pp
    if p.pp <= 1.0 or stage == LAST:
        return base
    if stage == FIRST:
        return base + 1.0 if rest >= p.pp - 1.0 else base
    return base + 1.0 if rest >= 1.0 else base


@inlined
def stage_exists(stage, p):
    """One stage is first and last at once and is called LAST; middle ones exist from three stages on."""
    if stage == LAST:
        return True
    return p.pp >= 2.0 if stage == FIRST else p.pp >= 3.0


@inlined
def stage_moe_layers(stage, p):
    """MoE layers of one kind of stage.

    Few dense layers lead the model (DeepSeek, GLM) and sit on the first stage; many alternate with the MoE
    layers (Llama 4 Maverick) and every stage has its share.
    """
    layers = stage_layers(stage, p)
    dense = p.n_layers - p.n_moe_layers
    if p.pp <= 1.0 or 4.0 * dense > p.n_layers:
        return layers * p.n_moe_layers / p.n_layers
    if stage == FIRST:
        return max(0.0, layers - dense)
    return min(layers, p.n_moe_layers)
