"""`servesweep calibrate WHAT ...`: coefficients of the model from measured data."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.util import find_spec

from sweep.errors import UserError, nearest

SUBJECTS = {
    "operators": (
        "sweep.calibrate.operators",
        "efficiencies of GEMM, attention, experts from operator tables",
    ),
    "collectives": ("sweep.calibrate.collectives", "latencies and bandwidths of collectives"),
    "engine": ("sweep.calibrate.engine", "host costs and residual scales from measured deployments"),
}
"""What can be calibrated: (module with `main(arguments) -> int`, one line of help)."""


def usage() -> str:
    """Help of the verb."""
    here = {name: text for name, (module, text) in SUBJECTS.items() if find_spec(module) is not None}
    lines = ["usage: servesweep calibrate WHAT [arguments]", ""]
    return "\n".join([*lines, *(f"  {name:12s} {text}" for name, text in here.items())])


def main(arguments: Sequence[str]) -> int:
    """Run one calibration; returns the exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    subject, rest = arguments[0], arguments[1:]
    if subject not in SUBJECTS or find_spec(SUBJECTS[subject][0]) is None:
        raise UserError(
            "is nothing to calibrate",
            field="WHAT",
            value=subject,
            allowed=", ".join(SUBJECTS),
            near=nearest(subject, SUBJECTS),
        )
    import polars as pl

    try:
        return int(importlib.import_module(SUBJECTS[subject][0]).main(rest))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        # Databases of operators have hundreds of tables in formats of their own.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"a table is not as it should be: {reason}", field=f"calibrate {subject}") from None
