"""`servesweep validate TABLE...`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sweep.arguments import Parser
from sweep.errors import UserError
from sweep.files import check_target


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(
        prog="servesweep validate",
        example="servesweep validate measured.csv",
        description="Score the model against measured tables, per slice.",
    )
    p.add_argument(
        "tables",
        nargs="+",
        type=Path,
        metavar="TABLE",
        help="csv, parquet or jsonl with inputs and measured figures, or a folder of real runs to replay",
    )
    p.add_argument("--fidelity", default="fitted", help="how operators are priced (default: fitted)")
    p.add_argument(
        "--operator-profiles", type=Path, metavar="DIR", help="profile bundles that price replayed runs"
    )
    p.add_argument(
        "--anchor-store",
        type=Path,
        metavar="PATH",
        help="measured points to scale estimates by (other rows!)",
    )
    p.add_argument(
        "--markdown",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write the scores as a page, or as a short table between the marks of a file that has them",
    )
    p.add_argument("--plot", type=Path, metavar="PNG", help="parity plot: predicted against measured")
    p.add_argument("--json", action="store_true", help="print the scores as one JSON list")
    return p


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    from sweep.png import check_png
    from sweep.validation import validate

    check_png(arguments.plot)
    for option, files in (("--plot", [arguments.plot]), ("--markdown", arguments.markdown)):
        for file in files:
            check_target(file, option)
    if arguments.operator_profiles is not None and not any(map(Path.is_dir, arguments.tables)):
        raise UserError(
            "prices replayed runs, and no folder of runs is given",
            field="--operator-profiles",
            value=arguments.operator_profiles,
        )
    anchors = None
    if arguments.anchor_store is not None:
        from sweep.anchors.points import point_anchors

        anchors = point_anchors(arguments.anchor_store, arguments.fidelity)
    scores = validate(
        arguments.tables, arguments.fidelity, arguments.plot, anchors, arguments.operator_profiles
    )
    if anchors is not None:
        for line in anchors.told():
            print(f"servesweep validate: {arguments.anchor_store}: {line}", file=sys.stderr)
    for file in arguments.markdown:
        from sweep.validation_page import write_page

        write_page(scores, file, arguments.plot)
    if arguments.json:
        print(scores.write_json())
        return 0
    header = ("table", "figure", "slice", "rows", "coverage", "median %", "P90 %", "signed %", "in interval")
    print("{:24s} {:22s} {:36s} {:>5s} {:>8s} {:>8s} {:>8s} {:>8s} {:>11s}".format(*header))
    for row in scores.rows():
        cells = ["" if cell is None else str(cell) for cell in row]
        print("{:24s} {:22s} {:36s} {:>5s} {:>8s} {:>8s} {:>8s} {:>8s} {:>11s}".format(*cells))
    return 0
