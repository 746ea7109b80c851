"""`servesweep calibrate engine TABLE...`: the engine layer from measured TTFT and TPOT of served models.

Judged twice: on whole combinations (architecture, accelerator, engine) that the fit never saw, and on deployments
left out of combinations that it knows. The residuals of both are the intervals. Nothing depends on a model's name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.arguments import Parser
from sweep.calibrate.engine_fit import Layout, fit, layout_of, problem
from sweep.calibrate.engine_points import Floats, Measured, read_measured
from sweep.paths import conf_dir
from sweep.progress import progress

FOLDS = {"unseen": 8, "near": 4}
"""Folds of the two judgements: over combinations, over deployments."""
MAKERS = {"mi": "amd"}
"""Accelerators by the start of their name whose scores are told apart; all others are `nvidia`."""


def predict(points: Measured, layout: Layout, offsets: Floats) -> tuple[Floats, Floats]:
    """TTFT and TPOT of the points in ms; keys that the layout does not have count as never measured."""
    names = dict.fromkeys(
        [*layout.names, *((level, str(key)) for row in points.keys for level, key in enumerate(row))]
    )
    wider = Layout(tuple(names))
    grown = np.zeros((len(wider.names), offsets.shape[1]))
    grown[: len(layout.names)] = offsets
    asked = problem(points, wider)
    return asked.predict(asked.logs(grown))


def held_out(points: Measured, labels: npt.NDArray[np.str_], folds: int) -> tuple[Floats, Floats]:
    """TTFT and TPOT of every point from fits that never saw its label; the split is fixed."""
    names = np.unique(labels)
    np.random.default_rng(0).shuffle(names)
    fold_of = {name: i % folds for i, name in enumerate(names)}
    fold = np.array([fold_of[name] for name in labels])
    ttft, tpot = np.empty(len(fold)), np.empty(len(fold))
    with progress(len(fold)) as advance:
        for i in range(folds):
            out = fold == i
            seen = points.take(~out)
            layout = layout_of(seen)
            ttft[out], tpot[out] = predict(points.take(out), layout, fit(seen, layout))
            advance(int(out.sum()))
    return ttft, tpot


def quantiles(points: Measured, ttft: Floats, tpot: Floats, rows: npt.NDArray[np.bool_]) -> dict[str, float]:
    """p10 and p90 of measured over predicted, for both figures."""
    out = {}
    for name, measured, predicted in (("ttft", points.ttft_ms, ttft), ("tpot", points.tpot_ms, tpot)):
        ratio = (measured / predicted)[rows & np.isfinite(predicted)]
        out[f"{name}_p10"], out[f"{name}_p90"] = (float(f"{q:.4g}") for q in np.quantile(ratio, [0.1, 0.9]))
    return out


def scores(points: Measured, ttft: Floats, tpot: Floats) -> dict[str, dict[str, float]]:
    """Median absolute percentage errors by the accelerators' maker."""
    makers = np.array([_maker(label.split("|")[1]) for label in points.combination.tolist()])
    found = {}
    for maker in np.unique(makers):
        own = makers == maker
        found[str(maker)] = {
            "ttft_median_abs_percent": _median_percent(ttft[own], points.ttft_ms[own]),
            "tpot_median_abs_percent": _median_percent(tpot[own], points.tpot_ms[own]),
            "rows": int(own.sum()),
        }
    return found


def _maker(name: str) -> str:
    return next((maker for start, maker in MAKERS.items() if name.startswith(start)), "nvidia")


def _median_percent(predicted: Floats, measured: Floats) -> float:
    return round(100 * float(np.nanmedian(np.abs(predicted / measured - 1))), 1)


def calibrate(points: Measured) -> dict[str, Any]:
    """The content of engines.yaml: levels, measured combinations, residual spreads and scores."""
    colocated = points.take(~points.pooled)
    layout = layout_of(colocated)
    offsets = fit(colocated, layout)
    judged = {
        "near": held_out(colocated, colocated.deployments(), FOLDS["near"]),
        "unseen": held_out(colocated, colocated.combination, FOLDS["unseen"]),
    }
    everything = np.ones(len(colocated.engine), bool)
    engines = {"all": everything} | {
        engine: colocated.engine == engine for engine in np.unique(colocated.engine).tolist()
    }
    return {
        "levels": layout.levels(offsets),
        "residuals": {
            engine: {name: quantiles(colocated, *predicted, rows) for name, predicted in judged.items()}
            for engine, rows in engines.items()
        },
        "scores": {
            "in_sample": scores(colocated, *predict(colocated, layout, offsets)),
            **{name: scores(colocated, *predicted) for name, predicted in judged.items()},
        },
        "measured": sorted(set(colocated.combination.tolist())),
    }


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(
        prog="servesweep calibrate engine", description="Fit the engine layer to measured TTFT and TPOT."
    )
    p.add_argument(
        "tables",
        nargs="+",
        type=Path,
        help="measured tables: columns of `points`, measured_ttft_ms, measured_tpot_ms",
    )
    p.add_argument("--output", type=Path, default=conf_dir() / "hardware" / "fitted" / "engines.yaml")
    return p


def main(arguments: Sequence[str]) -> int:
    """Fit, write the file and print its scores; returns the exit status."""
    import yaml

    options = parser().parse_args(list(arguments))
    content = calibrate(read_measured(options.tables))
    header = (
        "# Engine layer, written by `servesweep calibrate engine`; terms: sweep/catalog/engine_layer.py.\n"
    )
    options.output.write_text(
        header + yaml.safe_dump(content, sort_keys=False, width=1000, default_flow_style=None),
        encoding="utf-8",
    )
    for name, makers in content["scores"].items():
        for maker, values in makers.items():
            print(f"{name} {maker}: {values}")
    return 0
