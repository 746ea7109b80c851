"""`servesweep anchor`: the benchmark to run where a GPU is, and its result into the anchor store."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.arguments import Parser
from sweep.errors import UserError

if TYPE_CHECKING:
    from sweep.anchors.anchor import Anchor
    from sweep.anchors.benchmark import Benchmark
    from sweep.estimation.rules import Deployment

WARM_UP_GPUS = 4
DEFAULT_STORE = Path("anchors")
COLUMNS = (
    *"isl osl length_range num_prompts concurrency tp pp attention_dp moe_ep max_num_batched_tokens".split(),
    *"max_num_seqs max_model_len gpu_memory_utilization prefix_hit_rate".split(),
)
"""Inputs that a result is described by, under their own names."""
FORMATS = ("linear_dtype", "expert_dtype", "kv_cache_dtype")


def parser() -> argparse.ArgumentParser:
    """Options of the verb itself; everything else is an option of `servesweep estimate`."""
    p = Parser(
        prog="servesweep anchor",
        usage="servesweep anchor --model NAME --hardware NAME [options of estimate] | --read RESULT... | --list",
        description="Measure once, estimate around it: prints the benchmark to run where the GPU is, for a deployment given as "
        "to `servesweep estimate`; --read takes its result into the store.",
    )
    p.add_argument(
        "--store", type=Path, default=DEFAULT_STORE, metavar="PATH", help="anchor store (default: anchors/)"
    )
    p.add_argument(
        "--read", type=Path, nargs="+", default=[], metavar="RESULT", help="benchmark results to take in"
    )
    p.add_argument("--list", action="store_true", help="what the store holds")
    p.add_argument(
        "--loads",
        metavar="N,N,...",
        help="requests in flight to measure, one run each (default: the deployment's own)",
    )
    return p


def main(argv: Sequence[str]) -> int:
    options, rest = parser().parse_known_args(list(argv))
    if options.list:
        return _list(options.store)
    if options.read:
        return _read(options.read, options.store, rest)
    return _print_commands(options, rest)


def _asked(rest: Sequence[str]) -> Deployment:
    from sweep.estimation.arguments import parse
    from sweep.verbs.estimate import gathered

    return gathered(parse(rest)[1])


def _list(store: Path) -> int:
    from sweep.anchors.store import load

    anchors, passed = load(store)
    for anchor in anchors:
        print(_line(anchor))
    print(
        f"{len(anchors)} measured points"
        + (f"; {len(passed)} files are no benchmark results" if passed else "")
    )
    return 0


def _line(anchor: Anchor) -> str:
    d = anchor.deployment
    load = next(
        f"{name} {d[name]}"
        for name in ("request_rate", "concurrency", "batch_size", "decode_batch_size")
        if d.get(name)
    )
    figures = ", ".join(
        f"{name.removesuffix('_ms').upper()} {value:.4g} ms" for name, value in anchor.measured.items()
    )
    engine = f"{d.get('backend', 'vllm')} {d.get('backend_version') or ''}".strip()
    return f"{d['model']} on {d['hardware']}, TP{d.get('tp', 1)}, {engine}, {d['isl']} -> {d['osl']}, {load}: {figures}"


def _read(results: Sequence[Path], store: Path, rest: Sequence[str]) -> int:
    """Take results in; options say what a result does not (its accelerator, its TP)."""
    from sweep.anchors.readers import read_results
    from sweep.anchors.store import save

    fill = deployment_of(_asked(rest), by_hand=True) if rest else {}
    anchors = [anchor for path in results for anchor in read_results(path, fill)]
    for anchor in anchors:
        print(_line(anchor))
    print(f"{len(anchors)} measured points into {save(store, anchors)}")
    return 0


def _print_commands(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from sweep.anchors.benchmark import as_text, commands

    runs = benchmarks(_asked(rest), options.loads)
    for i, run in enumerate(runs):
        server, client = commands(run)
        if i == 0 and run.inputs.get("speculative_num_tokens"):
            print("# add the options of your draft model to the server")
        if i == 0:
            print("# where the GPU is: the server, and once it is up, the client\n" + as_text(server))
        print(as_text(client))
    files = " ".join(run.result_file for run in runs)
    print(
        f"# here: its result into the store, and estimates around it\nservesweep anchor --store {options.store} --read {files}"
    )
    print(f"servesweep estimate ... --anchor-store {options.store}")
    return 0


def benchmarks(asked: Deployment, loads: str | None = None) -> list[Benchmark]:
    """One run per load, at the TP of `measured_width`."""
    from sweep.anchors.benchmark import Benchmark
    from sweep.anchors.readers import INPUTS
    from sweep.catalog.hardware import resolve_hardware
    from sweep.catalog.models import resolve_model
    from sweep.fields import by_name

    model, hardware = resolve_model(asked.model), resolve_hardware(asked.hardware).name
    columns = {**deployment_of(asked), "hardware": hardware}
    columns.setdefault("length_range", by_name()["length_range"].default)
    columns["backend"] = str(
        asked.settings.get("bench.bench_serving_backend") if _given(asked) else columns["backend"]
    )
    columns["tp"] = measured_width(columns, asked.settings.get("bench.benchmark_gpus"))
    if columns.get("moe_ep"):
        columns["moe_ep"] = min(int(columns["moe_ep"]), columns["tp"] * int(columns.get("attention_dp") or 1))
    hub_id = (
        asked.model if "/" in asked.model else str(model.fields.get("hf_ids") or asked.model).split(",")[0]
    )
    checkpoint = str(asked.settings.get("bench.bench_model") or hub_id.strip())
    inputs = {name: value for name, value in _by_short_name(asked).items() if name in INPUTS}
    suffix = "jsonl" if columns["backend"] == "sglang" else "json"
    place = f"{model.name}-{hardware}-{columns['backend']}-tp{columns['tp']}"
    return [
        Benchmark(
            columns["backend"], checkpoint, {**columns, "concurrency": n}, f"{place}-c{n}.{suffix}", inputs
        )
        for n in _loads(loads, columns.get("concurrency"))
    ]


def _given(asked: Deployment) -> bool:
    return "bench.bench_serving_backend" in asked.by_hand


def _loads(text: str | None, own: Any) -> list[int]:
    if text is None:
        return [int(own) if own else 32]
    try:
        loads = [int(part) for part in text.split(",")]
    except ValueError:
        loads = []
    if not loads or min(loads) < 1:
        raise UserError("is no list of requests in flight", field="--loads", value=text, allowed="4,16,64")
    return loads


def measured_width(columns: Mapping[str, Any], asked: int | None) -> int:
    """TP of a measurement: as asked, else min(TP, 4) and wider where the model does not fit; a divisor of TP."""
    tp = int(columns.get("tp") or 1)
    width = min(tp, asked or WARM_UP_GPUS)
    while tp % width:
        width = max(1, width // 2)
    while asked is None and width < tp and not _runs({**columns, "tp": width}):
        width = next(w for w in range(width + 1, tp + 1) if tp % w == 0)
    return width


def _runs(columns: Mapping[str, Any]) -> bool:
    from kernels.reasons import OK
    from sweep.anchors.correction import record_of
    from sweep.evaluation import evaluate
    from sweep.fidelity import coefficients_for

    record = record_of({**columns, "concurrency": 1})
    return bool(
        evaluate(record, coefficients_for("roofline", (str(columns["hardware"]),))).results["reason"][0] == OK
    )


def deployment_of(asked: Deployment, *, by_hand: bool = False) -> dict[str, Any]:
    """What was given, as columns of `servesweep points`; `by_hand` leaves the command line's own defaults out."""
    given = _by_short_name(asked)
    if by_hand:
        typed = {key.rsplit(".", 1)[-1] for key in asked.by_hand}
        given = {name: value for name, value in given.items() if name in typed}
    columns = {name: given[name] for name in (*COLUMNS, *FORMATS) if given.get(name) not in (None, 0)}
    return {
        "model": asked.model,
        "hardware": asked.hardware,
        "backend": given.get("engine", "vllm"),
        **columns,
    }


def _by_short_name(asked: Deployment) -> dict[str, Any]:
    return {
        key.rsplit(".", 1)[-1]: value for key, value in asked.values.items() if not key.startswith("disagg.")
    }
