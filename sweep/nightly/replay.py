"""The busiest hour again, request by request, on the fleet that is to carry it: at the load that is planned for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sweep.planner.answer import Answer, planned_latency, tokens_per_request
from sweep.planner.plans import Plan
from sweep.planner.simulated import Fleet
from sweep.planner.verify import LoadOf, Verified, goodput_share, verified
from sweep.simulate.curves import NS_PER_MS, LoadPoint, Served
from sweep.traces.requests import Requests

WARM_UP = 0.02
"""Share of the replay that fills an empty fleet and is not scored."""
FEWEST_REQUESTS = 30
THINNING_SEED = 20_260_329
NS_PER_MINUTE = 60 * 10**9


class Replay:
    """Replays `requests` (one hour's) `times` as fast on any plan; remembers what each plan served."""

    def __init__(self, answer: Answer, requests: Requests, times: float, most: int) -> None:
        self.answer, self.times, self.most = answer, times, most
        self.requests = requests
        self.served: dict[Plan, Served] = {}
        self.asked: dict[Plan, tuple[int, float]] = {}

    def load_of(self, plan: Plan) -> LoadPoint:
        """The hour on the plan's working replicas: `sweep.planner.verify.LoadOf`."""
        _, osl = tokens_per_request(self.answer.question)
        ttft, tpot = planned_latency(plan, self.answer)
        fleet = Fleet(plan, self.answer.question, ttft + osl * tpot)
        few = busiest_stretch(faster(thinned(self.requests, fleet.share), self.times), self.most)
        self.asked[plan] = (len(few), fleet.share)
        point, self.served[plan] = fleet.replayed(few, WARM_UP)
        return point

    def grown(self, plan: Plan) -> Verified:
        """The plan, with as many replicas more as the replay asks for. Raises NoAnswer where the limits forbid them."""
        simulate: LoadOf = self.load_of
        return verified([plan], self.answer, simulate)[0]

    def figures(self, found: Verified) -> dict[str, Any]:
        """What the replay showed, as plain values."""
        assert found.point is not None
        n, share = self.asked[found.plan]
        percentile = self.answer.question.limits.percentile
        return {
            "requests": n,
            "share_of_the_load": share,
            "times_as_fast_as_recorded": self.times,
            "percentile": percentile,
            "latency_ms": dict(found.point.at_percentile_ms),
            "goodput_share": goodput_share(found.point),
            "busy_share": found.point.busy_share,
            "minutes": by_minute(self.served[found.plan], percentile).to_dicts(),
        }


def thinned(requests: Requests, share: float) -> Requests:
    """A random `share` of the requests, the same ones every time."""
    if share >= 1.0:
        return requests
    kept = np.random.default_rng(THINNING_SEED).random(len(requests)) < share
    return requests.take(np.flatnonzero(kept))


def faster(requests: Requests, times: float) -> Requests:
    """The same requests, arriving `times` as fast."""
    scaled = np.round(requests.arrival_ns / times).astype(np.int64)
    return Requests(scaled, requests.isl, requests.osl)


def busiest_stretch(requests: Requests, most: int) -> Requests:
    """The `most` consecutive requests that arrive in the shortest time; all where there are no more."""
    if len(requests) <= most:
        return requests
    arrival = requests.arrival_ns
    first = int(np.argmin(arrival[most - 1 :] - arrival[: len(arrival) - most + 1]))
    return requests.take(np.arange(first, first + most))


def by_minute(seen: Served, percentile: float) -> pl.DataFrame:
    """Requests that arrived in each minute of the replay, and TTFT and TPOT (ms) at a percentile of them."""
    done = seen.finish_ns >= 0
    decode_ns = seen.finish_ns - seen.first_token_ns
    frame = pl.DataFrame(
        {
            "minute": (seen.arrival_ns - seen.arrival_ns.min()) // NS_PER_MINUTE,
            "ttft_ms": np.where(done, (seen.first_token_ns - seen.arrival_ns) / NS_PER_MS, np.nan),
            "tpot_ms": np.where(done, decode_ns / np.maximum(seen.output_tokens - 1, 1) / NS_PER_MS, np.nan),
        }
    ).fill_nan(None)
    at = percentile / 100.0
    return (
        frame.group_by("minute")
        .agg(
            pl.len().alias("requests"),
            pl.col("ttft_ms").quantile(at, "linear"),
            pl.col("tpot_ms").quantile(at, "linear"),
        )
        .sort("minute")
    )
