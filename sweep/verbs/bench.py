"""`servesweep bench`: how fast this machine is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from sweep.arguments import Parser

WORDS = {
    "rows_per_s": "rows per second, end to end into parquet",
    "kernel_rows_per_s": "rows per second in the kernel",
    "kernel_row_us": "us of CPU per row in the kernel, undisturbed",
    "reference_ns": "ns for a round of the reference: quotients, exponentials, roots and branches like a row's",
    "kernel_ratio": "rounds of the reference per row: what the machine's noise leaves alone",
    "des_steps_per_s": "engine steps simulated per second",
    "des_requests_per_s": "requests simulated per second",
    "replay_ms": "ms for a replay of 300 requests",
    "startup_s": "s from start to the answer of one estimate",
    "peak_rss_mib": "MiB of memory at the most",
}


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(prog="servesweep bench", description="How fast this machine evaluates and simulates.")
    p.add_argument("--json", action="store_true", help="one JSON object")
    return p


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    options = parser().parse_args(list(argv))
    from sweep.bench import figures

    found = figures()
    if options.json:
        print(json.dumps(found))
        return 0
    ran = found["ran"]
    print(
        f"ran: grid={ran['grid']} ({ran['rows']:,} rows, {ran['feasible_share']:.0%} feasible, {ran['workers']} workers);"
        f" {ran['simulation']}; {ran['startup']}"
    )
    for name, words in WORDS.items():
        print(f"{found[name]:>14,} {words}")
    return 0
