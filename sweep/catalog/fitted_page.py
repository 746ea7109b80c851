"""The page docs/operator_errors.md: `python -m sweep.catalog.fitted_page > docs/operator_errors.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from sweep.catalog.fitted import OPERATORS, fitted_file, load_fitted
from sweep.catalog.hardware import hardware_names
from sweep.fields.engine import ENGINES

INTRO = """# Fitted operators and their errors

Made from `conf/hardware/fitted` by `python -m sweep.catalog.fitted_page`; [operators.md](operators.md) explains the terms.

Each cell is the absolute log error on held-out shapes, median / 90th percentile in %, of modelled against measured time:
three folds, each leaving whole weight shapes (GEMM), head geometries (attention) or models (experts) out of the fit.
`-`: not measured, inherited as the second table says. Engine `atom` has no tables of its own.
"""
INHERITED = """## What is inherited

Operators that were not measured on an accelerator with an engine, and whose coefficients stand in (as ratios to the
roofline, with a wider error: x 1.5 for another engine, x 1.5 for another accelerator, x 2 for another operator).
"""


def page() -> str:
    """The whole page as Markdown."""
    measured = [name for name in hardware_names() if fitted_file(name)]
    tables = [_errors(name) for name in measured]
    return "\n".join([INTRO, *tables, INHERITED, _inherited()])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def _errors(name: str) -> str:
    by_engine = fitted_file(name)
    engines = [engine for engine in ENGINES if engine in by_engine]

    def cell(engine: str, op: str) -> str:
        entry = by_engine[engine].get(op)
        if entry is None:
            return "-"
        error = entry["error"]
        return f"{100 * error['held_out_median']:.1f} / {100 * error['held_out_p90']:.0f}"

    rows = [
        (op, *(cell(engine, op) for engine in engines))
        for op in OPERATORS
        if any(op in by_engine[engine] for engine in engines)
    ]
    return f"## {name}\n\n" + _table(("operator", *engines), rows)


def _inherited() -> str:
    """Rows by accelerator and engine: the operators, grouped by whom they come from."""
    fitted = load_fitted(hardware_names())
    rows = []
    for name in hardware_names():
        for engine in ENGINES:
            donors: dict[str, list[str]] = {}
            for op in OPERATORS:
                source = fitted.sources[name, engine, op]
                if source.inherited:
                    where = [source.hardware] if source.hardware != name else []
                    where += [source.engine] if source.engine != engine else []
                    where += [source.op] if source.op != op else []
                    donors.setdefault(" ".join(where), []).append(op)
            texts = [
                f"{donor}: {'all' if len(ops) == len(OPERATORS) else ', '.join(ops)}"
                for donor, ops in donors.items()
            ]
            rows.append((name, engine, "; ".join(texts)))
    return _table(("accelerator", "engine", "from whom: what"), rows)


if __name__ == "__main__":
    sys.stdout.write(page())
