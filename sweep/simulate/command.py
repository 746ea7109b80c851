"""What `servesweep simulate` does: read, simulate, write, tell."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kernels.des_layout import (
    EXPERTS_BALANCED,
    EXPERTS_RAND,
    EXPERTS_RR,
    ROUTE_CUSTOM,
    ROUTE_KV,
    ROUTE_LEAST,
    ROUTE_LOAD,
    ROUTE_PREFIX,
    ROUTE_RAND,
    ROUTE_RR,
)
from sweep.errors import EXIT_NO_ANSWER, UserError
from sweep.files import check_target, is_device
from sweep.paths import conf_dir
from sweep.simulate import outputs, power, tier
from sweep.simulate.cluster import ClusterConfig, read_cluster
from sweep.simulate.custom import entry_point
from sweep.simulate.heartbeat import heartbeats
from sweep.simulate.instances import Built, Defaults, Pricing, build_instances, memory_report
from sweep.simulate.runner import Outcome, request_frame, simulate, summary
from sweep.simulate.stream import Totals, can_stream, in_blocks, simulate_stream
from sweep.simulate.tier import Pool
from sweep.simulate.world import RunOptions
from sweep.traces.requests import Requests

ROUTING = {
    "LOAD": ROUTE_LOAD,
    "RR": ROUTE_RR,
    "RAND": ROUTE_RAND,
    "CUSTOM": ROUTE_CUSTOM,
    "round_robin": ROUTE_RR,
    "random": ROUTE_RAND,
    "least_loaded": ROUTE_LEAST,
    "prefix_aware": ROUTE_PREFIX,
    "kv": ROUTE_KV,
}
EXPERTS = {"BALANCED": EXPERTS_BALANCED, "RR": EXPERTS_RR, "RAND": EXPERTS_RAND}
NS_PER_US, NS_PER_MS = 1e3, 1e6
MOST_RECORDED_TOKENS = 200_000_000
MOST_LOGGED_STEPS = 5_000_000
RUN_ID = "{run_id}"
"""Stands for the run's name in the paths of outputs."""


def default_cluster() -> Path:
    """The built-in cluster configuration: one node, one instance."""
    return conf_dir() / "simulate" / "single_node_single_instance.json"


def default_requests(n_instances: int) -> Requests:
    """What runs without a dataset: 16 requests per instance, prompt 64, 64 generated, all at time 0."""
    n = 16 * n_instances
    return Requests(
        np.zeros(n, np.int64), np.full(n, 64, np.int32), np.full(n, 64, np.int32), file_order=np.arange(n)
    )


def load_requests(options: argparse.Namespace, n_instances: int) -> Requests:
    """The dataset of the command line."""
    if options.dataset is None:
        return default_requests(n_instances)
    from sweep.traces.reader import read

    trace = read(options.dataset, limit=options.num_reqs, on_bad_line=options.on_bad_line)
    for line in trace.report.lines():
        print(f"servesweep simulate: {line}", file=sys.stderr)
    return trace.requests


def defaults_of(options: argparse.Namespace) -> Defaults:
    """Per-instance flags of the command line."""
    return Defaults(**{name: getattr(options, name) for name in Defaults.__dataclass_fields__})


SEQUENCE_OVERHEAD_US = 2.0
"""Host time per sequence of a step (input batch, sampling metadata, output handling) where operator tables price the
device. Fitted to two runs of vLLM 0.19 (RTX 4090 with 40 to 256 sequences, RTX PRO 6000 with up to 128): one value brings
TPOT and latency of both within 1.4 % at every percentile. The step model has its own fitted host costs."""


def extras(options: argparse.Namespace) -> tuple[tuple[str, Any], ...]:
    """Settings that every instance shares and that no cluster configuration names."""
    measured = options.operator_profiles is not None and not options.compat
    sequence_us = options.sequence_overhead_us
    if sequence_us is None:
        sequence_us = SEQUENCE_OVERHEAD_US if measured else 0.0
    return (
        ("skip_prefill", int(options.skip_prefill and not options.compat)),
        ("spec_tokens", int(options.speculative_num_tokens)),
        ("spec_acceptance", options.speculative_acceptance_rate),
        ("draft_cost", options.speculative_draft_cost_factor),
        ("exclusive_prefill", int(options.exclusive_prefill)),
        ("max_prefill_seqs", int(options.max_prefill_seqs)),
        ("kv_pool_tokens", int(options.kv_cache_tokens)),
        ("stream_interval", int(options.stream_interval)),
        ("step_overhead_ns", (options.step_overhead_us or 0.0) * NS_PER_US),
        ("mixed_overhead_ns", (options.mixed_step_overhead_us or 0.0) * NS_PER_US),
        ("sequence_overhead_ns", sequence_us * NS_PER_US),
    )


def pricing_of(options: argparse.Namespace) -> Pricing:
    """What prices the steps."""
    if options.operator_profiles is not None and not options.operator_profiles.is_dir():
        raise UserError("is not a folder", field="--operator-profiles", value=options.operator_profiles)
    return Pricing(
        profiles=options.operator_profiles,
        fidelity=options.fidelity,
        compat=options.compat,
        expert_policy=EXPERTS[options.expert_routing_policy],
        extra=extras(options),
    )


def run_options(
    options: argparse.Namespace,
    requests: Requests,
    pools: tuple[Pool, ...],
    every_step: bool = False,
) -> RunOptions:
    """What concerns the whole run; `every_step`: something else than the command line needs the log of steps."""
    wants_tokens = options.output is not None or options.stream_interval > 1
    wants_steps = every_step or any(
        (options.steps, options.chrome_trace, options.plot, options.save_trace_text)
    )
    n_tokens = int(requests.osl.sum(dtype=np.int64))
    if wants_tokens and n_tokens > MOST_RECORDED_TOKENS:
        raise UserError(f"{n_tokens:,} output tokens are too many for a CSV with every gap; use --parquet")
    return RunOptions(
        pools=pools,
        policy=ROUTING[options.request_routing_policy],
        compat=options.compat,
        seed=options.seed,
        record_tokens=wants_tokens,
        log_steps=MOST_LOGGED_STEPS if wants_steps else 0,
        request_overhead_ns=int((options.request_overhead_ms or 0.0) * NS_PER_MS),
        bucket_ns=max(1, int(options.log_interval * 1e9)),
        first_alarm_ns=max(1, int(options.log_interval * 1e9)),
    )


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,} requests", end="" if done < total else "\n", file=sys.stderr)


def write_outputs(
    options: argparse.Namespace,
    run_id: str,
    outcome: Outcome,
    frame: pl.DataFrame,
    told: dict[str, Any],
    built: list[Built],
    cluster: ClusterConfig,
) -> None:
    """Every file that the command line asks for."""

    path = functools.partial(named, run_id=run_id)
    if options.output is not None:
        outputs.write_csv(outcome, frame, path(options.output))
    if options.parquet is not None:
        outputs.write_parquet(frame, path(options.parquet))
    if options.summary is not None:
        outputs.write_text(path(options.summary), json.dumps(told, indent=1) + "\n")
    if options.steps is not None:
        outputs.write_steps(outcome, path(options.steps))
    if options.chrome_trace is not None:
        outputs.write_chrome_trace(outcome, frame, path(options.chrome_trace))
    if options.plot is not None:
        from sweep.simulate.page import write_page

        write_page(outcome, frame, path(options.plot))
    if options.keep_inputs or options.save_trace_text:
        from sweep.simulate.kept import keep_inputs

        root = options.inputs_root or Path("results") / "runs" / run_id
        keep_inputs(path(root), outcome, built, cluster, text=options.save_trace_text)


def compared(
    options: argparse.Namespace,
    built: list[Built],
    requests: Requests,
    settings: RunOptions,
    told: dict[str, Any],
) -> dict[str, Any]:
    """The same requests under another routing policy: its figures, and how far this run's are from them."""
    other = replace(settings, policy=ROUTING[options.compare_routing], log_steps=0, record_tokens=False)
    outcome = simulate([one.instance for one in built], requests, other)
    theirs = summary(outcome, request_frame(outcome, [one.config.model_name for one in built]))
    figures = ("prefix_hit_tokens", "ttft_ms_mean", "ttft_ms_p99", "tpot_ms_mean", "output_throughput_tok_s")
    known = [name for name in figures if theirs.get(name) and told.get(name) is not None]
    return {
        "policy": options.compare_routing,
        "figures": {name: theirs[name] for name in known},
        "change": {name: told[name] / theirs[name] - 1.0 for name in known},
    }


STREAM_FROM = 262_144
"""Requests from which a run that asks for its summary alone is streamed."""


def is_streamed(options: argparse.Namespace, requests: Requests, settings: RunOptions) -> bool:
    """Whether the run can forget requests as they end: it is long and wants nothing of single requests or steps."""
    wanted = ("output", "parquet", "plot", "chrome_trace", "request_routing_function", "compare_routing")
    limits = (options.slo_ttft_ms, options.slo_tpot_ms, options.slo_e2e_ms)
    plain = not any(getattr(options, name) for name in wanted) and settings.log_steps == 0
    plain = plain and options.stream_interval <= 1 and all(limit is None for limit in limits)
    return plain and len(requests) >= STREAM_FROM and can_stream(requests, settings)


def run_streamed(
    options: argparse.Namespace,
    built: list[Built],
    requests: Requests,
    settings: RunOptions,
    run_id: str,
) -> int:
    """Simulate without keeping requests; prints and writes the summary."""
    totals, began = Totals(), time.perf_counter()
    world = simulate_stream(
        [one.instance for one in built],
        in_blocks(requests),
        settings,
        totals,
        lambda done: _progress(done, len(requests)),
    )
    told = totals.summary(world, time.perf_counter() - began) | {"run_id": run_id}
    if options.summary is not None:
        outputs.write_text(named(options.summary, run_id), json.dumps(told, indent=1) + "\n")
    print(json.dumps(told) if options.json else outputs.summary_text(told))
    return _told_unfinished(told)


def warn_partial_power(cluster: ClusterConfig) -> None:
    """Say so where only some nodes tell what they draw: then no energy is modelled."""
    if any(node.power for node in cluster.nodes) and not power.is_given(cluster):
        print(
            "servesweep simulate: power is not given for every node: no energy is modelled",
            file=sys.stderr,
        )


def refuse_targets(options: argparse.Namespace, run_id: str) -> None:
    """Raises UserError, before anything is simulated, where a file cannot be written, or two outputs are one file."""
    taken: dict[Path, str] = {}
    for name in ("output", "parquet", "summary", "steps", "chrome_trace", "plot"):
        asked, option = getattr(options, name), f"--{name.replace('_', '-')}"
        if asked is None:
            continue
        target = named(asked, run_id)
        if RUN_ID in str(asked.parent) and not target.parent.exists():  # a run makes the folder of its name
            target = next(folder for folder in asked.parents if RUN_ID not in str(folder)) / run_id
        check_target(target, option)
        if not is_device(asked) and (other := taken.setdefault(asked.resolve(), option)) != option:
            raise UserError(f"is the file of {other} too", field=option, value=asked)


def named(path: Path, run_id: str) -> Path:
    """An output's path with the run's name in it."""
    return Path(str(path).replace(RUN_ID, run_id))


def run(options: argparse.Namespace) -> int:
    """Simulate as the command line says. Raises UserError for what a person got wrong."""
    run_id = options.run_id or f"run_{int(time.time() * 1e6)}_{os.getpid()}"
    refuse_targets(options, run_id)
    cluster = read_cluster(options.cluster_config or default_cluster())
    if options.network_backend == "ns3":
        from sweep.simulate.network import with_simulated_links

        cluster = with_simulated_links(cluster)
    warn_partial_power(cluster)
    built = build_instances(cluster, defaults_of(options), pricing_of(options))
    requests = load_requests(options, len(built))
    if options.log_level != "WARNING":
        for k, one in enumerate(built):
            print(f"Instance[{k}]: {memory_report(one)}", file=sys.stderr)
    pools = tier.pools(built, cluster, options.prefix_storage, options.enable_prefix_sharing)
    settings = run_options(options, requests, pools, power.is_given(cluster))
    if is_streamed(options, requests, settings):
        return run_streamed(options, built, requests, settings, run_id)
    chosen = options.request_routing_function
    outcome = simulate(
        [one.instance for one in built],
        requests,
        settings,
        _progress,
        entry_point(chosen) if chosen is not None else None,
    )
    frame = request_frame(outcome, [one.config.model_name for one in built])
    slo = {"ttft_ms": options.slo_ttft_ms, "tpot_ms": options.slo_tpot_ms, "e2e_ms": options.slo_e2e_ms}
    told = summary(outcome, frame, {k: v for k, v in slo.items() if v is not None})
    told["run_id"] = run_id
    if options.compare_routing is not None:
        told["compared"] = compared(options, built, requests, settings, told)
    used = power.energy(outcome, built, cluster) if power.is_given(cluster) else None
    if used is not None:
        told |= used.summary()
    for line in heartbeats(outcome, built, cluster, used):
        print(f"{line}\n", end="", file=sys.stderr)  # at once: an interruption must not part it from its end
    write_outputs(options, run_id, outcome, frame, told, built, cluster)
    left = frame.filter(pl.col("status") != "finished")["reason"].unique(maintain_order=True).to_list()
    print(json.dumps(told) if options.json else "\n".join([outputs.summary_text(told), *power.text(told)]))
    return _told_unfinished(told, left)


def _told_unfinished(told: dict[str, Any], reasons: Sequence[str] = ()) -> int:
    """Say on stderr how many requests did not finish and why; the exit status, which is that of no answer where none did."""
    left = told["requests"] - told["finished"]
    if left:
        why = "; ".join(reason or "left in the queue" for reason in reasons)
        print(
            f"servesweep simulate: {left:,} of {told['requests']:,} requests did not finish{': ' if why else ''}{why}",
            file=sys.stderr,
        )
    return 0 if told["finished"] else EXIT_NO_ANSWER
