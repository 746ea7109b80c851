"""`servesweep calibrate operators`: fitted coefficients of operators from measured tables.

Writes conf/hardware/fitted/<hardware>.yaml, bit for bit the same for the same source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from sweep.calibrate.fit import Errors, Fit, fit_operator
from sweep.calibrate.samples import Samples
from sweep.catalog.fitted import COLUMNS, OPERATORS, operator_class
from sweep.catalog.hardware import hardware
from sweep.fields.engine import ENGINES
from sweep.records import default_records, set_values


def hardware_record(name: str) -> np.record:
    """Input record with the figures of an accelerator, everything else at its default."""
    records = default_records(1)
    set_values(records[0], hardware(name).fields)
    record = records.view(np.recarray)[0]
    assert isinstance(record, np.record)
    return record


def fit_all(samples: Iterable[Samples]) -> Iterator[Fit]:
    """Fits of every table that leaves enough points."""
    for table in samples:
        fit = fit_operator(table, hardware_record(table.hardware))
        if fit is not None:
            yield fit


def _number(value: float) -> str:
    return f"{value:.5g}" if value else "0"


def _error_text(errors: Errors) -> str:
    parts = [
        f"{name}: {getattr(errors, name):.3f}"
        for name in ("median", "p90", "held_out_median", "held_out_p90", "bias")
    ]
    return "{" + ", ".join([*parts, f"points: {errors.points}"]) + "}"


def fitted_yaml(name: str, fits: Iterable[Fit], source: str) -> str:
    """The file of one accelerator."""
    by_engine: dict[str, dict[str, Fit]] = {}
    for fit in fits:
        by_engine.setdefault(fit.engine, {})[fit.op] = fit
    lines = [
        f"# Fitted operator efficiencies of {name}: written by `servesweep calibrate operators`, not by hand.",
        "# Errors are absolute natural logs of modelled over measured time; held out: whole weight shapes, attention",
        "# geometries or models; bias: the median of the signed error.",
        f"source: {source}",
        "operators:",
    ]
    for engine in (engine for engine in ENGINES if engine in by_engine):
        lines.append(f"  {engine}:")
        for op in (op for op in OPERATORS if op in by_engine[engine]):
            fit = by_engine[engine][op]
            columns = zip(COLUMNS[operator_class(op)], fit.coefficients, strict=False)
            lines.append(f"    {op}:")
            lines.append("      coefficients: {" + ", ".join(f"{c}: {_number(v)}" for c, v in columns) + "}")
            lines.append(f"      error: {_error_text(fit.errors)}")
            lines.append(f"      source: {fit.source}")
    return "\n".join(lines) + "\n"


def write_fitted(fits: Iterable[Fit], source: str, folder: Path) -> list[Path]:
    """Write the files of all fitted accelerators atomically; returns their paths."""
    by_hardware: dict[str, list[Fit]] = {}
    for fit in fits:
        by_hardware.setdefault(fit.hardware, []).append(fit)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, own in sorted(by_hardware.items()):
        file = folder / f"{name}.yaml"
        partial = file.with_suffix(".partial")
        partial.write_text(fitted_yaml(name, own, source), encoding="utf-8")
        os.replace(partial, file)
        written.append(file)
    return written
