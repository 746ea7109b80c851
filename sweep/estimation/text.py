"""An estimate as a person reads it, and as a program does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from kernels.reasons import KV_BELOW_ONE_REQUEST, TEXT, WEIGHTS_DO_NOT_FIT
from sweep.catalog.engine_layer import FAR, NEAR, RELATED
from sweep.estimation.price import Estimate
from sweep.fields.inert import notes
from sweep.fields.workload import LOADS
from sweep.memory import MemoryAccount
from sweep.results import LOWER_BOUND

if TYPE_CHECKING:
    from sweep.estimation.anchoring import Anchoring
    from sweep.estimation.simulated import Simulation

WEIGHT_NAMES = {
    "attn": "attention",
    "mlp": "dense MLPs",
    "experts": "routed experts",
    "shared": "shared experts",
    "router": "router",
    "embed": "embedding",
    "head": "LM head",
    "other": "norms and the like",
}
STEP_PARTS = (
    ("gemm", "GEMM"),
    ("attention", "attention"),
    ("moe", "experts"),
    ("tp_comm", "all-reduce, exposed"),
    ("ep_comm", "expert exchange, exposed"),
    ("pp_comm", "pipeline hops and bubbles"),
    ("host", "host and launches"),
    ("other", "norms, casts, sampling"),
)
MEMORY_VERDICTS = (TEXT[WEIGHTS_DO_NOT_FIT], TEXT[KV_BELOW_ONE_REQUEST])
EVIDENCE_MEANING = {
    NEAR: "this model was measured on this accelerator under this engine",
    RELATED: "other models were measured on this accelerator's family under this engine",
    FAR: "nothing was measured on this accelerator's family under this engine",
    LOWER_BOUND: "datasheet peaks: every engine is slower",
}
SIDE_BY_SIDE = (
    ("ttft_ms", "TTFT", "ms"),
    ("tpot_ms", "TPOT", "ms"),
    ("e2e_ms", "end to end", "ms"),
    ("output_tok_s_per_gpu", "output", "tok/s/GPU"),
    ("usd_per_m_total", "cost", "$/M tokens"),
)
COMMUNICATION = ("tp_comm", "ep_comm", "pp_comm")
PERFORMANCE, MEMORY, BOTH = "performance", "memory", "both"


def print_report(result: Estimate, mode: str = BOTH, console: Console | None = None) -> None:
    """The report on standard output."""
    console = console or Console(highlight=False, soft_wrap=False)
    console.print(f"[bold]{headline(result)}[/bold]")
    console.print()
    if mode in (MEMORY, BOTH):
        for title, memory in memory_of_pools(result):
            _print_memory(title, memory, console)
    if mode in (PERFORMANCE, BOTH):
        _print_performance(result, console)
    priced = mode != MEMORY and not result.reason
    for note in (*result.notes, *_provenance(result), *result.price_notes) if priced else result.notes:
        console.print(f"note: {note}", style="dim", markup=False)


def _provenance(result: Estimate) -> tuple[str, ...]:
    from sweep.estimation.sources import in_words

    if result.fidelity == "roofline":
        return ("operator times: datasheet peaks",)
    return (in_words(result.sources),) if result.sources else ()


def headline(result: Estimate) -> str:
    """Model, GPUs, engine, load in one line."""
    p = result.record[0]
    gpus = result.results["gpus"]
    count = "" if math.isnan(gpus) else f"{gpus:.0f} x "
    return (
        f"{result.model} on {count}{result.hardware} ({_shape(p)}), {result.engine}, {p['isl']:.0f} -> {p['osl']:.0f} "
        f"tokens, fidelity {result.fidelity}"
    )


def _shape(p: Any) -> str:
    names = (("tp", "TP"), ("attention_dp", "DP"), ("pp", "PP"), ("cp", "CP"), ("moe_ep", "EP"))
    parts = [f"{label}{p[name]:.0f}" for name, label in names if p[name] > 1 or name == "tp"]
    return "split pools" if p["disaggregate"] else " ".join(parts)


def _table(*columns: str) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table


def memory_of_pools(result: Estimate) -> list[tuple[str, MemoryAccount]]:
    """The account with its title; two of them where prefill and decode have pools of their own."""
    if result.prefill_memory is None:
        return [("Memory per GPU", result.memory)]
    return [
        ("Memory per GPU, prefill pool", result.prefill_memory),
        ("Memory per GPU, decode pool", result.memory),
    ]


def _print_memory(title: str, memory: MemoryAccount, console: Console) -> None:
    table = _table("what", "GiB", "note")
    table.columns[2].justify = "left"
    table.add_row(
        "GPU memory", _gib(memory.hbm_gib), f"usable {memory.usable_gib:.2f} at {memory.memory_fraction:.3f}"
    )
    table.add_row("weights", _gib(memory.weights_gib))
    for name, gib in memory.weights_by_class_gib.items():
        if gib >= 0.005:
            table.add_row(f"  {WEIGHT_NAMES[name]}", _gib(gib))
    table.add_row("activations", _gib(memory.activation_gib), "peak of one step")
    reserve = memory.non_torch_gib + memory.comm_buffer_gib + memory.graph_gib
    table.add_row(
        "reserve",
        _gib(reserve),
        f"context {memory.non_torch_gib:.2f}, communication {memory.comm_buffer_gib:.2f}, graphs {memory.graph_gib:.2f}",
    )
    if memory.kv_pool_gib > 0.0:
        note = f"{memory.kv_capacity_tokens:,.0f} tokens per engine, {memory.kv_bytes_per_token:,.0f} B each"
        table.add_row("KV cache", _gib(memory.kv_pool_gib), note)
    else:
        table.add_row("missing", _gib(-memory.kv_pool_gib), "and no KV cache yet")
    console.print(f"[bold]{title}[/bold]")
    console.print(table)
    if memory.fits:
        console.print(
            f"fits: {memory.max_concurrency:.1f} requests of {memory.max_model_len:,.0f} tokens per engine "
            f"(one needs a memory fraction of {memory.min_memory_fraction:.3f})"
        )
    else:
        _print_verdict(memory, console)
    console.print()


def _print_verdict(memory: MemoryAccount, console: Console) -> None:
    """Why it cannot run, and the single changes that would make it fit."""
    if memory.verdict not in MEMORY_VERDICTS:
        console.print(f"[bold red]cannot run:[/bold red] {memory.verdict}")
        return
    console.print(f"[bold red]does not fit:[/bold red] {memory.verdict}")
    for remedy in memory.remedies:
        console.print(f"  would fit with {remedy}", markup=False)
    if not memory.remedies:
        console.print("  no single change would make it fit")


def _gib(value: float) -> str:
    return f"{value:.2f}"


def _print_performance(result: Estimate, console: Console) -> None:
    r = result.results
    if result.reason:
        console.print(f"[bold red]no answer:[/bold red] {result.reason}")
        return
    console.print(f"[bold]Performance[/bold] at {_load(result)}")
    table = _table("what", "value", "unit", "note")
    table.columns[2].justify = table.columns[3].justify = "left"
    table.add_row("TTFT", _three(r["ttft_ms"]), "ms", _between(result, "ttft"))
    table.add_row("  one prompt alone", _three(r["prefill_ms"]), "ms")
    table.add_row("TPOT", _three(r["tpot_ms"]), "ms", _between(result, "tpot"))
    table.add_row("  ITL seen by a client", _three(r["itl_ms"]), "ms")
    table.add_row("end to end", _three(r["e2e_ms"]), "ms")
    table.add_row("interactivity", _three(r["tok_s_per_user"]), "tok/s/user")
    table.add_row(
        "output", _three(r["output_tok_s_per_gpu"]), "tok/s/GPU", f"{_three(r['requests_per_s'])} requests/s"
    )
    table.add_row("input + output", _three(r["total_tok_s_per_gpu"]), "tok/s/GPU", f"bound by {result.bound}")
    if r["kv_transfer_ms"] > 0.0:
        table.add_row("KV hand-over", _three(r["kv_transfer_ms"]), "ms", "inside TTFT")
    if not math.isnan(r["usd_per_m_total"]):
        table.add_row(
            "cost",
            _three(r["usd_per_m_total"]),
            "$/M tokens",
            f"input {_three(r['usd_per_m_input'])}, output {_three(r['usd_per_m_output'])}",
        )
    console.print(table)
    if result.anchoring is not None:
        _print_anchoring(result, result.anchoring, console)
    console.print(f"evidence: {result.evidence}: {EVIDENCE_MEANING[result.evidence]}")
    _warn_of_queues(result, console)
    console.print()
    _print_step(r, console)


def _print_anchoring(result: Estimate, anchoring: Anchoring, console: Console) -> None:
    """The model alone beside the anchored estimate, and where the points come from."""
    count = "one measured point" if len(anchoring.points) == 1 else f"{len(anchoring.points)} measured points"
    console.print(
        f"[bold]Anchored[/bold] to {count}, confidence {anchoring.confidence}: "
        f"TTFT x {anchoring.ttft_factor:.2f}, TPOT x {anchoring.tpot_factor:.2f}"
    )
    table = _table("what", "model", "anchored", "unit")
    table.columns[3].justify = "left"
    table.add_row("", "model alone", "anchored", "", style="dim")
    for name, label, unit in SIDE_BY_SIDE:
        table.add_row(label, _three(anchoring.alone[name]), _three(result.results[name]), unit)
    console.print(table)
    for line in (*where_measured(anchoring), *anchoring.notes):
        console.print(line, markup=False)


def where_measured(anchoring: Anchoring) -> list[str]:
    """The measured points, a line for each shape, lengths and engine version."""
    lines: dict[str, list[str]] = {}
    for point in anchoring.points:
        version = point.anchor.deployment.get("backend_version") or "version not said"
        key = (
            f"measured at TP{point.shape[0]:.0f}, {point.isl:.0f} -> {point.osl:.0f} tokens, "
            f"{point.regime.engine} {version}: in flight"
        )
        lines.setdefault(key, []).append(f"{point.load:.0f}")
    return [f"{key} {', '.join(loads)}" for key, loads in lines.items()]


def _between(result: Estimate, latency: str) -> str:
    """Where eight in ten measurements of deployments like this one are expected."""
    low, high = (result.bounds[f"{latency}_ms_{bound}"] for bound in ("p10", "p90"))
    return "" if math.isnan(low) else f"8 in 10: {_three(low)} to {_three(high)}"


def _load(result: Estimate) -> str:
    """The operating point in words."""
    p = result.record[0]
    load = LOADS[int(p["load"])]
    if load == "static":
        batch = p["concurrency"] if math.isnan(p["inference_batch_size"]) else p["inference_batch_size"]
        return f"a static batch of {batch:.0f}"
    if load == "rate":
        return f"{p['request_rate']:g} requests/s"
    source = " (what memory and the engine's limit sustain)" if result.concurrency_is_ceiling else ""
    return f"{p['concurrency']:.0f} requests in flight{source}"


def _warn_of_queues(result: Estimate, console: Console) -> None:
    if result.results["saturated"] > 0.0:
        console.print(
            "[bold red]saturated:[/bold red] requests come faster than they are served; the queue grows"
        )
    elif result.results["over_ceiling"] > 0.0:
        console.print(
            f"[bold red]above the ceiling:[/bold red] {result.results['resident']:.0f} requests decode at once, the others wait"
        )


def _print_step(r: dict[str, float], console: Console) -> None:
    console.print(f"[bold]One decode step[/bold] {_three(r['step_ms'])} ms")
    table = _table("part", "ms", "share")
    for name, label in STEP_PARTS:
        part = r[f"step_{name}_ms"]
        if part > 0.0005 * r["step_ms"]:
            table.add_row(label, f"{part:.3f}", f"{100.0 * part / r['step_ms']:.1f} %")
    console.print(table)
    exposed = sum(r[f"step_{name}_ms"] for name in COMMUNICATION)
    console.print(
        f"exposed communication {exposed:.3f} ms, {100.0 * exposed / r['step_ms']:.1f} % of the step"
    )
    if r["mixed_share"] <= 0.0:
        console.print("no step mixes prefill and decode: nothing pollutes TPOT")
        return
    console.print(
        f"prefill pollution: {100.0 * r['mixed_share']:.1f} % of decode time is in steps with prefill "
        f"({_three(r['mixed_step_ms'])} ms each); TPOT is {100.0 * r['tpot_rise']:.1f} % above pure decode"
    )


def print_simulation(simulated: Simulation, result: Estimate, console: Console | None = None) -> None:
    """Percentiles of the simulated requests beside the closed form's means."""
    console = console or Console(highlight=False)
    point = simulated.point
    console.print()
    console.print(
        f"[bold]Simulated[/bold] {point.n_finished} requests at {point.offered_per_s:.3g}/s, {simulated.steps} steps; "
        f"{point.n_scored} scored after warm-up"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("ms", "one replica, closed form", "mean", "p50", "p90", "p95", "p99"):
        table.add_column(heading, justify="left" if heading == "ms" else "right")
    for name in ("ttft", "tpot", "e2e"):
        figures = [
            point.latency_ms.get(f"{name}_{q}", math.nan) for q in ("mean", "p50", "p90", "p95", "p99")
        ]
        table.add_row(name.upper(), *(_three(v) for v in (result.results[f"{name}_ms"], *figures)))
    console.print(table)
    console.print(
        f"achieved {point.achieved_per_s:.3g} requests/s, {_three(point.output_tok_s)} output tok/s, "
        f"{simulated.preemptions} preemptions, {simulated.rejected} rejected, busy {100.0 * point.busy_share:.0f} %"
    )
    if point.saturated:
        console.print("[bold red]saturated:[/bold red] the queue grows through the run")
    for load in simulated.curve:
        console.print(
            f"  {load.offered_per_s:8.3g}/s  TTFT p99 {_three(load.latency_ms.get('ttft_p99', math.nan))} ms  "
            f"TPOT mean {_three(load.latency_ms.get('tpot_mean', math.nan))} ms{'  saturated' if load.saturated else ''}"
        )
    for note in simulated.notes:
        console.print(f"note: {note}", style="dim", markup=False)


def _three(value: float) -> str:
    """Three significant figures, thousands grouped."""
    if not math.isfinite(value) or value == 0.0:
        return "-" if not math.isfinite(value) else "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def as_json(result: Estimate, mode: str = BOTH) -> dict[str, Any]:
    """The estimate as one object: result columns by name, `memory`, `step_ms_by_part`, what was inert."""
    from sweep.fields.columns import MEMORY as MEMORY_COLUMNS

    r = result.results
    memory_columns = set(MEMORY_COLUMNS)
    shared = {"reason", "gpus", "bound", "over_ceiling", "saturated"}
    columns = {
        name: None if math.isnan(value) else value
        for name, value in r.items()
        if name not in shared and (mode == BOTH or (name in memory_columns) == (mode == MEMORY))
    }
    out: dict[str, Any] = {
        "status": "infeasible" if result.reason else "ok",
        "reason": result.reason,
        "model": result.model,
        "hardware": result.hardware,
        "engine": result.engine,
        "fidelity": result.fidelity,
        "gpus": None if math.isnan(r["gpus"]) else int(r["gpus"]),
        "concurrency": float(result.record["concurrency"][0]),
        "over_ceiling": r["over_ceiling"] > 0.0,
        "saturated": r["saturated"] > 0.0,
        "bound": result.bound,
        **columns,
    }
    if mode in (PERFORMANCE, BOTH) and not result.reason:
        out |= {name: None if math.isnan(value) else value for name, value in result.bounds.items()}
        out["evidence"] = result.evidence
        if result.anchoring is not None:
            out["anchored"] = _anchored_object(result.anchoring)
    if mode in (MEMORY, BOTH):
        out["weights_gib"] = columns.get("weights_gib_per_gpu")
        out["memory"] = _memory_object(result.memory)
        if result.prefill_memory is not None:
            out["prefill_memory"] = _memory_object(result.prefill_memory)
    if mode in (PERFORMANCE, BOTH):
        out["step_ms_by_part"] = {name: columns[f"step_{name}_ms"] for name, _ in STEP_PARTS}
    out["inert"] = [
        {"key": key, "given_as": result.by_hand[key], "needs": needs} for key, needs in result.inert.items()
    ]
    out["operator_times"] = {
        op: {
            "hardware": s.hardware,
            "engine": s.engine,
            "op": s.op,
            "table": s.table,
            "inherited": s.inherited,
        }
        for op, s in result.sources.items()
    }
    out["notes"] = [*result.notes, *result.price_notes]
    return out


def _anchored_object(anchoring: Anchoring) -> dict[str, Any]:
    return {
        "ttft_factor": anchoring.ttft_factor,
        "tpot_factor": anchoring.tpot_factor,
        "ttft_weight": anchoring.ttft_weight,
        "tpot_weight": anchoring.tpot_weight,
        "confidence": anchoring.confidence,
        "model_alone": {name: anchoring.alone[name] for name, _, _ in SIDE_BY_SIDE},
        "points": [point.anchor.as_dict() for point in anchoring.points],
        "notes": list(anchoring.notes),
    }


def _memory_object(memory: MemoryAccount) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(memory).items()
    }


def inert_warnings(result: Estimate) -> list[str]:
    """One line per input that was set on the command line and cannot matter."""
    names = {key: result.by_hand[key].split("=")[0] for key in result.inert}
    return notes({name: result.inert[key] for key, name in names.items() if ": " not in name})
