"""Measured operator tables: linear interpolation on the grids that a profiler left.

All rules are linear in every axis, clamp below the first point and extrapolate the top two points above
the last (specification of the profile bundles, section 5). Times are nanoseconds; a lookup truncates to a
whole nanosecond and is at least 1.

Several bundles are stacked along the first axis ("table"), so that heterogeneous instances share one argument.
"""

from typing import NamedTuple

import numpy as np

from kernels.jit import inlined, kernel

(
    EMBEDDING,
    LAYERNORM,
    QKV_PROJ,
    QK_NORM,
    ROTARY_EMB,
    O_PROJ,
    GATE_UP_PROJ,
    ACT_FN,
    DOWN_PROJ,
    FINAL_LAYERNORM,
) = range(10)
LINEAR_NAMES = (
    "embedding",
    "layernorm",
    "qkv_proj",
    "qk_norm",
    "rotary_emb",
    "o_proj",
    "gate_up_proj",
    "act_fn",
    "down_proj",
    "final_layernorm",
)
"""Layers whose time depends on the tokens of the step."""
LM_HEAD, SAMPLER = range(2)
SEQUENCE_NAMES = ("lm_head", "sampler")
"""Layers whose time depends on the sequences of the step."""


class Tables(NamedTuple):
    """Stacked bundles. Shapes: t tables, c prefill chunks, d decode counts, s slices, k prefill contexts,
    x decode contexts, a activated experts, m token counts; unused cells are 0."""

    linear: np.ndarray  # (t, 10, tokens + 1) ns, already interpolated at every token count
    sequence: np.ndarray  # (t, 2, sequences + 1) ns
    chunk_axis: np.ndarray  # (t, c)
    n_chunks: np.ndarray  # (t,)
    decode_axis: np.ndarray  # (t, d)
    n_decodes: np.ndarray  # (t,)
    slices: np.ndarray  # (t, c, d) row of the slice arrays; missing pairs name the nearest one
    n_rows: np.ndarray  # (t, s)
    row_axis: np.ndarray  # (t, s, k) tokens of prefill context
    n_cells: np.ndarray  # (t, s, k)
    cell_axis: np.ndarray  # (t, s, k, x) tokens of decode context
    cells: np.ndarray  # (t, s, k, x) ns
    alpha: np.ndarray  # (t, chunk value, n bin, rate bin, context bin, prefill bin); NaN = not fitted
    alpha_chunks: np.ndarray  # (t, chunk value)
    alpha_default: np.ndarray  # (t,); 0 switches the correction off
    alpha_bins: np.ndarray  # (t, 4, bins) upper edges of the n, rate, context and prefill bins, inf-padded
    expert_axis: np.ndarray  # (t, a)
    n_experts: np.ndarray  # (t,)
    n_tokens: np.ndarray  # (t, a)
    token_axis: np.ndarray  # (t, a, m)
    moe: np.ndarray  # (t, a, m) ns


@inlined
def whole_ns(time_ns):
    """Truncate to whole nanoseconds, at least 1."""
    return max(1, int(time_ns))


@inlined
def bracket(axis, n, x):
    """Index of the lower neighbour of `x` in `axis[:n]` and the weight of the upper one.

    Below the first point: (0, 0). Above the last: the last pair with a weight above 1.
    """
    if n <= 1 or x <= axis[0]:
        return 0, 0.0
    low = np.searchsorted(axis[:n], x, side="right") - 1
    if low >= n - 1:
        low = n - 2
    return low, (x - axis[low]) / (axis[low + 1] - axis[low])


@inlined
def blend(low, high, weight):
    """low + weight (high - low)."""
    return low + (high - low) * weight


@inlined
def row_ns(tables, t, s, row, kv_decode):
    """One row of a slice at a decode context: linear in the row's own axis."""
    n = tables.n_cells[t, s, row]
    low, weight = bracket(tables.cell_axis[t, s, row], n, kv_decode)
    value = tables.cells[t, s, row, low]
    if weight == 0.0:
        return value
    return blend(value, tables.cells[t, s, row, low + 1], weight)


@inlined
def slice_ns(tables, t, s, kv_prefill, kv_decode):
    """Bilinear in the prefill and decode context of one (chunk, decode count) slice."""
    low, weight = bracket(tables.row_axis[t, s], tables.n_rows[t, s], kv_prefill)
    value = row_ns(tables, t, s, low, kv_decode)
    if weight == 0.0:
        return value
    return blend(value, row_ns(tables, t, s, low + 1, kv_decode), weight)


@kernel
def attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_decode):
    """Attention of one layer, ns: four-dimensional linear interpolation.

    `chunk` new prompt tokens whose prompts hold `kv_prefill` tokens already; `n_decode` decoding sequences
    with `kv_decode` cached tokens each. Up to four corner slices, blended over the decode count, then the chunk.
    """
    c, chunk_weight = bracket(tables.chunk_axis[t], tables.n_chunks[t], chunk)
    d, decode_weight = bracket(tables.decode_axis[t], tables.n_decodes[t], n_decode)
    total = 0.0
    for dc in range(2 if chunk_weight != 0.0 else 1):
        value = slice_ns(tables, t, tables.slices[t, c + dc, d], kv_prefill, kv_decode)
        if decode_weight != 0.0:
            upper = slice_ns(tables, t, tables.slices[t, c + dc, d + 1], kv_prefill, kv_decode)
            value = blend(value, upper, decode_weight)
        total = blend(total, value, chunk_weight) if dc == 1 else value
    return whole_ns(total)


@inlined
def bin_of(edges, x):
    """Index of the right-inclusive bin that holds `x`; `edges` are upper edges."""
    return min(np.searchsorted(edges, x, side="left"), edges.size - 1)


@kernel
def skew_alpha(tables, t, chunk, n_decode, rate, kv_max, kv_prefill):
    """Fitted weight of the longest sequence in a decode batch of unequal contexts, dimensionless."""
    default = tables.alpha_default[t]
    chunks = tables.alpha_chunks[t]
    c = np.searchsorted(chunks, chunk)
    if c >= chunks.size or chunks[c] != chunk:
        return default
    edges = tables.alpha_bins[t]
    fitted = tables.alpha[
        t,
        c,
        bin_of(edges[0], n_decode),
        bin_of(edges[1], rate),
        bin_of(edges[2], kv_max),
        bin_of(edges[3], kv_prefill),
    ]
    return default if np.isnan(fitted) else fitted


@kernel
def batch_attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_sum, kv_min, kv_max):
    """Attention of one layer for a whole batch with the skew correction, ns.

    t = t(mean) + alpha (t(longest) - t(mean)); `kv_*` are the sum, least and most cached tokens of the
    decoding sequences. 0 where the batch holds nothing.
    """
    if chunk <= 0 and n_decode <= 0:
        return 0
    kv_mean = kv_sum // n_decode if n_decode > 0 else 0
    mean_ns = attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_mean)
    if n_decode <= 1 or kv_max == kv_mean or np.isnan(tables.alpha_default[t]):
        return mean_ns
    rate = min(max((kv_sum / n_decode - kv_min) / (kv_max - kv_min), 0.0), 1.0)
    alpha = skew_alpha(tables, t, chunk, n_decode, rate, kv_max, kv_prefill)
    if alpha == 0.0:
        return mean_ns
    longest_ns = attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_max)
    if longest_ns <= mean_ns:
        return mean_ns
    return max(1, int(np.rint(mean_ns + alpha * (longest_ns - mean_ns))))


@kernel
def moe_ns(tables, t, tokens, activated):
    """Experts of one MoE layer on one rank, ns: `tokens` rows spread over `activated` experts."""
    low, weight = bracket(tables.expert_axis[t], tables.n_experts[t], max(1, activated))
    total = 0.0
    for step in range(2 if weight != 0.0 else 1):
        a = low + step
        m, token_weight = bracket(tables.token_axis[t, a], tables.n_tokens[t, a], max(1, tokens))
        value = tables.moe[t, a, m]
        if token_weight != 0.0:
            value = blend(value, tables.moe[t, a, m + 1], token_weight)
        total = blend(total, value, weight) if step == 1 else value
    return whole_ns(total)
