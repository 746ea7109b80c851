"""`servesweep anchor`: the benchmark to run where a GPU is, and its result into the anchor store."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.arguments import Parser
from sweep.errors import UserError

if TYPE_CHECKING:
    from sweep.anchors.anchor import Anchor

DEFAULT_STORE = Path("anchors")
COLUMNS = "isl osl length_range num_prompts concurrency tp pp attention_dp moe_ep".split()
MOST_IN_FLIGHT = 2**20
FORMATS = ("linear_dtype", "expert_dtype", "kv_cache_dtype")
"""What options of the command line may say of a result that does not say it itself."""


def parser() -> argparse.ArgumentParser:
    """Options of the verb itself; everything else is an option of `servesweep estimate`."""
    p = Parser(
        prog="servesweep anchor",
        usage="servesweep anchor --model NAME --hardware NAME [options of estimate] | --read RESULT... | --list",
        description="Measure once, estimate around it: prints the benchmark to run where the GPU is, for a deployment given "
        "as to `servesweep estimate`; --read takes its result into the store.",
    )
    p.add_argument(
        "--store", type=Path, default=DEFAULT_STORE, metavar="PATH", help="anchor store (default: anchors)"
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
    p.add_argument("--draft", default="", metavar="ID", help="draft model, where speculation needs one")
    return p


def main(argv: Sequence[str]) -> int:
    options, rest = parser().parse_known_args(list(argv))
    if options.list:
        return _list(options.store)
    if options.read:
        return _read(options.read, options.store, rest)
    return _print_commands(options, rest)


def _list(store: Path) -> int:
    from sweep.anchors.store import load

    anchors, passed = load(store)
    for anchor in anchors:
        print(_line(anchor))
    skipped = f"; {len(passed)} files are no benchmark results" if passed else ""
    print(f"{len(anchors)} measured points{skipped}")
    return 0


def _line(anchor: Anchor) -> str:
    d = anchor.deployment
    load = next(f"{name} {d[name]}" for name in ("request_rate", "concurrency", "batch_size") if d.get(name))
    times = anchor.measured.items()
    figures = ", ".join(f"{name.removesuffix('_ms').upper()} {value:.4g} ms" for name, value in times)
    engine = f"{d.get('backend', 'vllm')} {d.get('backend_version') or ''}".strip()
    return f"{d['model']} on {d['hardware']}, TP{d.get('tp', 1)}, {engine}, {d['isl']} -> {d['osl']}, {load}: {figures}"


def _read(results: Sequence[Path], store: Path, rest: Sequence[str]) -> int:
    """Take results in; options say what a result does not (its accelerator, its TP)."""
    from sweep.anchors.correction import check
    from sweep.anchors.readers import read_results
    from sweep.anchors.store import save

    fill = _said(rest) if rest else {}
    anchors = [anchor for path in results for anchor in read_results(path, fill)]
    for anchor in anchors:
        check(anchor)
    file = save(store, anchors)
    for anchor in anchors:
        print(_line(anchor))
    print(f"{len(anchors)} measured points into {file}")
    return 0


def _said(rest: Sequence[str]) -> dict[str, Any]:
    """Options as columns of `servesweep points`; the command line's own defaults say nothing of a result."""
    from sweep.estimation.arguments import parse
    from sweep.verbs.estimate import gathered

    asked = gathered(parse(rest)[1])
    given = {key.rsplit(".", 1)[-1]: value for key, value in asked.values.items() if key in asked.by_hand}
    columns = {name: given[name] for name in (*COLUMNS, *FORMATS) if name in given}
    engine = {"backend": given["engine"]} if "engine" in given else {}
    return {"model": asked.model, "hardware": asked.hardware, **engine, **columns}


def _print_commands(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from sweep.anchors.measurement import measurement

    store, runs = options.store, measurement(rest, _loads(options.loads), options.draft)
    print(f"# where the GPU is, {runs.gpus} x {runs.hardware}: the server, and once it is up, the client")
    print(f"{runs.checkpoint}\n{runs.server}\n")
    for client in runs.clients:
        print(f"{client}\n")
    files = " ".join(runs.results)
    print(
        f"# here: what came out into the store, and estimates around it\nservesweep anchor --store {store} --read {files}"
    )
    print(f"servesweep estimate ... --anchor-store {store}")
    return 0


def _loads(text: str | None) -> list[int]:
    if text is None:
        return []
    try:
        loads = [int(part) for part in text.split(",")]
    except ValueError:
        loads = []
    if not loads or min(loads) < 1 or max(loads) > MOST_IN_FLIGHT:
        raise UserError("is no list of requests in flight", field="--loads", value=text, allowed="4,16,64")
    return loads
