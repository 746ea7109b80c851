"""Small deployments that kernel tests share: a dense model, a MoE and an MLA MoE on an H100."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.coefficients import roofline_coefficients
from kernels.layout import DERIVED
from kernels.resolve import resolve
from sweep.catalog.engine_layer import known_architectures
from sweep.catalog.hardware import hardware
from sweep.records import default_records, set_values

DENSE: dict[str, object] = {}
MOE: dict[str, object] = {
    "hidden_size": 2048,
    "n_layers": 48,
    "n_heads": 32,
    "n_kv_heads": 4,
    "ffn_dim": 6144,
    "n_moe_layers": 48,
    "n_experts": 128,
    "experts_per_token": 8,
    "moe_ffn_dim": 768,
    "vocab_size": 151936,
}
LATENT: dict[str, object] = {
    "hidden_size": 7168,
    "n_layers": 61,
    "n_heads": 128,
    "n_kv_heads": 1,
    "head_dim": 192,
    "v_head_dim": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_dim": 64,
    "qk_nope_dim": 128,
    "ffn_dim": 18432,
    "n_moe_layers": 58,
    "n_experts": 256,
    "experts_per_token": 8,
    "moe_ffn_dim": 2048,
    "shared_ffn_dim": 2048,
    "vocab_size": 129280,
    "checkpoint_attn": "fp8_block",
    "checkpoint_mlp": "fp8_block",
    "checkpoint_experts": "fp8_block",
    "checkpoint_shared": "fp8_block",
}


def record(hardware_name: str = "h100_sxm", **values: object) -> Any:
    """One input record (a length-1 array) on an accelerator of the catalogue."""
    records = default_records(1)
    set_values(records[0], {**hardware(hardware_name).fields, **values})
    records["hardware_index"] = 0
    records["architecture_index"] = 0
    return records


def derived(records: Any) -> Any:
    """The derived record of an input record, as a length-1 array."""
    out = np.zeros(1, DERIVED)
    resolve(records[0], out[0])
    return out


def roofline() -> Any:
    """Ideal coefficients for every architecture, one accelerator and all engines: (n, 1, 4, N_OPS, N_COEF)."""
    one = roofline_coefficients()
    return np.broadcast_to(one, (len(known_architectures()), 1, 4, *one.shape)).copy()
