"""`manifest.json`: what a results directory holds and how it came about."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sweep import __version__
from sweep.axes import Grid
from sweep.frontier import Summary

FILE = "manifest.json"
PACKAGES = ("numpy", "numba", "polars", "hydra-core", "omegaconf", "joblib")


def manifest(
    grid: Grid, summary: Summary, parts: dict[int, Path], inert: dict[str, str], run: dict[str, Any]
) -> bytes:
    """The manifest as JSON: versions, configuration, counts, parts with their checksums, and `run`'s own entries.

    `inert` says of inputs that can change nothing in this run what they would need to matter.
    """
    content = {
        "servesweep": __version__,
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "machine": platform.machine(),
        **run,
        "grid": grid.name,
        "overrides": list(grid.overrides),
        "axes": {label.name: _distinct(label.values) for label in grid.labels},
        "settings": grid.settings,
        "inert_inputs": [
            {"key": key, "needs": needs, "given": key in grid.given} for key, needs in inert.items()
        ],
        "rows": grid.n_rows,
        "rows_by_reason": {reason or "ok": n for reason, n in summary.reasons.items()},
        "rows_with_a_price": summary.priced,
        "rows_that_meet_the_slo": summary.meets_slo,
        "parts": [{"file": f"parts/{path.name}", "block": i} for i, path in sorted(parts.items())],
    }
    return (json.dumps(content, indent=1, default=str) + "\n").encode()


def _distinct(values: tuple[Any, ...]) -> list[Any]:
    return list(dict.fromkeys(values))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
