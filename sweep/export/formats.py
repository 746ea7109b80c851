"""Number formats: which the engine can make while it loads, and which need a checkpoint of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.dtypes import NAMES
from sweep.catalog.checkpoints import bits
from sweep.catalog.models import ModelEntry, resolve_model
from sweep.errors import UserError

MADE_WHILE_LOADING = {"vllm": ("fp8",), "sglang": ("fp8",), "trtllm": ()}
"""Formats that an engine makes of a 16-bit checkpoint while it loads it."""


@dataclass(frozen=True)
class Formats:
    """Formats of the deployment. `weights` is that of the experts of a MoE model, of the linears of a dense one."""

    model: str
    weights: str
    attention: str
    kv: str
    own: bool
    """Whether every class is as the checkpoint stores it."""
    from_16_bit: bool
    """Whether the checkpoint is 16 bit throughout."""

    def needs_checkpoint(self, engine: str) -> bool:
        """Whether the person must name a checkpoint: the engine cannot make this format while it loads."""
        made = (
            self.from_16_bit and self.attention == self.weights and self.weights in MADE_WHILE_LOADING[engine]
        )
        return not (self.own or made)

    def quantised_while_loading(self, engine: str) -> bool:
        return not self.own and not self.needs_checkpoint(engine)

    def loaded_from(self, checkpoint: str) -> Formats:
        """The formats once `checkpoint` is loaded. Raises UserError where it is of another model or format."""
        entry = resolve_model(checkpoint)
        stored = str(entry.fields[_class_of(entry)])
        if (
            entry.name != self.model
            and entry.fields["hidden_size"] != resolve_model(self.model).fields["hidden_size"]
        ):
            raise UserError(
                f"is a checkpoint of {entry.name}, not of {self.model}",
                field="--checkpoint",
                value=checkpoint,
            )
        if bits(stored) != bits(self.weights):
            raise UserError(
                f"stores its weights in {stored}, the deployment has {self.weights}",
                field="--checkpoint",
                value=checkpoint,
            )
        return replace(self, own=True)

    @property
    def kv_is_16_bit(self) -> bool:
        return bits(self.kv) == 16


def formats_of(record: npt.NDArray[Any], entry: ModelEntry) -> Formats:
    """The formats that a record (shape (1,)) resolves to."""
    from kernels.layout import DERIVED
    from kernels.resolve import resolve_formats

    derived = np.zeros(1, DERIVED)
    resolve_formats(record[0], derived[0])
    d, p = derived[0], record[0]
    classes = [("attn", "attn"), ("mlp", "mlp")] if p["n_moe_layers"] < p["n_layers"] else [("attn", "attn")]
    if p["n_moe_layers"] > 0:
        classes.append(("expert", "experts"))
    stored = {theirs: NAMES[int(p[f"checkpoint_{theirs}"])] for _, theirs in classes}
    used = {theirs: NAMES[int(d[f"{ours}_dtype"])] for ours, theirs in classes}
    return Formats(
        model=entry.name,
        weights=used[_class_of(entry).removeprefix("checkpoint_")],
        attention=used["attn"],
        kv=NAMES[int(d["kv_dtype"])],
        own=used == stored,
        from_16_bit=all(bits(dtype) == 16 for dtype in stored.values()),
    )


def _class_of(entry: ModelEntry) -> str:
    """The weight class that names a checkpoint's format."""
    return "checkpoint_experts" if entry.fields["n_moe_layers"] else "checkpoint_mlp"
