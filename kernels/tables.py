"""Measured operator tables: linear interpolation on the grids that a profiler left.

All rules are linear in every axis, clamp below the first point and extrapolate the top two points above
the last (specification of the profile bundles, section 5). Times are nanoseconds; a lookup truncates to a
whole nanosecond and is at least 1.

Several bundles are stacked along the first axis ("table"), so that heterogeneous instances share one argument.
"""

import numpy as np

from kernels.jit import internal
from kernels.views import fields, view

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


TABLES = np.dtype(
    # (t, layers, tokens + 1), (t, layers, sequences + 1) ns, interpolated at every count
    fields("linear sequence", 3)
    # (t, chunks), (t, counts) axis values and their number (t,)
    + fields("chunk_axis decode_axis", 2)
    + fields("n_chunks n_decodes", 1)
    # (t, chunks, counts) row of the slice arrays; a missing pair names the nearest one
    + fields("slices", 3)
    # slices: (t, s) rows, (t, s, k) prefill contexts; (t, s, k) cells, (t, s, k, x) decode contexts and times in ns
    + fields("n_rows", 2)
    + fields("row_axis n_cells", 3)
    + fields("cell_axis cells", 4)
    # skew: (t, chunk values), (t,) default (NaN: correction off), (t, 4, bins) upper edges of the bins of count,
    # rate, longest context and prefill context, padded with inf; (t, chunk values, bins^4) weight, NaN = not fitted
    + fields("alpha_chunks", 2)
    + fields("alpha_default", 1)
    + fields("alpha_bins alpha", 3)
    # experts: (t, a) activated experts, (t,) their number; (t, a) points, (t, a, m) tokens and times in ns
    + fields("expert_axis n_tokens", 2)
    + fields("n_experts", 1)
    + fields("token_axis moe", 3)
)
"""Stacked bundles (t = which bundle), as addresses; filled by `sweep.profiles.stack`. Unused cells are 0."""

linear = view("linear", np.int64, 3)
sequence = view("sequence", np.int64, 3)
chunk_axis = view("chunk_axis", np.float64, 2)
n_chunks = view("n_chunks", np.int64)
decode_axis = view("decode_axis", np.float64, 2)
n_decodes = view("n_decodes", np.int64)
slices = view("slices", np.int64, 3)
n_rows = view("n_rows", np.int64, 2)
row_axis = view("row_axis", np.float64, 3)
n_cells = view("n_cells", np.int64, 3)
cell_axis = view("cell_axis", np.float64, 4)
cells = view("cells", np.float64, 4)
alpha_chunks = view("alpha_chunks", np.float64, 2)
alpha_default = view("alpha_default", np.float64)
alpha_bins = view("alpha_bins", np.float64, 3)
alpha = view("alpha", np.float64, 3)
expert_axis = view("expert_axis", np.float64, 2)
n_experts = view("n_experts", np.int64)
n_tokens = view("n_tokens", np.int64, 2)
token_axis = view("token_axis", np.float64, 3)
moe = view("moe", np.float64, 3)


@internal
def whole_ns(time_ns):
    """Truncate to whole nanoseconds, at least 1."""
    return max(1, int(time_ns))


@internal
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


@internal
def blend(low, high, weight):
    """low + weight (high - low)."""
    return low + (high - low) * weight


@internal
def row_ns(tables, t, s, row, kv_decode):
    """One row of a slice at a decode context: linear in the row's own axis."""
    n = n_cells(tables)[t, s, row]
    low, weight = bracket(cell_axis(tables)[t, s, row], n, kv_decode)
    value = cells(tables)[t, s, row, low]
    if weight == 0.0:
        return value
    return blend(value, cells(tables)[t, s, row, low + 1], weight)


@internal
def slice_ns(tables, t, s, kv_prefill, kv_decode):
    """Bilinear in the prefill and decode context of one (chunk, decode count) slice."""
    low, weight = bracket(row_axis(tables)[t, s], n_rows(tables)[t, s], kv_prefill)
    value = row_ns(tables, t, s, low, kv_decode)
    if weight == 0.0:
        return value
    return blend(value, row_ns(tables, t, s, low + 1, kv_decode), weight)


@internal
def attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_decode):
    """Attention of one layer, ns: four-dimensional linear interpolation.

    `chunk` new prompt tokens whose prompts hold `kv_prefill` tokens already; `n_decode` decoding sequences
    with `kv_decode` cached tokens each. Up to four corner slices, blended over the decode count, then the chunk.
    """
    c, chunk_weight = bracket(chunk_axis(tables)[t], n_chunks(tables)[t], chunk)
    d, decode_weight = bracket(decode_axis(tables)[t], n_decodes(tables)[t], n_decode)
    total = 0.0
    for dc in range(2 if chunk_weight != 0.0 else 1):
        value = slice_ns(tables, t, slices(tables)[t, c + dc, d], kv_prefill, kv_decode)
        if decode_weight != 0.0:
            upper = slice_ns(tables, t, slices(tables)[t, c + dc, d + 1], kv_prefill, kv_decode)
            value = blend(value, upper, decode_weight)
        total = blend(total, value, chunk_weight) if dc == 1 else value
    return whole_ns(total)


@internal
def bin_of(edges, x):
    """Index of the right-inclusive bin that holds `x`; `edges` are upper edges."""
    return min(np.searchsorted(edges, x, side="left"), edges.size - 1)


@internal
def skew_alpha(tables, t, chunk, n_decode, rate, kv_max, kv_prefill):
    """Fitted weight of the longest sequence in a decode batch of unequal contexts, dimensionless."""
    default = alpha_default(tables)[t]
    chunks = alpha_chunks(tables)[t]
    c = np.searchsorted(chunks, chunk)
    if c >= chunks.size or chunks[c] != chunk:
        return default
    edges = alpha_bins(tables)[t]
    n = edges.shape[1]
    bins = (bin_of(edges[0], n_decode) * n + bin_of(edges[1], rate)) * n + bin_of(edges[2], kv_max)
    fitted = alpha(tables)[t, c, bins * n + bin_of(edges[3], kv_prefill)]
    return default if np.isnan(fitted) else fitted


@internal
def batch_attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_sum, kv_min, kv_max):
    """Attention of one layer for a whole batch with the skew correction, ns.

    t = t(mean) + alpha (t(longest) - t(mean)); `kv_*` are the sum, least and most cached tokens of the
    decoding sequences. 0 where the batch holds nothing.
    """
    if chunk <= 0 and n_decode <= 0:
        return 0
    kv_mean = kv_sum // n_decode if n_decode > 0 else 0
    mean_ns = attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_mean)
    if n_decode <= 1 or kv_max == kv_mean or np.isnan(alpha_default(tables)[t]):
        return mean_ns
    rate = min(max((kv_mean - kv_min) / (kv_max - kv_min), 0.0), 1.0)
    weight = skew_alpha(tables, t, chunk, n_decode, rate, kv_max, kv_prefill)
    if weight == 0.0:
        return mean_ns
    longest_ns = attention_ns(tables, t, chunk, kv_prefill, n_decode, kv_max)
    if longest_ns <= mean_ns:
        return mean_ns
    return max(1, int(np.rint(mean_ns + weight * (longest_ns - mean_ns))))


@internal
def moe_ns(tables, t, tokens, activated):
    """Experts of one MoE layer on one rank, ns: `tokens` rows spread over `activated` experts."""
    low, weight = bracket(expert_axis(tables)[t], n_experts(tables)[t], max(1, activated))
    total = 0.0
    for step in range(2 if weight != 0.0 else 1):
        a = low + step
        m, token_weight = bracket(token_axis(tables)[t, a], n_tokens(tables)[t, a], max(1, tokens))
        value = moe(tables)[t, a, m]
        if token_weight != 0.0:
            value = blend(value, moe(tables)[t, a, m + 1], token_weight)
        total = blend(total, value, weight) if step == 1 else value
    return whole_ns(total)
