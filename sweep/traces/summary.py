"""What a trace contains: rates, lengths, burstiness, prefix reuse."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels import reuse
from sweep.traces.blocks import block_hashes
from sweep.traces.requests import Int64s, Requests

Floats = NDArray[np.float64]
HOUR_NS = 3600 * 10**9
PERCENTILES = (1, 10, 50, 90, 95, 99, 99.9)
WINDOWS_S = (1, 10, 60)
ON_THE_STEP = 0.95
TOKEN_BLOCK = 16
"""Block size at which requests with token ids are compared: vLLM's default."""


@dataclass(frozen=True)
class Reuse:
    """Prefix reuse: share of prompt tokens that a prefix cache could serve."""

    block_tokens: int
    hit_rate: float  # with a cache that never forgets
    n_blocks: int  # full prompt blocks in all
    n_distinct: int
    cache_blocks: Int64s  # sizes of an LRU cache ...
    cache_hit_rate: Floats  # ... and the hit rate with it

    def blocks_for(self, share: float) -> int:
        """Fewest blocks, of the sizes tried, with which the hit rate reaches `share` of the best."""
        reached = np.flatnonzero(self.cache_hit_rate >= share * self.hit_rate)
        return int(self.cache_blocks[reached[0]]) if len(reached) else int(self.cache_blocks[-1])


@dataclass(frozen=True)
class Summary:
    """Figures of a trace; a length summary is {"mean", "min", "p1" ... "p99.9", "max"} in tokens."""

    n_requests: int
    span_s: float
    rate_per_s: float
    peak_minute_rate_per_s: float
    hour_start: tuple[str, ...]
    hour_rate_per_s: Floats
    isl: dict[str, float]
    osl: dict[str, float]
    length_correlation: float
    clock_step_s: float  # times are whole multiples of it; 0 where they are finer than a millisecond
    gap_cv: float  # of the times as they are, spread over the clock's step where it ties arrivals
    dispersion: dict[int, float]  # window in s -> variance over mean of the number of arrivals in it
    n_simultaneous: int
    n_followers: int
    models: dict[str, int]
    reuse: Reuse | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        out = {
            k: v
            for k, v in vars(self).items()
            if k not in ("reuse", "hour_start", "hour_rate_per_s", "dispersion")
        }
        out["rate_by_hour"] = [
            {"hour": start, "rate_per_s": rate}
            for start, rate in zip(self.hour_start, self.hour_rate_per_s.tolist(), strict=True)
        ]
        out["index_of_dispersion"] = {f"{window}s": value for window, value in self.dispersion.items()}
        out["prefix_reuse"] = None if self.reuse is None else _reuse_dict(self.reuse)
        return out


def _reuse_dict(found: Reuse) -> dict[str, Any]:
    return {
        "block_tokens": found.block_tokens,
        "hit_rate_unlimited_cache": found.hit_rate,
        "blocks": found.n_blocks,
        "distinct_blocks": found.n_distinct,
        "lru": [
            {"cache_tokens": int(blocks) * found.block_tokens, "hit_rate": rate}
            for blocks, rate in zip(found.cache_blocks.tolist(), found.cache_hit_rate.tolist(), strict=True)
        ],
    }


def summarise(requests: Requests) -> Summary:
    """Figures of `requests` (at least one). Arrivals of later turns of sessions are unknown and left out of rates."""
    arrival_ns = requests.arrival_ns[: requests.n_open]
    starts, rates = hourly(arrival_ns, requests.epoch_ns)
    span_s = float(arrival_ns[-1] - arrival_ns[0]) / 1e9
    step_ns = clock_step(arrival_ns)
    spread = spread_ties(arrival_ns, step_ns)
    return Summary(
        n_requests=len(requests),
        span_s=span_s,
        rate_per_s=len(arrival_ns) / span_s if span_s > 0 else 0.0,
        peak_minute_rate_per_s=float(counts(arrival_ns, 60).max()) / 60.0,
        hour_start=starts,
        hour_rate_per_s=rates,
        isl=length_summary(requests.isl),
        osl=length_summary(requests.osl),
        length_correlation=correlation(requests),
        clock_step_s=step_ns / 1e9,
        gap_cv=variation(np.diff(spread)),
        dispersion={window: dispersion(spread, window) for window in WINDOWS_S},
        n_simultaneous=int(np.count_nonzero(np.diff(arrival_ns) == 0)),
        n_followers=len(requests) - requests.n_open,
        models=_models(requests),
        reuse=prefix_reuse(requests),
    )


def length_summary(tokens: NDArray[Any]) -> dict[str, float]:
    """Mean, extremes and percentiles of lengths."""
    values = np.percentile(tokens, PERCENTILES)
    out = {"mean": float(tokens.mean()), "min": float(tokens.min())}
    out |= {f"p{p:g}": float(v) for p, v in zip(PERCENTILES, values, strict=True)}
    return out | {"max": float(tokens.max())}


def variation(gap: NDArray[Any]) -> float:
    """Standard deviation over mean; 0 where there is nothing to compare."""
    mean = float(gap.mean()) if len(gap) else 0.0
    return float(gap.std()) / mean if mean > 0.0 else 0.0


def clock_step(arrival_ns: Int64s) -> int:
    """Coarseness (ns) of a trace's clock, 0 if under a millisecond or nothing ties.

    The clock's step is the usual short gap, ties aside, if nearly all times are multiples of it to a percent.
    """
    gap = np.diff(arrival_ns)
    apart = gap[gap > 0]
    if len(apart) == len(gap) or len(apart) == 0:
        return 0
    step = int(np.median(apart[apart <= 1.5 * np.percentile(apart, 5)]))
    off = (arrival_ns - arrival_ns[0]) % step
    on_it = np.count_nonzero(np.minimum(off, step - off) <= step // 100)
    return step if step >= 1_000_000 and on_it >= ON_THE_STEP * len(arrival_ns) else 0


def spread_ties(arrival_ns: Int64s, step_ns: int) -> Int64s:
    """Arrivals spread over the step of a coarse clock, at random but always alike: what such a clock rounds away."""
    if step_ns == 0:
        return arrival_ns
    late = np.random.default_rng(0).integers(0, step_ns, len(arrival_ns))
    return np.sort(arrival_ns + late)


def counts(arrival_ns: Int64s, window_s: int) -> Int64s:
    """Arrivals in consecutive windows from the first arrival on."""
    index = (arrival_ns - arrival_ns[0]) // (window_s * 10**9)
    if index[-1] > 10_000_000:
        # Years between arrivals: windows without one would fill memory; the busy ones tell the peak.
        return np.unique(index, return_counts=True)[1].astype(np.int64)
    return np.bincount(index).astype(np.int64)


def dispersion(arrival_ns: Int64s, window_s: int) -> float:
    """Index of dispersion: variance over mean of the arrivals per window; 1 for Poisson. 0 if under ten windows."""
    in_window = counts(arrival_ns, window_s)[:-1]
    return float(in_window.var() / in_window.mean()) if len(in_window) >= 10 and in_window.mean() > 0 else 0.0


def correlation(requests: Requests) -> float:
    """Correlation of ln(prompt) and ln(output); 0 where one of them never changes."""
    isl, osl = np.log(requests.isl), np.log(requests.osl)
    if len(isl) < 2 or isl.std() < 1e-9 or osl.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(isl, osl)[0, 1])


def hourly(arrival_ns: Int64s, epoch_ns: int | None) -> tuple[tuple[str, ...], Floats]:
    """Each hour's name and its rate in requests/s; clock hours (UTC) where the trace has dates.

    The first and the last hour count only the time that the trace covers.
    """
    base = 0 if epoch_ns is None else epoch_ns
    first, last = int(arrival_ns[0]) + base, int(arrival_ns[-1]) + base
    start = first // HOUR_NS
    n = min(last // HOUR_NS - start + 1, 100_000)
    index = np.minimum((arrival_ns + base) // HOUR_NS - start, n - 1)
    edges = (start + np.arange(n + 1)) * HOUR_NS
    covered_s = np.maximum(np.minimum(edges[1:], last + 1) - np.maximum(edges[:-1], first), 1) / 1e9
    rates = np.bincount(index, minlength=n) / np.maximum(covered_s, 1.0)
    names = [_hour_name(int(edge), epoch_ns is not None) for edge in edges[:-1]]
    return tuple(names), rates


def _hour_name(ns: int, dated: bool) -> str:
    if not dated:
        return f"hour {ns // HOUR_NS}"
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:00")


def _models(requests: Requests) -> dict[str, int]:
    if requests.model is None:
        return {}
    number = np.bincount(requests.model, minlength=len(requests.models))
    named = {name or "(not named)": int(n) for name, n in zip(requests.models, number, strict=True)}
    return dict(sorted(named.items(), key=lambda item: -item[1]))


def prefix_reuse(requests: Requests) -> Reuse | None:
    """Achievable prefix hit rate, with a cache that never forgets and with LRU caches of growing size.

    None where requests have no identity. Only whole prompt blocks count; the rate is of all prompt tokens.
    """
    block_tokens = requests.block_tokens or TOKEN_BLOCK
    blocks = block_hashes(requests, block_tokens)
    if blocks is None or len(blocks.value) == 0:
        return None
    distinct, block = np.unique(blocks.value, return_inverse=True)
    distance = np.empty(len(block), np.int64)
    reuse.reuse_distance(block.astype(np.int64), blocks.offset, len(distinct), distance)
    in_prompt = _prompt_blocks(requests, blocks.offset, block_tokens)
    found = np.sort(distance[in_prompt & (distance != reuse.NEVER)])
    sizes = np.unique(np.geomspace(1, len(distinct), 40).astype(np.int64))
    per_token = block_tokens / float(requests.isl.sum(dtype=np.int64))
    return Reuse(
        block_tokens=block_tokens,
        hit_rate=len(found) * per_token,
        n_blocks=int(np.count_nonzero(in_prompt)),
        n_distinct=len(distinct),
        cache_blocks=sizes,
        cache_hit_rate=np.searchsorted(found, sizes).astype(np.float64) * per_token,
    )


def _prompt_blocks(requests: Requests, offset: Int64s, block_tokens: int) -> NDArray[np.bool_]:
    """Which blocks can be hits: prompt ones, at least one prompt token left to compute."""
    length = np.diff(offset)
    most = (requests.isl.astype(np.int64) - 1) // block_tokens
    place = np.arange(offset[-1]) - np.repeat(offset[:-1], length)
    usable: NDArray[np.bool_] = place < np.repeat(most, length)
    return usable
