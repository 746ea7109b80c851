"""What a fleet must carry and within which limits, from the configuration's groups `demand` and `slo`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from sweep.errors import UserError

LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


@dataclass(frozen=True)
class Limits:
    """Limits of the SLO in ms at a percentile of the requests; infinite where there is none."""

    ttft_ms: float = math.inf
    tpot_ms: float = math.inf
    e2e_ms: float = math.inf
    percentile: float = 95.0

    @property
    def share(self) -> float:
        """Share of requests that may be slower."""
        return 1.0 - self.percentile / 100.0

    @property
    def deviations(self) -> float:
        """Standard deviations of a normal variable from its mean to the percentile; at least 0."""
        return max(0.0, NormalDist().inv_cdf(self.percentile / 100.0))

    def text(self) -> str:
        """`TTFT <= 2,000 ms, TPOT <= 50 ms at p95`."""
        words = [
            f"{name.removesuffix('_ms').upper()} <= {limit:,.6g} ms"
            for name in LATENCIES
            if math.isfinite(limit := getattr(self, name))
        ]
        return f"{', '.join(words)} at p{self.percentile:g}" if words else "no limit on latency"


@dataclass(frozen=True)
class Demand:
    """Load of all users together: a rate (requests/s) or requests in flight; the other is NaN."""

    rate_per_s: float = math.nan
    in_flight: float = math.nan
    growth: float = 0.0
    peak_factor: float = 1.0
    spare: int = 1
    goodput_share: float = 0.0
    max_gpus: float = math.inf
    budget_usd_per_hour: float = math.inf

    @property
    def by_rate(self) -> bool:
        return not math.isnan(self.rate_per_s)

    @property
    def planned(self) -> float:
        """Load to carry: stated x (1 + growth) x peak factor; requests/s, or requests in flight."""
        stated = self.rate_per_s if self.by_rate else self.in_flight
        return stated * (1.0 + self.growth) * self.peak_factor

    def times(self, factor: float) -> Demand:
        """The same demand at `factor` times the load."""
        return replace(self, rate_per_s=self.rate_per_s * factor, in_flight=self.in_flight * factor)

    def text(self) -> str:
        """The load to carry in words, with how it came about."""
        unit = "requests/s" if self.by_rate else "requests in flight"
        stated = self.rate_per_s if self.by_rate else self.in_flight
        factors = [f"{stated:,.4g} {unit}"]
        factors += [f"{self.growth:+.0%} growth"] if self.growth else []
        factors += [f"peak x {self.peak_factor:g}"] if self.peak_factor != 1.0 else []
        if len(factors) == 1:
            return factors[0]
        return f"{self.planned:,.4g} {unit} ({', '.join(factors)})"


def demand_of(settings: Mapping[str, Any], trace_rate_per_s: float = math.nan) -> Demand:
    """Demand of a run's settings (by Hydra key); a trace's rate stands in where none is given. Raises UserError."""
    rate, in_flight = settings["demand.request_rate"], settings["demand.concurrency"]
    if rate is not None and in_flight is not None:
        raise UserError(
            "and demand.concurrency are two demands: set one of them to null", field="demand.request_rate"
        )
    if rate is None and in_flight is None:
        rate = trace_rate_per_s
        if math.isnan(rate):
            raise UserError(
                "no load to plan for", field="demand.request_rate", allowed="a rate, a concurrency or a trace"
            )
    return Demand(
        rate_per_s=math.nan if rate is None else float(rate),
        in_flight=math.nan if in_flight is None else float(in_flight),
        growth=settings["demand.growth"],
        peak_factor=settings["demand.peak_factor"],
        spare=settings["demand.spare"],
        goodput_share=settings["demand.goodput_share"],
        max_gpus=_or_inf(settings["demand.max_gpus"]),
        budget_usd_per_hour=_or_inf(settings["demand.budget_usd_per_hour"]),
    )


def _or_inf(value: float | None) -> float:
    return math.inf if value is None else float(value)
