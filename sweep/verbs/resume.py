"""`servesweep resume DIR`: continue an interrupted sweep or search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweep.errors import UserError

HELP = """usage: servesweep resume DIR

Continues the run whose results directory is DIR: only blocks that are missing or damaged are evaluated again.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    if len(argv) != 1:
        raise UserError(
            "which results directory? servesweep resume DIR" if not argv else "takes one results directory"
        )
    from sweep.run import carry_out, reopen

    run = reopen(Path(argv[0]))
    if run.searched:
        from sweep.search.run import carry_on

        carry_on(run)
    else:
        carry_out(run)
    return 0
