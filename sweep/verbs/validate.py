"""`servesweep validate TABLE...`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sweep.arguments import Parser


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(prog="servesweep validate", description="Score the model against measured tables, per slice.")
    p.add_argument(
        "tables",
        nargs="+",
        type=Path,
        metavar="TABLE",
        help="csv, parquet or jsonl with inputs and measured figures",
    )
    p.add_argument("--fidelity", default="fitted", help="how operators are priced (default: fitted)")
    p.add_argument("--plot", type=Path, metavar="PNG", help="parity plot: predicted against measured")
    p.add_argument("--json", action="store_true", help="print the scores as one JSON list")
    return p


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    from sweep.validation import validate

    scores = validate(arguments.tables, arguments.fidelity, arguments.plot)
    if arguments.json:
        print(scores.write_json())
        return 0
    header = ("table", "figure", "slice", "rows", "coverage", "median %", "P90 %", "signed %", "in interval")
    print("{:24s} {:22s} {:36s} {:>5s} {:>8s} {:>8s} {:>8s} {:>8s} {:>11s}".format(*header))
    for row in scores.rows():
        cells = ["" if cell is None else str(cell) for cell in row]
        print("{:24s} {:22s} {:36s} {:>5s} {:>8s} {:>8s} {:>8s} {:>8s} {:>11s}".format(*cells))
    return 0
