"""What a fleet must carry (group `demand`): read by `servesweep plan` and the nightly job."""

from __future__ import annotations

from typing import Any

from sweep.fields.spec import Field, Kind

_Q = "What must the fleet carry?"
POOLS = ("both", "colocated", "split")
OBJECTIVES = ("cheapest", "smallest")


def _asked(key: str, kind: Kind, doc: str, **more: Any) -> Field:
    doc += " Moves nothing: it sizes the fleet, not one deployment."
    return Field(key=f"demand.{key}", doc=doc, kind=kind, scope="run", column=False, question=_Q, **more)


FIELDS = (
    _asked("name", "text", "Demand as results show it.", default=""),
    _asked(
        "workload",
        "text",
        "Choice of the group workload whose lengths this demand has, where the command line names none.",
        auto="the run's workload",
    ),
    _asked(
        "slo",
        "text",
        "Choice of the group slo that this demand has, where the command line names none.",
        auto="the run's SLO",
    ),
    _asked(
        "request_rate",
        "float",
        "Requests per second of all users together, on average over a busy hour.",
        low=0,
        low_open=True,
        high=1e9,
        unit="1/s",
        auto="the trace's rate (its busiest minute, whose peak factor is 1); else concurrency sizes the fleet",
    ),
    _asked(
        "concurrency",
        "float",
        "Requests in flight of all users together, instead of a rate.",
        low=0,
        low_open=True,
        unit="requests",
        auto="request_rate sizes the fleet",
    ),
    _asked("growth", "float", "Growth to plan for: 0.2 = 20 % more.", default=0.0, low=-0.99),
    _asked(
        "peak_factor", "float", "Highest load over the average that request_rate states.", default=1.0, low=0, low_open=True
    ),
    _asked(
        "spare",
        "int",
        "Replicas of each pool that may fail while the rest still meets the SLO: 1 is N+1.",
        default=1,
        low=0,
        high=64,
        unit="replicas",
    ),
    _asked("percentile", "float", "Percentile of requests at which each limit of the SLO holds.", default=95.0, low=50, high=99.9),
    _asked(
        "goodput_share",
        "float",
        "Share of requests that must meet every limit of the SLO at once.",
        default=0.9,
        low=0,
        high=0.999,
    ),
    _asked("max_gpus", "int", "Most GPUs that the fleet may have.", low=1, auto="no limit"),
    _asked("budget_usd_per_hour", "float", "Most that the fleet may cost.", low=0, low_open=True, unit="$/h", auto="no limit"),
    _asked("objective", "choice", "Which of the two answers leads.", choices=OBJECTIVES, default="cheapest"),
    _asked(
        "pools", "choice", "Whether replicas prefill and decode, pools split the two, or the better of both.",
        choices=POOLS, default="both",
    ),
    _asked("mixed", "bool", "Whether a fleet may mix two accelerator types.", default=True),
    _asked("simulate", "bool", "Whether the simulator verifies the short list.", default=True),
    _asked(
        "replicas",
        "int",
        "Replicas of a fleet that exists: the answer is then the load that it sustains.",
        low=1,
        auto="the answer",
    ),
    _asked("short_list", "int", "Plans that are verified and listed.", default=5, low=1, high=50),
    _asked("seed", "int", "Seed of the simulated requests.", default=0, low=0, high=2**32),
)  # fmt: skip
