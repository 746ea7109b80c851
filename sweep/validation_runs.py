"""Real runs of an engine, replayed request by request: a folder with what was sent and when tokens came."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.bounded import read_json
from sweep.errors import UserError

Floats = npt.NDArray[np.float64]

REQUESTS, CLUSTER, META = "requests.jsonl", "config.json", "meta.json"
NEEDED = (REQUESTS, CLUSTER, META)
DEPTH = 3
STAMPS = ("queued_ts", "first_token_ts", "last_token_ts")
STATISTICS = {"mean": None, "p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
NS_PER_MS, MS_PER_S = 1e6, 1e3
FIGURES = {"simulated_ttft_ms": "TTFT", "simulated_tpot_ms": "TPOT", "simulated_e2e_ms": "latency"}
"""Figures of a replay -> columns of the simulator's table."""
MAX_BYTES = 64 * 1024**2


def runs_in(folder: Path) -> list[Path]:
    """Folders of runs, the given one included, up to three levels deep."""
    found = [folder] if all((folder / name).is_file() for name in NEEDED) else []
    for pattern in ("*/" * depth + META for depth in range(1, DEPTH + 1)):
        found += [
            file.parent for file in folder.glob(pattern) if all((file.parent / n).is_file() for n in NEEDED)
        ]
    return sorted(found)


def replayed(run: Path, profiles: Path | None, fidelity: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """(figure, frame) of one run: measured and predicted mean and percentiles over requests, columns as `Figure` has them.

    `profiles` are operator profiles of the accelerator, else the step model prices the steps. Raises UserError.
    """
    meta = _meta(run / META)
    real = _measured_ms(run / REQUESTS)
    ours = _simulated(run, meta, profiles, fidelity)
    if ours.height != len(next(iter(real.values()))):
        raise UserError("holds another number of requests than its workload", file=str(run / REQUESTS))
    for figure, column in FIGURES.items():
        predicted = ours[column].to_numpy() / NS_PER_MS
        yield (
            figure,
            pl.DataFrame(
                [
                    {
                        "id": f"{run.parent.name}/{run.name} {name}",
                        "hardware": run.parent.name,
                        "model": str(meta.get("model", run.name)),
                        "statistic": name,
                        "measured": _statistic(real[column], q),
                        "predicted": _statistic(predicted, q),
                        "inside": None,
                    }
                    for name, q in STATISTICS.items()
                ],
                schema_overrides={"inside": pl.Boolean},
            ),
        )


def _statistic(values: Floats, percentile: float | None) -> float:
    return float(values.mean() if percentile is None else np.percentile(values, percentile))


def _meta(file: Path) -> dict[str, Any]:
    content = read_json(file, MAX_BYTES)
    if not isinstance(content, dict):
        raise UserError("holds no object", file=str(file))
    return content


def _measured_ms(file: Path) -> dict[str, Floats]:
    """TTFT, TPOT and latency of each request on the engine's clock, ms."""
    from sweep.table_io import need, numbers, read_table

    frame = read_table(file)
    columns = (*STAMPS, "output_toks")
    try:
        need(frame, columns)
    except UserError as error:
        raise error.located(str(file), None) from None
    values = [numbers(frame, name, file) for name in columns]
    for name, column in zip(columns, values, strict=True):
        if column.null_count() or not column.is_finite().all():
            raise UserError("is missing or no finite number", file=str(file), field=name)
    queued, first, last, tokens = (column.to_numpy() for column in values)
    queued, first, last = queued * MS_PER_S, first * MS_PER_S, last * MS_PER_S
    gaps = np.maximum(1.0, tokens - 1.0)
    return {"TTFT": first - queued, "TPOT": (last - first) / gaps, "latency": last - queued}


def _simulated(run: Path, meta: dict[str, Any], profiles: Path | None, fidelity: str) -> pl.DataFrame:
    """The simulator's table of requests, in their order."""
    from sweep.simulate import command, tier
    from sweep.simulate.arguments import parse
    from sweep.simulate.cluster import read_cluster
    from sweep.simulate.instances import build_instances
    from sweep.simulate.runner import request_frame, simulate

    priced_by = [f"--operator-profiles={profiles}"] if profiles else [f"--fidelity={fidelity}"]
    options = parse(
        [f"--cluster-config={run / CLUSTER}", f"--dataset={_workload(run, meta)}", *priced_by, *_engine(meta)]
    )
    cluster = read_cluster(options.cluster_config)
    built = build_instances(cluster, command.defaults_of(options), command.pricing_of(options))
    requests = command.load_requests(options, len(built))
    pools = tier.pools(built, cluster, options.prefix_storage, options.enable_prefix_sharing)
    outcome = simulate(
        [one.instance for one in built], requests, command.run_options(options, requests, pools)
    )
    return request_frame(outcome, [one.config.model_name for one in built]).sort("request id")


def _engine(meta: dict[str, Any]) -> list[str]:
    """Engine settings that the run states."""
    kwargs = meta.get("engine_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    names = {
        "max_num_seqs": "--max-num-seqs",
        "max_num_batched_tokens": "--max-num-batched-tokens",
        "dtype": "--dtype",
    }
    return [
        f"{flag}={kwargs[name]}" for name, flag in names.items() if isinstance(kwargs.get(name), (int, str))
    ]


def _workload(run: Path, meta: dict[str, Any]) -> Path:
    """The requests that were sent: the file that meta.json names, beside the run or above it."""
    name = Path(str(meta.get("dataset_path", ""))).name
    places = [run, *run.parents[:DEPTH]]
    found = next((place / name for place in places if name and (place / name).is_file()), None)
    if found is None:
        raise UserError(
            "the workload is not beside the run", file=str(run / META), field="dataset_path", value=name
        )
    return found
