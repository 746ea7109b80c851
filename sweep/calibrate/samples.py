"""Measured operator times in the one form that the fit reads, whatever file they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels import coefficients, samples
from sweep.catalog.fitted import OPS
from sweep.errors import UserError, nearest

Floats = npt.NDArray[np.float64]

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "prefill": (
        "n_seqs",
        "new_tokens",
        "prior_tokens",
        "heads",
        "kv_heads",
        "qk_dim",
        "v_dim",
        "window",
        "kv_width",
    ),
    "decode": ("n_seqs", "context_tokens", "queries", "heads", "kv_heads", "qk_dim", "v_dim", "kv_width"),
    "linear": ("n_seqs", "new_tokens", "v_heads", "k_dim", "v_dim", "state_width"),
    "moe": ("pairs", "routings", "touched", "hidden", "ffn", "matrices"),
    "elementwise": ("n_bytes",),
}
"""Columns of `shapes` by operator class, as `kernels.samples` reads them."""

BELOW_LIMIT = 0.97
"""A time below this share of the roofline is a cache effect or an error of the table, not a kernel to model."""


@dataclass(frozen=True)
class Samples:
    """Measured calls of one operator on one accelerator with one engine.

    `shapes` (n, arguments of the class), `us` (n,) microseconds, `groups` (n,) what is held out together: a
    weight shape, an attention geometry, a model.
    """

    hardware: str
    engine: str
    op: str
    shapes: Floats
    us: Floats
    groups: npt.NDArray[np.int64]
    source: str

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise UserError("is no operator", field="op", value=self.op, near=nearest(self.op, OPS))

    def __len__(self) -> int:
        return len(self.us)

    def take(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Samples:
        """The samples at a mask or at indices."""
        return Samples(
            self.hardware,
            self.engine,
            self.op,
            self.shapes[chosen],
            self.us[chosen],
            self.groups[chosen],
            self.source,
        )


def group_labels(columns: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.int64]:
    """One integer per distinct combination of the columns, in sorted order."""
    _, labels = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    return np.asarray(labels, np.int64).reshape(-1)


def times_us(samples_: Samples, record: np.record, c: Floats) -> Floats:
    """Times that the kernels give for the samples with coefficients `c` (N_OPS, N_COEF), us."""
    out = np.empty(len(samples_))
    samples.sample_times_us(OPS[samples_.op], samples_.shapes, record, c, out)
    return out


def above_roofline(samples_: Samples, record: np.record) -> Samples:
    """Samples without the points that beat the accelerator's own limits."""
    limit = times_us(samples_, record, coefficients.roofline_coefficients())
    return samples_.take(samples_.us >= BELOW_LIMIT * limit)
