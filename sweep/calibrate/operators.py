"""`servesweep calibrate operators`: fitted coefficients of operators from measured tables.

Writes conf/hardware/fitted/<hardware>.yaml, bit for bit the same for the same source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from sweep.arguments import Parser
from sweep.bounded import check_file
from sweep.calibrate.fit import Errors, Fit, fit_operator
from sweep.calibrate.instinct import read_instinct
from sweep.calibrate.profiles import read_profiles
from sweep.calibrate.samples import Floats, Samples
from sweep.calibrate.silicon import read_silicon
from sweep.calibrate.user_table import read_user_table
from sweep.catalog.fitted import COLUMNS, OPERATORS, lineage, operator_class
from sweep.catalog.hardware import hardware
from sweep.errors import UserError
from sweep.fields.engine import ENGINES
from sweep.files import check_folder, write_atomic
from sweep.paths import conf_dir
from sweep.records import default_records, set_values


def hardware_record(name: str) -> np.record:
    """Input record with the figures of an accelerator, everything else at its default."""
    records = default_records(1)
    set_values(records[0], hardware(name).fields)
    record = records.view(np.recarray)[0]
    assert isinstance(record, np.record)
    return record


def read_source(path: Path) -> Iterator[Samples]:
    """Samples of a source, by what it looks like: systems/data, a profile bundle, tuned-kernel tables, a user's CSV.

    Raises UserError where it is none of them.
    """
    if path.is_file():
        header = path.open(encoding="utf-8").readline()
        yield from read_instinct(path) if "M_or_tokens" in header else read_user_table(path)
    elif any(path.glob("*/gemm/*/*/gemm_perf.parquet")):
        yield from read_silicon(path)
    elif any(path.glob("*/*/*/*/tp*/dense.csv")):
        yield from read_profiles(path)
    else:
        raise UserError(
            "holds no operator tables",
            field="SRC",
            value=str(path),
            allowed="systems/data of aiconfigurator-core, an LLMServingSim profile bundle, a CSV file",
        )


def fit_all(samples: Iterable[Samples]) -> Iterator[Fit]:
    """Fits of every table that leaves enough points.

    The first table of an accelerator, engine and operator counts. Where a table has few points, an earlier fit of
    that engine and operator lends its shape: the nearest relative's, or else the one with the most points.
    """
    done: dict[tuple[str, str, str], Fit] = {}
    for table in samples:
        if (table.hardware, table.engine, table.op) in done:
            continue
        fit = fit_operator(table, hardware_record(table.hardware), _relative(table, done))
        if fit is not None:
            done[fit.hardware, fit.engine, fit.op] = fit
            yield fit


def _relative(table: Samples, done: Mapping[tuple[str, str, str], Fit]) -> Floats | None:
    nearest = [
        done[key] for name in lineage(table.hardware) if (key := (name, table.engine, table.op)) in done
    ]
    others = [fit for fit in done.values() if (fit.engine, fit.op) == (table.engine, table.op)]
    others.sort(key=lambda fit: fit.errors.points, reverse=True)
    lender = next(iter([*nearest, *others]), None)
    return None if lender is None else np.array(lender.coefficients)


def _number(value: float) -> str:
    return f"{value:.5g}" if value else "0"


def _error_text(errors: Errors) -> str:
    parts = [
        f"{name}: {getattr(errors, name):.3f}"
        for name in ("median", "p90", "held_out_median", "held_out_p90", "bias")
    ]
    return "{" + ", ".join([*parts, f"points: {errors.points}"]) + "}"


def fitted_yaml(name: str, fits: Iterable[Fit]) -> str:
    """The file of one accelerator."""
    by_engine: dict[str, dict[str, Fit]] = {}
    for fit in fits:
        by_engine.setdefault(fit.engine, {})[fit.op] = fit
    lines = [
        f"# Fitted operator efficiencies of {name}: written by `servesweep calibrate operators`, not by hand.",
        "# Errors are absolute natural logs of modelled over measured time; held out: whole weight shapes, attention",
        "# geometries or models; bias: the median of the signed error.",
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


def write_fitted(fits: Iterable[Fit], folder: Path) -> list[Path]:
    """Write the files of all fitted accelerators atomically; returns their paths."""
    by_hardware: dict[str, list[Fit]] = {}
    for fit in fits:
        by_hardware.setdefault(fit.hardware, []).append(fit)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, own in sorted(by_hardware.items()):
        file = folder / f"{name}.yaml"
        write_atomic(file, fitted_yaml(name, own).encode())
        written.append(file)
    return written


def main(arguments: Sequence[str]) -> int:
    """`servesweep calibrate operators SRC ...`: returns the exit status."""
    parser = Parser(
        prog="servesweep calibrate operators",
        example="servesweep calibrate operators profiles/ --out fitted",
        description="Fit the coefficients of operators to measured tables. Where sources overlap, the first counts.",
    )
    parser.add_argument(
        "source", nargs="+", type=Path, metavar="SRC", help="see docs/operators.md for the forms"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=conf_dir() / "hardware" / "fitted",
        help="folder of the files (conf's own)",
    )
    options = parser.parse_args(list(arguments))
    check_folder(options.out, "--out")
    for source in options.source:
        if not source.is_dir():
            check_file(source)
    fits = []
    for fit in fit_all(table for source in options.source for table in read_source(source)):
        fits.append(fit)
        print(
            f"{fit.hardware:14s} {fit.engine:7s} {fit.op:20s} points {fit.errors.points:6d}  held-out error "
            f"median {fit.errors.held_out_median:6.1%}  p90 {fit.errors.held_out_p90:6.1%}",
            file=sys.stderr,
            flush=True,
        )
    if not fits:
        raise UserError("no table left enough points to fit", field="SRC", value=str(options.source[0]))
    for file in write_fitted(fits, options.out):
        print(file)
    return 0
