"""Why there is no plan: which constraint binds and by how much the nearest deployment misses it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from kernels.reasons import KV_BELOW_ONE_REQUEST, OK, TEXT, WEIGHTS_DO_NOT_FIT
from sweep.planner.candidates import Candidates
from sweep.planner.capacity import Capacity
from sweep.planner.demand import LATENCIES, Demand, Limits
from sweep.planner.names import deployment_name, plan_name
from sweep.planner.plans import Plan


def weights_miss(candidates: Candidates, capacity: Capacity, rows: npt.NDArray[np.int64]) -> str:
    """The sentence for weights that fit nowhere, with the width that would hold them."""
    records, results = candidates.records, capacity.results
    need = results["weights_gib_per_gpu"][rows] / records["hbm_gib"][rows]
    row = int(rows[np.argmin(need)])
    width = required_tp(candidates, capacity, row)
    return (
        f"the weights do not fit: nearest is {deployment_name(candidates, row)}, which takes"
        f" {results['weights_gib_per_gpu'][row]:,.1f} GiB of weights per GPU and has {records['hbm_gib'][row]:,.1f} GiB"
        f" (tp of about {width} would hold them)"
    )


def required_tp(candidates: Candidates, capacity: Capacity, row: int) -> int:
    """Smallest power of two that shards the weights into what the memory leaves beside activations and reserves."""
    record, result = candidates.records[row], capacity.results[row]
    share = record["gpu_memory_utilization"]
    room = record["hbm_gib"] * (0.9 if math.isnan(share) else share)
    room -= np.nan_to_num(result["activation_gib_per_gpu"]) + np.nan_to_num(result["reserve_gib_per_gpu"])
    whole = float(result["weights_gib_per_gpu"] * record["tp"])
    return 1 << math.ceil(math.log2(max(whole / max(room, 1e-3), 1.0)))


def cache_miss(candidates: Candidates, capacity: Capacity, rows: npt.NDArray[np.int64]) -> str:
    """The sentence for KV caches that hold no whole request."""
    held = np.nan_to_num(capacity.results["kv_capacity_tokens"][rows])
    row = int(rows[np.argmax(held)])
    record = candidates.records[row]
    asked = record["isl"] + record["osl"]
    longest = asked if math.isnan(record["max_model_len"]) else record["max_model_len"]
    return (
        f"the weights fit but the KV cache is smaller than one request: nearest is {deployment_name(candidates, row)},"
        f" which holds {held.max():,.0f} tokens of the {longest:,.0f} that one request may have"
    )


def slo_miss(candidates: Candidates, capacity: Capacity, limits: Limits) -> str:
    """The sentence for a limit that no deployment keeps, however little load it has."""
    excess = np.zeros(len(candidates))
    for name in LATENCIES:
        excess = np.fmax(excess, np.nan_to_num(getattr(capacity, name), nan=np.inf) / getattr(limits, name))
    excess[capacity.reason != OK] = np.inf
    row = int(np.argmin(excess))
    missed = [
        f"{name.removesuffix('_ms').upper()} {value:,.4g} ms where {limit:,.6g} ms is allowed"
        for name in LATENCIES
        if (value := float(getattr(capacity, name)[row])) > (limit := getattr(limits, name))
    ]
    told = ", ".join(missed) or "and keeps it only while its requests do not overlap"
    return (
        f"no deployment meets the SLO: nearest is {deployment_name(candidates, row)}, nearly idle:"
        f" {told} at p{limits.percentile:g}"
    )


def why(candidates: Candidates, capacity: Capacity, limits: Limits, any_meets: bool) -> str | None:
    """What keeps every deployment from serving at all; None where one meets the SLO."""
    if any_meets:
        return None
    if (capacity.reason == OK).any():
        return slo_miss(candidates, capacity, limits)
    short = np.flatnonzero(capacity.reason == KV_BELOW_ONE_REQUEST)
    if short.size:
        return cache_miss(candidates, capacity, short)
    heavy = np.flatnonzero(capacity.reason == WEIGHTS_DO_NOT_FIT)
    if heavy.size:
        return weights_miss(candidates, capacity, heavy)
    reason, n = Counter(capacity.reason.tolist()).most_common(1)[0]
    return f"no deployment is possible: {TEXT[reason]} ({n:,} of {len(candidates):,} deployments)"


def limits_miss(demand: Demand, cheapest: Plan | None, smallest: Plan | None, candidates: Candidates) -> str:
    """Why no fleet is allowed although deployments meet the SLO; the plans are the best without limits."""
    if smallest is not None and smallest.gpus > demand.max_gpus:
        return (
            f"too few GPUs: the smallest fleet takes {smallest.gpus:,} GPUs ({plan_name(smallest, candidates)})"
            f" and demand.max_gpus is {demand.max_gpus:,.0f}"
        )
    if cheapest is None:
        return (
            "no accelerator that meets the SLO has a price in this book: set price.usd_per_gpu_hour, another price book,"
            " or demand.objective=smallest"
        )
    if cheapest.usd_per_hour > demand.budget_usd_per_hour:
        return (
            f"over budget: the cheapest fleet costs ${cheapest.usd_per_hour:,.2f}/h"
            f" ({plan_name(cheapest, candidates)}) and demand.budget_usd_per_hour is {demand.budget_usd_per_hour:,.2f}"
        )
    return (
        f"no fleet keeps both limits: the cheapest has {cheapest.gpus:,} GPUs at ${cheapest.usd_per_hour:,.2f}/h"
        f" ({plan_name(cheapest, candidates)}); demand.max_gpus is {demand.max_gpus:,.0f} and"
        f" demand.budget_usd_per_hour {demand.budget_usd_per_hour:,.2f}"
    )
