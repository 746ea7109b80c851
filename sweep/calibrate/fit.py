"""Least-squares fit of one operator's coefficients.

Residuals are logarithms of modelled over measured time under a soft-L1 loss (a table's outliers and regime
changes must not bend the curve), bounded so that no operator beats its roofline. Deterministic: fixed seeds,
one thread, coefficients rounded to 5 significant digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.coefficients import roofline_coefficients
from sweep.calibrate.samples import Floats, Samples, above_roofline, times_us
from sweep.catalog.fitted import OPS, operator_class

SEED = 20260
MOST_POINTS = 6000
FOLDS = 3
LOSS_SCALE = 0.1
"""Log error from which a point counts less than its square."""
SIGNIFICANT_DIGITS = 5
NEAR_BOUND = 1e-3
"""Share of a column's typical size within which a value is its lower bound."""

Start = tuple[float, float, float]
"""Start, lower and upper bound of one coefficient."""
EFFICIENCY: Start = (0.6, 0.02, 1.0)
BANDWIDTH: Start = (0.8, 0.05, 1.0)
OVERHEAD: Start = (4.0, 0.0, 150.0)
EXPOSED: Start = (0.3, 0.0, 1.0)

COLUMNS: Mapping[str, tuple[Start, ...]] = {
    "gemm": (
        *(EFFICIENCY, BANDWIDTH, OVERHEAD, EXPOSED),
        *((20.0, 0.0, 2000.0), (200.0, 0.0, 20000.0), (50.0, 0.0, 5000.0), (1.0, 0.0, 60.0)),
    ),
    "prefill": (
        *(EFFICIENCY, BANDWIDTH, OVERHEAD, EXPOSED),
        *((100.0, 0.0, 2000.0), (60.0, 0.0, 2000.0), (80.0, 0.0, 1000.0), (1.5, 1.0, 100.0)),
    ),
    "decode": (
        *(EFFICIENCY, BANDWIDTH, OVERHEAD, EXPOSED),
        *((4.0, 0.0, 800.0), (0.01, 0.0, 5.0), (2.0, 1.0, 100.0), (0.05, 0.0, 5.0)),
    ),
    "linear": (*(EFFICIENCY, BANDWIDTH, OVERHEAD, EXPOSED), (1.0, 0.0, 1000.0), (30.0, 0.0, 1000.0)),
    "moe": (
        *(EFFICIENCY, BANDWIDTH, (20.0, 0.0, 300.0), EXPOSED),
        *((20.0, 0.0, 600.0), (2000.0, 0.0, 400000.0), (1.5, 1.0, 100.0), (0.5, 0.0, 100.0)),
        *((50.0, 0.0, 4000.0), (5.0, 0.0, 100.0)),
    ),
    "elementwise": ((1.0, 1.0, 1.0), BANDWIDTH, OVERHEAD),
}
"""Per operator class: start and bounds of every column; equal bounds fix a column."""

CASTLESS = ("gemm_bf16", "gemm_int4_wo")
"""GEMMs that take the activation as it is: no cast passes."""
CAST_COLUMN = 7

STREAMING = ("decode_gqa", "decode_gqa_fp8_kv")
STREAMING_COMPUTE: tuple[tuple[int, float, float], ...] = ((0, 0.15, 1.0), (4, 0.0, 64.0))
"""(column, lower, upper): decode of grouped queries streams its cache. Without these bounds a fit may explain slow
streams by slow compute, which goes wrong on an accelerator with another ratio of the two."""

COMMON_COLUMNS = 3
FEW_POINTS = 80
"""Below so many points only efficiencies and overhead are fitted; the operator's own columns are a relative's."""
FEWEST_POINTS = 15
ERRATIC = 0.3
"""Held-out median above which a table follows no curve (kernels that an engine never tuned for the accelerator)."""
USELESS = 0.45
"""Held-out 90th percentile above which a table of few points says less than a relative does."""


@dataclass(frozen=True)
class Errors:
    """Absolute log errors of a fit: median and 90th percentile, in sample and on held-out groups."""

    median: float
    p90: float
    held_out_median: float
    held_out_p90: float
    bias: float
    points: int


@dataclass(frozen=True)
class Fit:
    """One operator's coefficients (N_COEF,) and how well they do."""

    hardware: str
    engine: str
    op: str
    coefficients: tuple[float, ...]
    errors: Errors
    source: str


def bounds(op: str) -> tuple[Floats, Floats, Floats]:
    """(start, lower, upper) of an operator's columns."""
    start, low, high = (np.array(column) for column in zip(*COLUMNS[operator_class(op)], strict=True))
    if op in CASTLESS:
        start[CAST_COLUMN] = high[CAST_COLUMN] = 0.0
    if op in STREAMING:
        for column, lower, upper in STREAMING_COMPUTE:
            low[column], high[column] = lower, upper
    return start, low, high


def scale_of(op: str) -> Floats:
    """Typical size of every column of an operator."""
    return np.maximum(np.abs(bounds(op)[0]), 1e-3)


def rounded(values: Floats) -> Floats:
    """Values to the digits that files keep."""
    return np.array([float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in values])


def with_row(op: str, row: Floats) -> Floats:
    """Ideal coefficients (N_OPS, N_COEF) with one row replaced."""
    c = roofline_coefficients()
    c[OPS[op], : len(row)] = row
    return c


def log_errors(samples: Samples, record: np.record, row: Floats) -> Floats:
    """log(modelled / measured) of every sample."""
    return np.asarray(np.log(times_us(samples, record, with_row(samples.op, row)) / samples.us))


def subsample(samples: Samples, most: int) -> Samples:
    """At most `most` samples, drawn with the fixed seed."""
    if len(samples) <= most:
        return samples
    return samples.take(np.sort(np.random.default_rng(SEED).permutation(len(samples))[:most]))


def fit_row(
    samples: Samples, record: np.record, start: Floats | None = None, common_only: bool = False
) -> Floats:
    """Coefficients of one operator, shape (N_COEF,); with `common_only` its own columns stay at `start`."""
    from scipy.optimize import least_squares

    first, low, high = bounds(samples.op)
    free = high > low
    if start is not None:
        first = np.clip(start, low, high)
        free[COMMON_COLUMNS:] &= not common_only
    chosen = subsample(samples, MOST_POINTS)
    row = first.copy()
    c = with_row(samples.op, row)
    log_us = np.log(chosen.us)

    columns = np.flatnonzero(free)

    def residuals(x: Floats) -> Floats:
        c[OPS[samples.op], columns] = x
        return np.asarray(np.log(times_us(chosen, record, c)) - log_us)

    found = least_squares(
        residuals,
        first[free],
        bounds=(low[free], high[free]),
        loss="soft_l1",
        f_scale=LOSS_SCALE,
        x_scale=scale_of(samples.op)[free],
        max_nfev=200,
    )
    row[free] = found.x
    at_bound = free & (row - low < NEAR_BOUND * scale_of(samples.op))
    return np.clip(rounded(np.where(at_bound, low, row)), low, high)


def held_out_errors(samples: Samples, record: np.record, start: Floats, common_only: bool) -> Floats:
    """Log errors of each sample under a fit that never saw its group."""
    labels = np.unique(samples.groups)
    fold_of = np.random.default_rng(SEED).permutation(len(labels)) % FOLDS
    errors = np.full(len(samples), np.nan)
    for fold in range(FOLDS):
        held = np.isin(samples.groups, labels[fold_of == fold])
        if held.all() or not held.any():
            continue
        row = fit_row(samples.take(~held), record, start, common_only)
        errors[held] = log_errors(samples.take(held), record, row)
    return np.asarray(errors[np.isfinite(errors)])


def fit_operator(samples: Samples, record: np.record, relative: Floats | None = None) -> Fit | None:
    """Fit one operator; None where its table leaves too little above the roofline, or follows no curve.

    `relative` is the row of an accelerator with a fuller table, for the columns that few points cannot tell.
    """
    samples = above_roofline(samples, record)
    if len(samples) < FEWEST_POINTS:
        return None
    common_only = len(samples) < FEW_POINTS
    if common_only and relative is None:
        relative = bounds(samples.op)[0]
    row = fit_row(samples, record, relative if common_only else None, common_only)
    errors = log_errors(samples, record, row)
    held_out = held_out_errors(samples, record, row, common_only)
    if not held_out.size:
        held_out = errors
    summary = Errors(
        median=float(np.median(np.abs(errors))),
        p90=float(np.quantile(np.abs(errors), 0.9)),
        held_out_median=float(np.median(np.abs(held_out))),
        held_out_p90=float(np.quantile(np.abs(held_out), 0.9)),
        bias=float(np.median(errors)),
        points=len(samples),
    )
    if summary.held_out_median > ERRATIC or (common_only and summary.held_out_p90 > USELESS):
        return None
    return Fit(samples.hardware, samples.engine, samples.op, tuple(row.tolist()), summary, samples.source)
