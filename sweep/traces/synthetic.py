"""Synthetic requests from a few numbers and a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sweep.errors import UserError
from sweep.traces import arrivals, lengths, prefixes
from sweep.traces.arrivals import Process
from sweep.traces.lengths import Distribution
from sweep.traces.requests import MAX_TOKENS, Int32s, Int64s, Requests

MAX_REQUESTS = 200_000_000
HOUR_S = 3600.0


@dataclass(frozen=True)
class Traffic:
    """What synthetic requests look like.

    `isl` and `osl` are the longest lengths where `distribution` is uniform, the mean ones where it is lognormal.
    `hourly_rates` (requests/s in each hour, repeating) replace `rate_per_s`. A closed loop is all requests at time 0
    with a concurrency, which belongs to the simulator: give `rate_per_s` 0.
    """

    n_requests: int = 400
    rate_per_s: float = 0.0
    process: Process = "poisson"
    burstiness: float = 1.0  # gamma shape of the gaps; below 1 = burstier than Poisson
    hourly_rates: tuple[float, ...] = ()
    pulse_requests: int = 10
    pulse_delay_s: float = 60.0
    distribution: Distribution = "uniform"
    isl: float = 1024.0
    osl: float = 256.0
    length_range: float = 1.0  # uniform: shortest over longest
    output_spread: float = 0.0  # uniform: least full width of output lengths over their mean
    isl_sigma: float = 1.0  # lognormal: standard deviation of ln(length)
    osl_sigma: float = 1.0
    length_correlation: float = 0.0
    max_tokens: int = MAX_TOKENS
    n_prefixes: int = 0
    prefix_tokens: int | None = None  # None: half the prompt
    prefix_zipf: float = 0.0
    block_tokens: int = 512
    seed: int = 0


def synthesize(traffic: Traffic, *, sample: Requests | None = None) -> Requests:
    """The requests that `traffic` describes; same seed, same requests.

    Arrivals, lengths and prefixes draw from streams of their own, so that changing one leaves the others.
    `sample` is the trace to resample where lengths are empirical: whole requests are drawn, so prompt and output stay
    together, block identities too. Raises UserError.
    """
    _check(traffic, sample)
    of_arrivals, of_lengths, of_prefixes = (
        np.random.default_rng(child) for child in np.random.SeedSequence(traffic.seed).spawn(3)
    )
    n = traffic.n_requests
    arrival_ns = _arrivals(of_arrivals, traffic, n)
    if traffic.distribution == "empirical" and sample is not None:
        drawn = sample.take(of_lengths.integers(0, len(sample), n))
        return Requests(
            arrival_ns,
            drawn.isl,
            drawn.osl,
            blocks=drawn.blocks,
            block_tokens=drawn.block_tokens,
            tokens=drawn.tokens,
            model=drawn.model,
            models=drawn.models,
        )
    isl, osl = _lengths(of_lengths, traffic, n)
    if traffic.n_prefixes == 0:
        return Requests(arrival_ns, isl, osl)
    prefix = prefixes.zipf_ranks(of_prefixes, n, traffic.n_prefixes, traffic.prefix_zipf)
    length = int(traffic.isl / 2) if traffic.prefix_tokens is None else traffic.prefix_tokens
    blocks = prefixes.pool_blocks(prefix, isl, length, traffic.block_tokens)
    return Requests(arrival_ns, isl, osl, blocks=blocks, block_tokens=traffic.block_tokens)


def blocks(traffic: Traffic, size: int) -> Iterator[Requests]:
    """The requests in blocks of `size`, each drawn when it is asked for; numbers in memory stay those of one block.

    Every block has a stream of its own and goes on where the one before ended: the same traffic as `synthesize`, other
    draws. Raises UserError for pulses and hourly rates, whose clock a block would start anew.
    """
    if traffic.process == "pulse" or traffic.hourly_rates or traffic.distribution == "empirical":
        raise UserError("is not drawn in blocks", field="process", value=traffic.process)
    start_ns = 0
    for k in range(-(-traffic.n_requests // size)):
        n = min(size, traffic.n_requests - k * size)
        seed = int(np.random.SeedSequence([traffic.seed, k]).generate_state(1, np.uint64)[0] >> 1)
        block = synthesize(replace(traffic, n_requests=n, seed=seed))
        yield replace(block, arrival_ns=block.arrival_ns + start_ns)
        start_ns += int(block.arrival_ns[-1])


def for_duration(traffic: Traffic, duration_s: float, *, sample: Requests | None = None) -> Requests:
    """The requests of the first `duration_s` seconds, however many arrive (at least one)."""
    rates = np.array(traffic.hourly_rates or (traffic.rate_per_s,))
    mean = arrivals.expected_count(rates, HOUR_S, duration_s)
    spread = np.sqrt(mean / min(traffic.burstiness, 1.0))
    n = int(mean + 8.0 * spread + 16.0)
    made = synthesize(replace(traffic, n_requests=n), sample=sample)
    kept = max(1, int(np.searchsorted(made.arrival_ns, int(duration_s * arrivals.NS_PER_S))))
    return made.take(np.arange(kept)) if kept < n else made


def _arrivals(rng: np.random.Generator, traffic: Traffic, n: int) -> Int64s:
    if traffic.process == "pulse":
        gap = arrivals.gaps(rng, n, "gamma", traffic.burstiness)
        return arrivals.pulses(gap, traffic.rate_per_s, traffic.pulse_requests, traffic.pulse_delay_s)
    gap = arrivals.gaps(rng, n, traffic.process, traffic.burstiness)
    if traffic.hourly_rates:
        return arrivals.varying_rate(gap, np.array(traffic.hourly_rates), HOUR_S)
    return arrivals.constant_rate(gap, traffic.rate_per_s)


def _lengths(rng: np.random.Generator, traffic: Traffic, n: int) -> tuple[Int32s, Int32s]:
    if traffic.distribution == "lognormal":
        first, second = lengths.correlated_normals(rng, n, traffic.length_correlation)
        most = traffic.max_tokens
        return (
            lengths.lognormal(first, traffic.isl, traffic.isl_sigma, most),
            lengths.lognormal(second, traffic.osl, traffic.osl_sigma, most),
        )
    ratio = traffic.length_range
    isl, mean = lengths.uniform(rng, n, int(traffic.isl), ratio), 0.5 * (1.0 + ratio)
    if (1.0 - ratio) / mean < traffic.output_spread:
        return isl, lengths.about(rng, n, mean * traffic.osl, traffic.output_spread)
    return isl, lengths.uniform(rng, n, int(traffic.osl), ratio)


def _check(traffic: Traffic, sample: Requests | None) -> None:
    limits: tuple[tuple[str, float, float, float], ...] = (
        ("n_requests", traffic.n_requests, 1, MAX_REQUESTS),
        ("rate_per_s", traffic.rate_per_s, 0, np.inf),
        ("burstiness", traffic.burstiness, 1e-3, 1e6),
        ("pulse_requests", traffic.pulse_requests, 1, MAX_REQUESTS),
        ("pulse_delay_s", traffic.pulse_delay_s, 0, 1e9),
        ("isl", traffic.isl, 1, MAX_TOKENS),
        ("osl", traffic.osl, 1, MAX_TOKENS),
        ("length_range", traffic.length_range, 0, 1),
        ("output_spread", traffic.output_spread, 0, 1),
        ("isl_sigma", traffic.isl_sigma, 0, 10),
        ("osl_sigma", traffic.osl_sigma, 0, 10),
        ("length_correlation", traffic.length_correlation, -1, 1),
        ("n_prefixes", traffic.n_prefixes, 0, 2**31),
        ("prefix_tokens", traffic.prefix_tokens or 0, 0, MAX_TOKENS),
        ("prefix_zipf", traffic.prefix_zipf, 0, 100),
        ("block_tokens", traffic.block_tokens, 1, MAX_TOKENS),
        ("seed", traffic.seed, 0, 2**63),
    )
    for name, value, low, high in limits:
        if not low <= value <= high:
            raise UserError("out of range", field=name, value=value, allowed=f"{low:g} to {high:g}")
    if traffic.hourly_rates and not (
        min(traffic.hourly_rates) >= 0 and 0 < sum(traffic.hourly_rates) < np.inf
    ):
        raise UserError(
            "must be rates, one of them above 0", field="hourly_rates", value=traffic.hourly_rates
        )
    if traffic.distribution == "empirical" and (sample is None or len(sample) == 0):
        raise UserError("needs a trace to draw lengths from", field="distribution", value="empirical")
