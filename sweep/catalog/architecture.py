"""What a model is to the engine layer: the numbers of its architecture, never its name.

Fine-tunes and repackaged checkpoints of one architecture share a label; a model that nobody measured has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

PARTS = (
    ("l", "n_layers"),
    ("h", "hidden_size"),
    ("q", "n_heads"),
    ("kv", "n_kv_heads"),
    ("e", "n_experts"),
    ("k", "experts_per_token"),
    ("mla", "kv_lora_rank"),
    ("sparse", "n_sparse_layers"),
    ("linear", "n_linear_layers"),
    ("window", "n_window_layers"),
)
"""Prefix and `model.*` field of every part of a label; parts that are zero are left out."""


def architecture(fields: Mapping[str, Any]) -> str:
    """Label of a model's architecture from its `model.*` fields by short name, like `l61-h7168-q128-kv128-e256-k8-mla512`."""
    values = ((prefix, float(fields[name] or 0.0)) for prefix, name in PARTS)
    return "-".join(f"{prefix}{value:g}" for prefix, value in values if value > 0.0)


def architecture_codes(records: npt.NDArray[Any], known: Sequence[str]) -> npt.NDArray[np.int64]:
    """Place in `known` (whose first entry stands for every other architecture) of each input record, shape (n,)."""
    names = [name for _, name in PARTS]
    shapes = np.stack([np.nan_to_num(records[name]) for name in names], axis=1)
    distinct, which = np.unique(shapes, axis=0, return_inverse=True)
    places = {label: i for i, label in enumerate(known)}
    codes = np.array(
        [places.get(architecture(dict(zip(names, shape, strict=True))), 0) for shape in distinct], np.int64
    )
    return codes[which.ravel()]
