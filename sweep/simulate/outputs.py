"""Files that a simulation writes: per-request tables, steps, a Chrome trace, the summary in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kernels.des_layout import STEP
from sweep.errors import UserError
from sweep.files import replaced
from sweep.simulate.runner import Outcome, inter_token_ns

CSV_COLUMNS = (
    "instance id",
    "request id",
    "model",
    "input",
    "output",
    "arrival",
    "end_time",
    "latency",
    "queuing_delay",
    "TTFT",
    "TPOT",
)
"""Columns of the specification, before the list of gaps between tokens."""


def write_atomically(path: Path, write: Any, mode: str = "w") -> None:
    """Write through a temporary name beside `path`, synchronised, then renamed: a reader sees all or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # kept inputs, and a run's own folder
        with replaced(path, mode) as stream:
            write(stream)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", file=str(path)) from error


def write_text(path: Path, text: str) -> None:
    """One text file."""
    write_atomically(path, lambda stream: stream.write(text))


def csv_lines(outcome: Outcome, frame: pl.DataFrame) -> Iterator[str]:
    """Lines of the per-request CSV: finished requests with the list of their inter-token gaps in ns."""
    yield ",".join((*CSV_COLUMNS, "ITL")) + "\n"
    done = frame.filter(pl.col("status") == "finished")
    for row in done.select(*CSV_COLUMNS, "row").iter_rows():
        gaps = ", ".join(map(str, inter_token_ns(outcome, row[-1]).tolist()))
        yield ",".join(map(str, row[:-1])) + f',"[{gaps}]"\n'


def write_csv(outcome: Outcome, frame: pl.DataFrame, path: Path) -> None:
    """The per-request CSV of the specification (section 10)."""
    write_atomically(path, lambda stream: stream.writelines(csv_lines(outcome, frame)))


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """The per-request table with every column, rejected and unfinished requests included."""
    write_atomically(path, lambda stream: frame.drop("row").write_parquet(stream), "wb")


def step_frame(outcome: Outcome) -> pl.DataFrame:
    """The step log as a table; times in ns."""
    log = outcome.world.arrays["log"][: int(outcome.world["n_log"])]
    return pl.DataFrame({name: log[name] for name in STEP.names or ()})


def packing(outcome: Outcome, steps: pl.DataFrame) -> dict[str, Any]:
    """How full the steps were."""
    inst = outcome.world.inst
    blocks = int(inst["n_blocks"].sum())
    seqs = steps["prefill_seqs"] + steps["n_decode"]
    return {
        "num_steps": steps.height,
        "avg_batch_size": seqs.mean(),
        "max_batch_size": seqs.max(),
        "avg_prefill_reqs": steps["prefill_seqs"].mean(),
        "avg_decode_reqs": steps["n_decode"].mean(),
        "avg_query_tokens": steps["tokens"].mean(),
        "prefill_step_fraction": (steps["prefill_seqs"] > 0).mean(),
        "kv_peak_tokens": int((inst["peak_blocks"] * inst["block_size"]).sum()),
        "kv_utilization": int(inst["peak_blocks"].sum()) / max(1, blocks),
    }


def write_steps(outcome: Outcome, path: Path) -> None:
    """Every engine step: parquet by suffix, else JSON {config, packing, steps} (specification 2, section 12.7)."""
    steps = step_frame(outcome)
    if path.suffix == ".parquet":
        write_atomically(path, lambda stream: steps.write_parquet(stream), "wb")
        return
    inst = outcome.world.inst
    config = {
        name: inst[name].tolist()
        for name in ("max_seqs", "budget", "block_size", "n_blocks", "tp", "pp", "role")
    }
    size = inst["block_size"]
    rows = [
        {
            "step": k,
            "instance": row["instance"],
            "time_ms": row["end"] / 1e6,
            "step_ms": (row["end"] - row["start"]) / 1e6,
            "batch_size": row["prefill_seqs"] + row["n_decode"],
            "num_prefill_reqs": row["prefill_seqs"],
            "num_decode_reqs": row["n_decode"],
            "total_query_tokens": row["tokens"],
            "kv_tokens_in_use": row["blocks_used"] * int(size[row["instance"]]),
            "running": row["running"],
            "waiting": row["waiting"],
        }
        for k, row in enumerate(steps.iter_rows(named=True))
    ]
    whole = {"config": config, "packing": packing(outcome, steps), "steps": rows}
    write_text(path, json.dumps(whole) + "\n")


def _trace_events(outcome: Outcome, frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for k in range(len(outcome.world.inst)):
        yield {"ph": "M", "name": "process_name", "pid": k, "args": {"name": f"instance {k}"}}
    for row in step_frame(outcome).iter_rows(named=True):
        kind = "decode" if row["prefill_seqs"] == 0 else "prefill" if row["n_decode"] == 0 else "mixed"
        yield {
            "ph": "X",
            "name": kind,
            "pid": row["instance"],
            "tid": 0,
            "ts": row["start"] / 1e3,
            "dur": (row["end"] - row["start"]) / 1e3,
            "args": {
                name: row[name] for name in ("tokens", "prefill_seqs", "n_decode", "blocks_used", "waiting")
            },
        }
        yield {
            "ph": "C",
            "name": "requests",
            "pid": row["instance"],
            "ts": row["end"] / 1e3,
            "args": {"running": row["running"], "waiting": row["waiting"]},
        }
    for row in frame.filter(pl.col("status") == "finished").iter_rows(named=True):
        common = {"cat": "request", "name": "request", "pid": row["instance id"], "id": row["request id"]}
        yield {"ph": "b", "ts": row["arrival"] / 1e3, **common}
        yield {
            "ph": "n",
            "ts": (row["arrival"] + row["TTFT"]) / 1e3,
            **common,
            "args": {"event": "first token"},
        }
        yield {"ph": "e", "ts": row["end_time"] / 1e3, **common}


def write_chrome_trace(outcome: Outcome, frame: pl.DataFrame, path: Path) -> None:
    """Steps as slices, queue lengths as counters, requests as asynchronous spans."""

    def write(stream: Any) -> None:
        stream.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        for k, event in enumerate(_trace_events(outcome, frame)):
            stream.write((",\n" if k else "") + json.dumps(event))
        stream.write("\n]}\n")

    write_atomically(path, write)


def summary_text(told: dict[str, Any]) -> str:
    """The summary in words."""
    lines = [
        f"requests        {told['finished']:,} finished, {told['rejected']:,} rejected, {told['unfinished']:,} unfinished",
        f"Total clocks (ns) {told['makespan_ns']}",
        f"steps           {told['steps']:,} ({told['mixed_steps']:,} mixed), simulated in {told['wall_s'] * 1e3:.1f} ms",
        f"throughput      {told['request_throughput_per_s']:.3f} requests/s, {told['output_throughput_tok_s']:.1f} output tokens/s, "
        f"{told['total_throughput_tok_s']:.1f} tokens/s",
    ]
    if told["preemptions"]:
        lines.append(
            f"preemptions     {told['preemptions']:,}, {told['recomputed_tokens']:,} tokens recomputed"
        )
    if told["prefix_hit_tokens"]:
        recalled = told["prefix_recalled_tokens"]
        lines.append(
            f"prefix cache    {told['prefix_hit_tokens']:,} of {told['prefix_asked_tokens']:,} prompt tokens"
            + (f", {recalled:,} of them recalled from the second tier" if recalled else "")
        )
    head = f"{'ms':8s}{'mean':>12s}{'p50':>12s}{'p90':>12s}{'p95':>12s}{'p99':>12s}"
    rows = [head]
    for name in ("ttft", "tpot", "itl", "e2e"):
        cells = [told.get(f"{name}_ms_{q}", np.nan) for q in ("mean", "p50", "p90", "p95", "p99")]
        if np.isfinite(cells[1:]).any():
            rows.append(
                f"{name.upper():8s}" + "".join(f"{c:12.2f}" if np.isfinite(c) else f"{'':12s}" for c in cells)
            )
    if len(rows) > 1:
        lines += rows
    if "goodput_per_s" in told:
        lines.append(
            f"goodput         {told['goodput_per_s']:.3f} requests/s ({told['slo_attainment']:.1%} meet the SLO)"
        )
    if "compared" in told:
        words = {"prefix_hit_tokens": "prefix hits", "ttft_ms_mean": "TTFT mean", "ttft_ms_p99": "TTFT p99",
                 "tpot_ms_mean": "TPOT mean", "output_throughput_tok_s": "output tokens/s"}  # fmt: skip
        changes = [f"{words[name]} {change:+.1%}" for name, change in told["compared"]["change"].items()]
        lines.append(f"against {told['compared']['policy']:8s}" + ", ".join(changes))
    return "\n".join(lines)
