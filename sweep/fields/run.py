"""How a run is done: fidelity, executor, output. No kernel reads these; they move no price by themselves."""

from __future__ import annotations

from sweep.fields import calibration, demand, experiment, job, search
from sweep.fields.columns import SPEED
from sweep.fields.spec import Field

_Q = "How is the run done?"
FIDELITIES = ("roofline", "fitted", "tables", "anchored")
EXECUTORS = ("threads", "loky", "dask")
KEEP = ("all", "feasible", "frontier", "top")


def _setting(key: str, doc: str, kind: str, **more: object) -> Field:
    return Field(key=key, doc=doc, kind=kind, scope="run", column=False, question=_Q, **more)  # type: ignore[arg-type]


FIELDS = (
    _setting(
        "fidelity.level",
        "What prices an operator: datasheet peaks, fitted efficiencies, measured tables, or anchors on top.",
        "choice",
        choices=FIDELITIES,
        default="fitted",
        moves=SPEED,
    ),
    _setting(
        "fidelity.operator_profiles",
        "Folder of measured operator profiles for fidelity=tables.",
        "path",
        auto="none",
        moves=SPEED,
    ),
    *calibration.FIELDS,
    *experiment.FIELDS,
    *demand.FIELDS,
    *job.FIELDS,
    *search.FIELDS,
    _setting(
        "executor.kind",
        "What runs the blocks of a grid: threads, local processes (loky) or an existing Dask cluster. Moves nothing: values do not depend on it.",
        "choice",
        choices=EXECUTORS,
        default="threads",
    ),
    _setting(
        "executor.workers",
        "Workers of the executor. Moves nothing: values do not depend on it.",
        "int",
        low=1,
        auto="one per processor core",
    ),
    _setting(
        "executor.address",
        "Address of the Dask scheduler. Moves nothing: values do not depend on it.",
        "text",
        auto="none",
    ),
    _setting(
        "executor.block_rows",
        "Rows of one block, which is one part on disk. Moves nothing: values do not depend on it.",
        "int",
        low=1,
        default=65536,
    ),
    _setting(
        "output.dir",
        "Results directory. Moves nothing: an output.",
        "path",
        auto="results/<date>-<time>-<grid>",
    ),
    _setting(
        "output.keep",
        "Rows that reach the disk: all, the feasible ones, the frontiers' (frontier.parquet), or besides those the cheapest within the SLO (top.parquet). Moves nothing: an output.",
        "choice",
        choices=KEEP,
        default="all",
    ),
    _setting(
        "output.top",
        "Rows of each scenario and accelerator that output.keep=top keeps in top.parquet. Moves nothing: an output.",
        "int",
        low=1,
        default=100,
    ),
    _setting(
        "output.report",
        "Whether to draw pareto.png and write report.html. Moves nothing: an output.",
        "bool",
        default=True,
    ),
)
