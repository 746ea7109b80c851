"""`servesweep points IN OUT`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sweep.arguments import Parser
from sweep.errors import UserError, nearest

DRIVERS = ("closed_form", "des")


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(
        prog="servesweep points",
        example="servesweep points points.csv estimates.csv",
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
        default=None,
        help="how operators are priced (default: fitted; anchored with --anchor-store)",
    )
    p.add_argument(
        "--anchor-store",
        type=Path,
        metavar="PATH",
        help="measured points (file or folder): the nearest of a row's regime scale its estimate",
    )
    p.add_argument(
        "--driver",
        default=DRIVERS[0],
        metavar="|".join(DRIVERS),
        help="closed_form (default), or des: each row's client request by request, with percentiles over requests",
    )
    return p


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    if arguments.driver not in DRIVERS:
        raise UserError(
            "not a driver",
            field="--driver",
            value=arguments.driver,
            allowed=", ".join(DRIVERS),
            near=nearest(arguments.driver, DRIVERS),
        )
    from sweep.points import PointSimulator, run

    simulated: PointSimulator | None = None
    if arguments.driver == "des":
        from sweep.simulate.points import simulate_points as simulated
    store = arguments.anchor_store
    if store is None:
        return run(arguments.source, arguments.target, arguments.fidelity or "fitted", None, simulated)
    from sweep.anchors.points import point_anchors

    fidelity = arguments.fidelity or "anchored"
    anchors = point_anchors(store, fidelity)
    status = run(arguments.source, arguments.target, fidelity, anchors, simulated)
    for line in anchors.told():
        print(f"servesweep points: {store}: {line}", file=sys.stderr)
    return status
