"""`servesweep calibrate collectives`: coefficients of collectives from measured tables.

Writes conf/hardware/fitted/<hardware>.collectives.yaml for every accelerator of the catalogue, bit for bit the same
for the same tables. One without samples names the relative whose coefficients it takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from kernels.collectives import has_quantized
from sweep.arguments import Parser
from sweep.bounded import check_file
from sweep.calibrate import collective_tables as tables
from sweep.calibrate.collective_accelerators import Fitted, fit_all
from sweep.calibrate.collective_fit import Array
from sweep.catalog.fitted_collectives import COLUMNS, LIBRARY, ROWS
from sweep.catalog.hardware import hardware, hardware_names
from sweep.files import check_folder, write_atomic
from sweep.paths import conf_dir

TOPOLOGY_RELATIVE = {
    "switch": "h200_sxm",
    "mesh": "mi300x",
    "pcie": "l40s",
    "pairwise": "a100_sxm_80_pairwise_nvlink",
}
"""Whose coefficients an accelerator takes when none of its own relatives has its topology."""
EXPERT_ROWS = ("dispatch_ll", "dispatch", "combine_ll", "combine")
ENGINE_ROWS = ("one_shot", "two_shot", "quantized", "ring_ll", "ring_ll128", "ring_simple", "nvls")
LIBRARY_ROWS = (
    *ENGINE_ROWS,
    "all_gather",
    "reduce_scatter",
    "all_to_all_ll",
    "all_to_all",
    *EXPERT_ROWS,
    "nic",
)
ROW_COLUMNS = {
    "one_shot": ("limit_pair_mib", "limit_quad_mib"),
    "two_shot": ("limit_oct_mib",),
    "quantized": ("least_pair_mib", "least_quad_mib", "least_oct_mib", "by_default"),
    "nvls": ("min_ranks",),
}
LINE_COLUMNS = ("efficiency", "overhead_us", "step_us", "pair_slowdown", "quad_slowdown")


def relative_of(name: str, done: Iterable[str]) -> str:
    """Whose coefficients an accelerator without samples takes: its nearest relative of the same topology."""
    done = set(done)
    topology = hardware(name).fields["topology"]
    ancestor = str(hardware(name).fields["inherits"] or "")
    while ancestor:
        if ancestor in done and hardware(ancestor).fields["topology"] == topology:
            return ancestor
        ancestor = str(hardware(ancestor).fields["inherits"] or "")
    return TOPOLOGY_RELATIVE[topology]


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _rows(c: Array, names: Iterable[str]) -> dict[str, dict[str, float]]:
    out = {}
    for name in names:
        if name == "quantized" and not has_quantized(c):
            continue
        columns = (*LINE_COLUMNS, *ROW_COLUMNS.get(name, ()))
        out[name] = {column: _rounded(c[ROWS[name], COLUMNS[column]]) for column in columns}
    return out


def _summary(log_errors: Array) -> dict[str, float]:
    """Sizes of relative errors, percent."""
    percent = 100.0 * (np.exp(log_errors) - 1.0)
    return {
        "samples": int(percent.size),
        "median_abs": round(float(np.median(np.abs(percent))), 2),
        "p75_abs": round(float(np.quantile(np.abs(percent), 0.75)), 2),
        "p10": round(float(np.quantile(percent, 0.1)), 2),
        "p90": round(float(np.quantile(percent, 0.9)), 2),
    }


def content(name: str, fitted: Fitted | None, done: Iterable[str]) -> dict[str, Any]:
    """What the accelerator's file says."""
    if fitted is None:
        return {"inherits": relative_of(name, done)}
    out: dict[str, Any] = {"library": _rows(fitted.library, LIBRARY_ROWS)}
    if fitted.experts is not None:
        out["experts"] = _rows(fitted.experts, EXPERT_ROWS)
    out["engines"] = {engine: _rows(c, ENGINE_ROWS) for engine, c in fitted.engines.items()}
    out["other_engines"] = next(iter(fitted.engines), LIBRARY)
    out["error_percent"] = {
        engine: _summary(errors)
        | ({"held_out": _summary(fitted.held_out[engine])} if engine in fitted.held_out else {})
        for engine, errors in fitted.errors.items()
    }
    return out


HEADER = "# Written by `servesweep calibrate collectives`; rows and columns as in kernels/coefficients.py.\n"


def write_all(done: dict[str, Fitted], folder: Path) -> list[Path]:
    """One file per accelerator of the catalogue; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in hardware_names():
        file = folder / f"{name}.collectives.yaml"
        text = yaml.safe_dump(
            content(name, done.get(name), done), sort_keys=False, default_flow_style=None, width=110
        )
        write_atomic(file, (HEADER + text).encode())
        written.append(file)
    return written


def main(arguments: Sequence[str]) -> int:
    """Fit and write; returns the exit status."""
    parser = Parser(
        prog="servesweep calibrate collectives",
        description="Fits all-reduce, all-gather, reduce-scatter, all-to-all and expert dispatch and combine.",
    )
    parser.add_argument(
        "source",
        metavar="SRC",
        nargs="?",
        type=Path,
        help="folder systems/data of aiconfigurator-core; without it the installed package's",
    )
    parser.add_argument(
        "--all-reduce",
        metavar="CSV",
        type=Path,
        help="more all-reduces: hardware, n_gpus, implementation, nvls, bytes, time_us or busbw_gbps, notes",
    )
    parser.add_argument(
        "--instinct", metavar="CSV", type=Path, help="Instinct measurements (amd_operators.csv)"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder to write to (conf/hardware/fitted)")
    parser.add_argument(
        "--cross-validate",
        action="store_true",
        help="also refit without every fourth size and note the errors there",
    )
    given = parser.parse_args(arguments)
    folder = given.out or conf_dir() / "hardware" / "fitted"
    check_folder(folder, "--out")
    parts = [tables.read_database(given.source or tables.default_source())]
    for file, reader in (
        (given.all_reduce, tables.read_all_reduce_csv),
        (given.instinct, tables.read_instinct_csv),
    ):
        if file is not None:
            check_file(file)
            parts.append(reader(file))
    done = fit_all(pl.concat(parts), given.cross_validate)
    written = write_all(done, folder)
    print(report(done))
    print(f"{len(written)} files in {folder}", file=sys.stderr)
    return 0


def report(done: dict[str, Fitted]) -> str:
    """One line per accelerator and implementation: samples, median and third quartile of |error|, percent."""
    lines = []
    for name, fitted in done.items():
        for engine, errors in fitted.errors.items():
            seen = _summary(errors)
            line = f"{name:28s} {engine:7s} {seen['samples']:4d}  {seen['median_abs']:5.1f} {seen['p75_abs']:5.1f}"
            if engine in fitted.held_out:
                unseen = _summary(fitted.held_out[engine])
                line += f"   held out {unseen['median_abs']:5.1f} {unseen['p75_abs']:5.1f}"
            lines.append(line)
    return "\n".join(lines)
