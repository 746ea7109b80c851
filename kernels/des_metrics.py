"""What a simulation counts as it runs: inter-token gaps in a logarithmic histogram, intervals, steps."""

import numpy as np

from kernels.des_layout import batches, buckets, gaps, instances, step_log
from kernels.jit import internal, kernel

BINS_PER_E = 200.0
"""Histogram resolution: neighbouring bins differ by a factor exp(1/200), half a percent."""
FIRST_NS = 1000.0
"""Gaps below a microsecond fall into the first bin."""
N_BINS = 4800
"""Up to exp(24) microseconds, about 7 hours."""


@internal
def gap_bin(gap_ns):
    """Bin of a gap of `gap_ns` nanoseconds."""
    if gap_ns <= FIRST_NS:
        return 0
    return min(N_BINS - 1, int(np.log(gap_ns / FIRST_NS) * BINS_PER_E))


@internal
def count_gap(w, i, gap_ns, n):
    """Add `n` gaps between tokens to the histogram of instance `i`.

    Most requests of a step share one gap: the bin of the last one is kept.
    """
    if gap_ns != w.last_gap:
        w.last_gap = gap_ns
        w.last_bin = gap_bin(gap_ns)
    gaps(w)[i, w.last_bin] += n


@kernel
def gap_percentile(histogram, share):
    """The gap (ns) below which `share` of the counted gaps lie; NaN where there is none."""
    total = histogram.sum()
    if total <= 0.0:
        return np.nan
    seen = 0.0
    for k in range(histogram.size):
        seen += histogram[k]
        if seen >= share * total:
            return FIRST_NS * np.exp((k + 0.5) / BINS_PER_E)
    return FIRST_NS * np.exp(histogram.size / BINS_PER_E)


@internal
def log_step(w, b):
    """Count the engine step that batch `b` was and, while the log has room, keep it."""
    batch = batches(w)[b]
    i = batch.instance
    inst = instances(w)[i]
    inst.n_steps += 1
    inst.busy_ns += batch.end - batch.start
    if batch.prefill_seqs > 0 and batch.n_decode > 0:
        inst.mixed_steps += 1
    if w.n_log >= step_log(w).size:
        w.log_overflow += 1
        return
    step = step_log(w)[w.n_log]
    w.n_log += 1
    step.instance = i
    step.start = batch.start
    step.end = batch.end
    step.prefill_seqs = batch.prefill_seqs
    step.chunk = batch.chunk
    step.kv_prefill = batch.kv_prefill
    step.n_decode = batch.n_decode
    step.kv_sum = batch.kv_sum
    step.tokens = batch.tokens
    step.seqs = batch.seqs
    step.attention_ns = batch.attention_ns
    step.blocks_used = inst.n_blocks - inst.n_free
    step.running = inst.n_running
    step.waiting = inst.n_waiting


@internal
def bucket_of(w, i, time):
    """The interval of instance `i` that holds `time`; the last one takes everything after."""
    return buckets(w)[i, min(max(time - 1, 0) // w.bucket_ns, buckets(w).shape[1] - 1)]
