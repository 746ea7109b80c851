"""`servesweep simulate`: a cluster, request by request."""

from __future__ import annotations

from collections.abc import Sequence

from sweep.simulate.arguments import parse


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    options = parse(argv)
    from sweep.simulate.command import run

    return run(options)
