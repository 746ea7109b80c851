"""`servesweep report DIR`: the report and all pictures of a sweep, drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweep.errors import UserError

HELP = """usage: servesweep report DIR

Draws a sweep's results again: report.html and pareto.png as the sweep left them, and beside them
  throughput.png   output tokens/s/GPU against tokens/s/user
  breakdown.png    step time, memory, energy and cost by price book of the cheapest deployments that meet the SLO
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    if len(argv) != 1:
        raise UserError(
            "which results directory? servesweep report DIR" if not argv else "takes one results directory"
        )
    from sweep.run import redraw

    for file in redraw(Path(argv[0])):
        print(file)
    return 0
