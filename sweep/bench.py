"""How fast this machine evaluates and simulates: the figures of `servesweep bench`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sweep.compilation import announced
from sweep.evaluate import BlockJob, Evaluator, run_blocks
from sweep.speed import relative_speed

BENCH_REQUESTS, REPLAY_REQUESTS = 20_000, 300
BENCH_RATE = 32.0
BENCH_ISL, BENCH_OSL = (6.9, 0.7), (5.3, 0.8)
"""Lognormal lengths: mean and standard deviation of ln(tokens)."""
BENCH_DEPLOYMENT = {
    "model": "llama_3_1_70b",
    "hardware": "h100_sxm",
    "tp": 8,
    "linear_dtype": "fp8",
    "kv_cache_dtype": "fp8",
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 256,
}
STARTUP = ("estimate", "--model", "llama_3_1_8b", "--hardware", "h100_sxm", "--tp", "1")
"""What a fresh process does to measure the start of a program whose kernels are compiled."""
KIB_PER_MIB = 1024.0


def figures() -> dict[str, Any]:
    """Every figure, and under `ran` what was run for it."""
    job, settings = default_job()
    with announced():
        job.evaluator.summariser.summary(job.evaluator.frame_of(np.array([0])))
    relative = relative_speed(job.evaluator)
    kernel_s = _kernel_seconds(job)
    total_s, feasible = _end_to_end_seconds(job, settings)
    rows = job.evaluator.grid.n_rows
    simulated = simulation_figures()
    return {
        "rows_per_s": round(rows / total_s),
        "kernel_rows_per_s": round(rows / kernel_s),
        "kernel_row_us": round(relative.row_us, 3),
        "reference_ns": round(relative.reference_ns, 3),
        "kernel_ratio": round(relative.ratio, 1),
        **simulated,
        "startup_s": round(_startup_s(), 3),
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB),
        "ran": {
            "grid": "default",
            "rows": rows,
            "feasible_share": round(feasible / rows, 4),
            "workers": _workers(),
            "simulation": f"{BENCH_REQUESTS} requests at {BENCH_RATE:g}/s (Poisson, lognormal lengths) on one "
            "{model}, {hardware} tp{tp} {linear_dtype}, {max_num_batched_tokens} tokens and {max_num_seqs} sequences "
            "per step".format(**BENCH_DEPLOYMENT),
            "replay": f"{REPLAY_REQUESTS} requests of 512 + 128 tokens at 8/s on the built-in cluster",
            "startup": f"servesweep {' '.join(STARTUP)}",
        },
    }


def _workers() -> int:
    return os.cpu_count() or 1


def default_job() -> tuple[BlockJob, dict[str, Any]]:
    from sweep.coefficients import coefficients
    from sweep.hydra_sweeper import compose_grid

    grid = compose_grid(["grid=default"])
    fitted = coefficients(grid.hardware, str(grid.settings["fidelity.level"]))
    return BlockJob(
        Evaluator(grid, fitted), int(grid.settings["executor.block_rows"]), "all", None
    ), grid.settings


def _kernel_seconds(job: BlockJob) -> float:
    """Grid decode and kernel alone, on all cores."""
    began = time.perf_counter()
    with ThreadPoolExecutor(_workers()) as pool:
        for _ in pool.map(lambda i: job.evaluator.block(*job.rows_of(i)).shape, range(job.n_blocks)):
            pass
    return time.perf_counter() - began


def _end_to_end_seconds(job: BlockJob, settings: dict[str, Any]) -> tuple[float, int]:
    """Grid decode, kernel, frame, summary and synced parquet parts; and how many rows were feasible."""
    with tempfile.TemporaryDirectory() as folder:
        writing = BlockJob(job.evaluator, job.block_rows, "all", Path(folder))
        began = time.perf_counter()
        summaries = [summary for _, summary in run_blocks(writing, range(job.n_blocks), settings)]
        return time.perf_counter() - began, sum(s.reasons.get("", 0) for s in summaries)


def simulation_figures() -> dict[str, float]:
    """Engine steps and requests simulated per second, and the time of a short replay."""
    _loop(8)
    replayed(8)
    steps, seconds = _loop(BENCH_REQUESTS)
    return {
        "des_steps_per_s": round(steps / seconds),
        "des_requests_per_s": round(BENCH_REQUESTS / seconds),
        "replay_ms": round(replayed(REPLAY_REQUESTS) * 1e3, 2),
    }


def _loop(n_requests: int) -> tuple[int, float]:
    """(engine steps, seconds of the event loop) of `n_requests` on the benchmark's deployment, the best of three."""
    from sweep.fidelity import coefficients_for, coefficients_of
    from sweep.point_rows import row_values
    from sweep.records import default_records, set_values
    from sweep.simulate.deployment import deployment
    from sweep.simulate.runner import simulate
    from sweep.simulate.world import RunOptions
    from sweep.traces.synthetic import Traffic, synthesize

    record = default_records(1)
    set_values(record[0], row_values(BENCH_DEPLOYMENT))
    fitted = coefficients_of(coefficients_for("fitted"), record)
    isl, osl = (float(np.exp(mu + sigma * sigma / 2.0)) for mu, sigma in (BENCH_ISL, BENCH_OSL))
    traffic = Traffic(
        n_requests,
        BENCH_RATE,
        distribution="lognormal",
        isl=isl,
        osl=osl,
        isl_sigma=BENCH_ISL[1],
        osl_sigma=BENCH_OSL[1],
    )
    requests = synthesize(traffic)
    one = deployment(record, fitted)
    outcomes = [simulate([one.instance()], requests, RunOptions()) for _ in range(3)]
    best = min(outcomes, key=lambda outcome: outcome.wall_s)
    return int(best.world.inst["n_steps"].sum()), best.wall_s


def replayed(n_requests: int) -> float:
    """Seconds to replay `n_requests` at a fixed rate on the built-in cluster, building the simulation included."""
    from sweep.simulate import command, tier
    from sweep.simulate.arguments import parse
    from sweep.simulate.cluster import read_cluster
    from sweep.simulate.instances import build_instances
    from sweep.simulate.runner import simulate
    from sweep.traces.requests import Requests

    options = parse([])
    cluster = read_cluster(command.default_cluster())
    built = build_instances(cluster, command.defaults_of(options), command.pricing_of(options))
    arrivals = np.arange(n_requests, dtype=np.int64) * 125_000_000
    isl, osl = np.full(n_requests, 512, np.int32), np.full(n_requests, 128, np.int32)
    requests = Requests(arrivals, isl, osl, file_order=np.arange(n_requests))
    pools = tier.pools(built, cluster, options.prefix_storage, options.enable_prefix_sharing)
    began = time.perf_counter()
    simulate(
        [b.instance for b in built],
        requests,
        command.run_options(options, requests, pools),
    )
    return time.perf_counter() - began


def _startup_s() -> float:
    command = [sys.executable, "-m", "sweep", *STARTUP]
    for _ in range(2):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
    return seconds
