"""`servesweep points IN OUT`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sweep.arguments import Parser


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(
        prog="servesweep points",
        description="A table of deployments in, a table of estimates out (csv, parquet or jsonl by suffix).",
    )
    p.add_argument(
        "source",
        type=Path,
        metavar="IN",
        help="columns: id, model, hardware, backend, tp, isl, osl, concurrency, ...",
    )
    p.add_argument(
        "target", type=Path, metavar="OUT", help="columns: id, status, reason, ttft_ms, tpot_ms, ..."
    )
    p.add_argument(
        "--fidelity",
        default="fitted",
        help="how operators are priced (default: fitted)",
    )
    return p


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    from sweep.points import run

    return run(arguments.source, arguments.target, arguments.fidelity)
