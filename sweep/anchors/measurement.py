"""What to run where a GPU is: server and client of a deployment, on as few GPUs as say something about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.reasons import OK
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.export.benchmark import benchmark
from sweep.export.bundle import bundle
from sweep.export.deployment import Deployment, deployment
from sweep.export.source import Chosen, of_flags
from sweep.fidelity import coefficients_for
from sweep.fields.engine import ENGINES

WARM_UP_GPUS = 4


@dataclass(frozen=True)
class Measurement:
    """Commands as a shell reads them; one client and one result file for each load."""

    hardware: str
    gpus: int
    checkpoint: str
    server: str
    clients: tuple[str, ...]
    results: tuple[str, ...]


def measurement(flags: Sequence[str], loads: Sequence[int] = (), draft: str = "") -> Measurement:
    """Commands for the deployment that flags of `servesweep estimate` describe, at `loads` requests in flight.

    Raises UserError for a deployment that does not fit, or that the engine has no setting for.
    """
    from sweep.estimation.arguments import parse
    from sweep.verbs.estimate import gathered

    settings = gathered(parse(flags)[1]).settings
    found = of_flags(flags)
    if found.record["disaggregate"][0] > 0.0:
        raise UserError(
            "measure one pool at a time: an anchor of split pools is a row of a table", field="--disaggregate"
        )
    engine = settings.get("bench.bench_serving_backend")
    if engine is not None:
        found.record["engine"] = ENGINES.index(str(engine))
    _narrow(found, settings.get("bench.benchmark_gpus"))
    checkpoint = str(settings.get("bench.bench_model") or "")
    loads = loads or [int(found.record["concurrency"][0])]
    runs = [_at(found, in_flight, checkpoint, draft) for in_flight in loads]
    made = bundle(runs[0])
    suffix = "jsonl" if made.deployment.engine == "sglang" else "json"
    results = tuple(f"{run.name}-c{run.load.concurrency}.{suffix}" for run in runs)
    return Measurement(
        hardware=made.deployment.hardware,
        gpus=made.deployment.gpus,
        checkpoint=made.checkpoint,
        server=made.servers[made.deployment.pools[0].role].shell(),
        clients=tuple(benchmark(run, file).shell() for run, file in zip(runs, results, strict=True)),
        results=results,
    )


def _at(found: Chosen, in_flight: int, checkpoint: str, draft: str) -> Deployment:
    record = found.record.copy()
    record["concurrency"] = in_flight
    return deployment(record, found.model, found.hardware, checkpoint=checkpoint, draft=draft)


def _narrow(found: Chosen, gpus: int | None) -> None:
    """Put the measured TP into the record; experts spread over no more than the GPUs there are."""
    p = found.record[0]
    p["tp"] = measured_width(found.record, found.hardware, gpus)
    p["moe_ep"] = min(p["moe_ep"], p["tp"] * p["attention_dp"])


def measured_width(record: Any, hardware: str, gpus: int | None = None) -> int:
    """TP of a measurement: as asked, else min(TP, 4) and wider where the model does not fit; a divisor of TP."""
    tp = int(record["tp"][0])
    width = min(tp, gpus or WARM_UP_GPUS)
    while tp % width:
        width = max(1, width // 2)
    while gpus is None and width < tp and not _fits(record, hardware, width):
        width = next(w for w in range(width + 1, tp + 1) if tp % w == 0)
    return width


def _fits(record: Any, hardware: str, width: int) -> bool:
    tried = record.copy()
    tried["tp"], tried["hardware_index"] = width, 0
    tried["moe_ep"] = min(tried["moe_ep"][0], width * tried["attention_dp"][0])
    return bool(evaluate(tried, coefficients_for("roofline", (hardware,))).results["reason"][0] == OK)
