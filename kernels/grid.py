"""Mixed-radix grids: a row number decodes to one choice per axis, and only what changed is computed again.

Axis a owns the input columns `axis_fields[field_start[a]:field_start[a + 1]]` and a table of its choices, row-major in
`axis_values` from `value_start[a]`. The last axis varies fastest. What depends on outer axes only (shards, memory)
is resolved again only when one of its inputs changed.
"""

import numpy as np

from kernels import reasons
from kernels.borrow import borrowed
from kernels.evaluate import evaluate
from kernels.jit import kernel
from kernels.layout import RESULT_INDEX
from kernels.priced import forget
from kernels.resolve import resolve

FIRST_AFTER_MEMORY = RESULT_INDEX["ttft_ms"]


@kernel
def write_choice(axis, digit, field_start, axis_fields, value_start, axis_values, flat):
    """Write the columns of one axis's choice into the flat input vector."""
    n = field_start[axis + 1] - field_start[axis]
    base = value_start[axis] + digit * n
    for k in range(n):
        flat[axis_fields[field_start[axis] + k]] = axis_values[base + k]


@kernel
def decode_row(row, radices, digits):
    """Digits of a row number, last axis fastest."""
    for axis in range(radices.shape[0] - 1, -1, -1):
        digits[axis] = row % radices[axis]
        row //= radices[axis]


@kernel
def next_row(radices, digits):
    """Advance `digits` by one row; returns the slowest axis that moved."""
    axis = radices.shape[0] - 1
    while axis > 0 and digits[axis] + 1 == radices[axis]:
        digits[axis] = 0
        axis -= 1
    digits[axis] += 1
    return axis


@kernel
def keep_finite(o, flat):
    """No infinity leaves the kernel, and an answer that is no number becomes a reason: inputs contradict each other.

    `flat` is the memory of the result `o`. What is unknown by design (a cost without a price) is NaN in sound answers too.
    """
    sound = np.isfinite(o.ttft_ms) and np.isfinite(o.tpot_ms) and np.isfinite(o.output_tok_s_per_gpu)
    for k in range(flat.shape[0]):
        if np.isinf(flat[k]):
            flat[k] = np.nan
            sound = False
    if o.reason == reasons.OK and not sound:
        o.reason = reasons.NO_FINITE_ANSWER
        flat[FIRST_AFTER_MEMORY:] = np.nan


@kernel
def evaluate_rows(
    inputs,
    flat,
    derived,
    pools,
    pools_d,
    steps,
    replays,
    field_start,
    axis_fields,
    value_start,
    axis_values,
    radices,
    resolving,
    repricing,
    fitted,
    start,
    stop,
    results,
    results_flat,
):
    """Evaluate rows [start, stop) of a grid into `results` (RESULT records; `results_flat` is the same memory, 2-D).

    `inputs` is one input record holding the base values and `flat` the same memory as a vector; `derived`, `pools` (2),
    `pools_d` (2), `steps` (2), `replays` (1) are scratch. `resolving[a]` says whether axis a changes what `resolve` reads,
    `repricing[a]` whether it changes what the step model reads.
    `fitted` has shape (hardware, engine, N_OPS, N_COEF).
    """
    n_axes = radices.shape[0]
    digits = np.zeros(n_axes, np.int64)
    p = inputs[0]
    d = derived[0]
    fitted, pools, pools_d, steps = borrowed(fitted), borrowed(pools), borrowed(pools_d), borrowed(steps)
    flat, results, results_flat = borrowed(flat), borrowed(results), borrowed(results_flat)
    decode_row(start, radices, digits)
    moved = 0
    for row in range(start, stop):
        stale = row == start
        unpriced = row == start
        for axis in range(moved, n_axes):
            if radices[axis] > 1 or row == start:
                write_choice(axis, digits[axis], field_start, axis_fields, value_start, axis_values, flat)
                stale = stale or resolving[axis]
                unpriced = unpriced or repricing[axis]
        if stale:
            resolve(p, d)
        if unpriced:
            forget(steps[0])
        c = fitted[int(p.architecture_index), int(p.hardware_index), int(p.engine)]
        i = row - start
        if not stale and d.reason != reasons.OK and p.disaggregate <= 0.0:
            # The deployment cannot run, so no load on it can: the verdict of the row before, unchanged
            results_flat[i] = results_flat[i - 1]
        else:
            results_flat[i] = np.nan
            evaluate(p, d, pools, pools_d, c, steps, replays[0], results[i])
            keep_finite(results[i], results_flat[i])
        if row + 1 < stop:
            moved = next_row(radices, digits)


@kernel
def evaluate_records(inputs, derived, pools, pools_d, steps, replays, fitted, results, results_flat):
    """Evaluate input records one by one (tables of points): results[i] and derived[i] belong to inputs[i]."""
    fitted, pools, pools_d, steps = borrowed(fitted), borrowed(pools), borrowed(pools_d), borrowed(steps)
    for i in range(inputs.shape[0]):
        p = inputs[i]
        resolve(p, derived[i])
        forget(steps[0])
        c = fitted[int(p.architecture_index), int(p.hardware_index), int(p.engine)]
        results_flat[i] = np.nan
        evaluate(p, derived[i], pools, pools_d, c, steps, replays[0], results[i])
        keep_finite(results[i], results_flat[i])
