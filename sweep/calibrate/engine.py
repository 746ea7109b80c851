"""`servesweep calibrate engine TABLE...`: the engine layer from measured TTFT and TPOT of served models.

Judged twice: on whole combinations (architecture, accelerator, engine) that the fit never saw, and on deployments
left out of combinations that it knows. The residuals of both are the intervals. Nothing depends on a model's name.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.arguments import Parser
from sweep.calibrate.engine_fit import Layout, fit, layout_of, problem
from sweep.calibrate.engine_points import FIGURES, Floats, Measured, read_measured
from sweep.calibrate.nearby_fit import Surfaces, fit_sections
from sweep.catalog.hardware import maker
from sweep.catalog.nearby import POOLS
from sweep.errors import UserError
from sweep.files import check_target, write_atomic
from sweep.paths import conf_dir
from sweep.progress import progress

FOLDS = {"unseen": 20, "near": 4}
"""Folds of the two judgements: over combinations, over deployments."""


def predict(points: Measured, layout: Layout, offsets: Floats, surfaces: Sequence[Surfaces] = ()) -> Floats:
    """Figures of the points (n, FIGURES); keys and combinations that were not fitted count as never measured."""
    names = dict.fromkeys(
        [*layout.names, *((level, str(key)) for row in points.keys for level, key in enumerate(row))]
    )
    wider = Layout(tuple(names))
    grown = np.zeros((len(wider.names), offsets.shape[1]))
    grown[: len(layout.names)] = offsets
    asked = problem(points, wider)
    return asked.predict(asked.logs(grown), surfaces)


def fit_all(points: Measured) -> tuple[Layout, Floats, tuple[Surfaces, ...]]:
    """The engine layer of the points, and the surfaces of what it leaves over."""
    layout = layout_of(points)
    offsets = fit(points, layout)
    return layout, offsets, fit_sections(points, lambda own, tried: predict(own, layout, offsets, (tried,)))


def held_out(points: Measured, labels: npt.NDArray[np.str_], folds: int) -> Floats:
    """Figures of every point from fits that never saw its label; the split is fixed."""
    names = np.unique(labels)
    np.random.default_rng(0).shuffle(names)
    fold_of = {name: i % folds for i, name in enumerate(names)}
    fold = np.array([fold_of[name] for name in labels])
    found = np.empty_like(points.figures)
    with progress(len(fold)) as advance:
        for i in range(folds):
            out = fold == i
            found[out] = predict(points.take(out), *fit_all(points.take(~out)))
            advance(int(out.sum()))
    return found


def quantiles(points: Measured, predicted: Floats, rows: npt.NDArray[np.bool_]) -> dict[str, float]:
    """p10 and p90 of measured over predicted TTFT and TPOT."""
    out = {}
    for i, name in enumerate(("ttft", "tpot")):
        ratio = (points.figures[:, i] / predicted[:, i])[rows]
        low, high = np.quantile(ratio[np.isfinite(ratio)], [0.1, 0.9])
        out[f"{name}_p10"], out[f"{name}_p90"] = float(f"{low:.4g}"), float(f"{high:.4g}")
    return out


def slices(points: Measured) -> dict[str, npt.NDArray[np.bool_]]:
    """Rows of every score: latency by the accelerators' maker, of split pools, and throughput."""
    makers = makers_of(points)
    colocated = points.with_latency & ~points.pooled
    found = {str(maker): colocated & (makers == maker) for maker in np.unique(makers)}
    return found | {"pools": points.with_latency & points.pooled, "throughput": ~points.with_latency}


def scores(points: Measured, predicted: Floats) -> dict[str, dict[str, float]]:
    """Median absolute percentage errors per slice; figures that a slice did not measure are left out."""
    percent = 100.0 * np.abs(predicted / points.figures - 1.0)
    found: dict[str, dict[str, float]] = {}
    for name, rows in slices(points).items():
        medians = {
            figure: float(np.median(own[np.isfinite(own)])) if np.isfinite(own).any() else math.nan
            for figure, own in zip(FIGURES, percent[rows].T, strict=True)
        }
        kept = {
            f"{figure.rsplit('_', 1)[0] if figure.endswith('_ms') else figure}_median_abs_percent": round(
                v, 1
            )
            for figure, v in medians.items()
            if not math.isnan(v)
        }
        if kept:
            found[name] = {**kept, "rows": int(rows.sum())}
    return found


def makers_of(points: Measured) -> npt.NDArray[np.str_]:
    """Maker of every point's accelerator."""
    return np.array([maker(label.split("|")[1]) for label in points.combination.tolist()])


def calibrate(points: Measured) -> dict[str, Any]:
    """The content of engines.yaml: levels, measured combinations, residual spreads and scores."""
    if len(np.unique(points.combination)) < 2:
        raise UserError("too few measurements: two combinations of model, accelerator and engine at least")
    layout, offsets, surfaces = fit_all(points)
    judged = {
        "near": held_out(points, points.deployments(), FOLDS["near"]),
        "unseen": held_out(points, points.combination, FOLDS["unseen"]),
    }
    colocated = points.with_latency & ~points.pooled
    served = np.array([f"{a}.{b}" for a, b in zip(makers_of(points), points.engine, strict=True)])
    engines = {"all": colocated} | {
        where: colocated & (served == where) for where in np.unique(served).tolist()
    }
    pools = points.with_latency & points.pooled
    return {
        "levels": layout.levels(offsets),
        "nearby": {section.section: section.content() for section in surfaces},
        "residuals": {
            name: {kind: quantiles(points, predicted, rows) for kind, predicted in judged.items()}
            for name, rows in (engines | {POOLS: pools if pools.any() else colocated}).items()
        },
        "scores": {
            "in_sample": scores(points, predict(points, layout, offsets, surfaces)),
            **{kind: scores(points, predicted) for kind, predicted in judged.items()},
        },
        "measured": sorted(set(points.combination[points.with_latency].tolist())),
    }


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(
        prog="servesweep calibrate engine",
        example="servesweep calibrate engine measured.csv --output engines.yaml",
        description="Fit the engine layer to measured TTFT and TPOT.",
    )
    p.add_argument(
        "tables",
        nargs="+",
        type=Path,
        metavar="TABLE",
        help="measured tables: columns of `points`, measured_ttft_ms and measured_tpot_ms, or measured_output_tok_s_per_gpu",
    )
    p.add_argument("--output", type=Path, default=conf_dir() / "hardware" / "fitted" / "engines.yaml")
    return p


def main(arguments: Sequence[str]) -> int:
    """Fit, write the file and print its scores; returns the exit status."""
    import yaml

    options = parser().parse_args(list(arguments))
    check_target(options.output, "--output")
    content = calibrate(read_measured(options.tables))
    header = (
        "# Engine layer, written by `servesweep calibrate engine`; terms: sweep/catalog/engine_layer.py.\n"
    )
    text = header + yaml.safe_dump(content, sort_keys=False, width=1000, default_flow_style=None)
    write_atomic(options.output, text.encode())
    for kind, found in content["scores"].items():
        for name, values in found.items():
            print(f"{kind} {name}: {values}")
    return 0
