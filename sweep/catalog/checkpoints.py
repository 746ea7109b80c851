"""Which checkpoint a run loads, when the run names a model and the number formats of its weights.

Logs and tables say "DeepSeek-R1, fp4" for runs of the NVFP4 checkpoint that NVIDIA makes of it, whose attention is
not NVFP4; and "gpt-oss-120b, fp4" for the one checkpoint there is. So a 4-bit label picks a checkpoint, and a
label of the width that the checkpoint has already adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from kernels.dtypes import NAMES, WIDTH_BYTES
from sweep.catalog.models import ModelEntry
from sweep.catalog.repackaged import Source, stored_formats

PACKAGER = {"nvfp4": "nvidia", "mxfp4": "amd", "int4_wo": ""}
"""Whose checkpoints are usually served in this format."""


@dataclass(frozen=True)
class Run:
    """The model whose checkpoint is loaded, and what remains to override: `linear_dtype`, `expert_dtype`."""

    model: ModelEntry
    linear_dtype: str | None
    expert_dtype: str | None


def bits(dtype: str) -> int:
    """Bits of a weight, scales apart."""
    return 4 if WIDTH_BYTES[NAMES.index(dtype)] < 0.75 else int(8 * WIDTH_BYTES[NAMES.index(dtype)])


def loaded_checkpoint(model: ModelEntry, linear: str | None, experts: str | None) -> Run:
    """What a run of `model` with weights in `linear` and `experts` (None: the checkpoint's own) loads."""
    is_moe = model.fields["n_moe_layers"] > 0
    own = model.fields["checkpoint_experts" if is_moe else "checkpoint_mlp"]
    wanted = (experts or linear) if is_moe else linear
    if wanted is None:
        return Run(model, linear, experts)
    native_fp4 = own in ("mxfp4", "nvfp4") and wanted in ("mxfp4", "nvfp4")
    if wanted in PACKAGER and wanted != own and not native_fp4:
        model = _repackaged(model, wanted)
    if experts is not None and bits(experts) == bits(model.fields["checkpoint_experts"]):
        experts = None
    attention = model.fields["checkpoint_attn"]
    if linear is not None and (bits(linear) == bits(attention) or (bits(linear) == 4 and wanted in PACKAGER)):
        linear = None
    return Run(model, linear, experts)


def _repackaged(model: ModelEntry, dtype: str) -> ModelEntry:
    """The model as the usual checkpoint in `dtype` stores it."""
    # DeepSeek is served from the second revision (R1-0528-NVFP4-v2, V3.1), others from the first.
    revision = 2 if model.fields["model_family"] == "deepseek" else 1
    stored = stored_formats(model.fields, dtype, Source(PACKAGER[dtype], model.name, revision))
    return replace(model, fields=MappingProxyType({**model.fields, **stored}))
