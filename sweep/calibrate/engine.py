"""`servesweep calibrate engine TABLE...`: the engine layer from measured TTFT and TPOT of served models.

Every term of `sweep.catalog.engine_layer.TERMS` is, in logs, a common value plus a part of the engine plus a part of
the (accelerator family, engine) pair, each pulled towards zero: a combination that was never measured inherits from
its relatives. Least squares on log errors with a loss that grows with their logarithm, so that a few outliers do not
steer it; a combination counts with the fourth root of its rows. Whole combinations are left out to judge it and to
measure the intervals. Nothing depends on a model's name.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.arguments import Parser
from sweep.catalog.engine_layer import TERMS, write_layer
from sweep.catalog.fitted import load_fitted
from sweep.catalog.hardware import hardware, hardware_names, resolve_hardware
from sweep.catalog.models import resolve_model
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.fields.engine import ENGINES
from sweep.paths import conf_dir
from sweep.points import build_records
from sweep.table_io import read_table

Floats = npt.NDArray[np.float64]

TPOT_SCALE, TTFT_SCALE = 0.15, 0.30
"""Log errors beyond which a point loses influence: the scatter of repeated measurements is 5 to 10 %."""
TTFT_WEIGHT = 0.5
PULL = 0.12
"""Weight of one term's departure from its prior, per spread."""
ENGINE_SHARE, PAIR_SHARE = 0.7, 0.4
"""Spread of the parts of an engine and of a pair, over that of the common part."""
FOLDS = 5
ROUNDS, FOLD_ROUNDS = 9, 6


@dataclass(frozen=True)
class Measured:
    """Measured points: records (n,), TTFT and TPOT in ms, and the group labels of each."""

    records: npt.NDArray[Any]
    ttft_ms: Floats
    tpot_ms: Floats
    pair: npt.NDArray[np.str_]
    engine: npt.NDArray[np.str_]
    combination: npt.NDArray[np.str_]
    pooled: npt.NDArray[np.bool_]

    def take(self, rows: npt.NDArray[Any]) -> Measured:
        """The points at `rows`."""
        return Measured(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def read_measured(paths: Sequence[Path]) -> Measured:
    """Points of measured tables (columns of `servesweep points`, with measured_ttft_ms and measured_tpot_ms).

    Raises UserError where a row cannot be read as a deployment.
    """
    parts = []
    for path in paths:
        frame = read_table(path)
        missing = {"measured_ttft_ms", "measured_tpot_ms"} - set(frame.columns)
        if missing:
            raise UserError(f"has no column {', '.join(sorted(missing))}", file=str(path))
        records, errors = build_records(frame)
        for line, error in enumerate(errors, start=2):
            if error:
                raise UserError(error, file=str(path), line=line)
        # A measured row ran, whatever the account of its memory says.
        records["enforce_memory"] = 0.0
        parts.append(_labelled(frame, records))
    return Measured(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Measured.__dataclass_fields__)
    )


def _labelled(frame: pl.DataFrame, records: npt.NDArray[Any]) -> Measured:
    names = [resolve_hardware(str(text)).name for text in frame["hardware"]]
    models = [resolve_model(str(text)).name for text in frame["model"]]
    engines = np.array([ENGINES[int(code)] for code in records["engine"]])
    families = [str(hardware(name).fields["family"]) for name in names]
    pairs = np.array([f"{family}.{engine}" for family, engine in zip(families, engines, strict=True)])
    combinations = np.array(["|".join(parts) for parts in zip(models, names, engines, strict=True)])
    return Measured(
        records,
        frame["measured_ttft_ms"].cast(pl.Float64).to_numpy(),
        frame["measured_tpot_ms"].cast(pl.Float64).to_numpy(),
        pairs,
        engines,
        combinations,
        records["disaggregate"] > 0.0,
    )


@dataclass(frozen=True)
class Layout:
    """Which engines and pairs have parameters; a parameter vector is (1 + engines + pairs) rows of len(TERMS)."""

    engines: tuple[str, ...]
    pairs: tuple[str, ...]

    @property
    def size(self) -> int:
        return (1 + len(self.engines) + len(self.pairs)) * len(TERMS)

    def layers(self, x: Floats) -> dict[str, dict[str, float]]:
        """Terms by name for `common`, every engine and every pair."""
        rows = x.reshape(-1, len(TERMS))
        common, by_engine = rows[0], rows[1 : 1 + len(self.engines)]
        logs = {"common": common}
        logs |= {engine: common + by_engine[i] for i, engine in enumerate(self.engines)}
        for i, pair in enumerate(self.pairs):
            logs[pair] = logs[pair.split(".")[1]] + rows[1 + len(self.engines) + i]
        return {
            name: {term.name: term.value(v) for term, v in zip(TERMS, values, strict=True)}
            for name, values in logs.items()
        }

    def spreads(self) -> Floats:
        """Spread of every parameter, shape (size,)."""
        one = np.array([term.spread for term in TERMS])
        return np.concatenate(
            [one, np.tile(one * ENGINE_SHARE, len(self.engines)), np.tile(one * PAIR_SHARE, len(self.pairs))]
        )


def layout_of(points: Measured) -> Layout:
    """Engines and pairs that occur among the points, sorted."""
    return Layout(tuple(sorted(set(points.engine.tolist()))), tuple(sorted(set(points.pair.tolist()))))


@cache
def _operators() -> Floats:
    """Coefficients of operators and collectives, before any engine layer."""
    return load_fitted(hardware_names()).coefficients


def coefficient_table(layers: Mapping[str, Mapping[str, float]]) -> Floats:
    """Coefficients of every accelerator and engine with the given layers on top of the operators."""
    table = _operators().copy()
    for i, name in enumerate(hardware_names()):
        family = str(hardware(name).fields["family"])
        for j, engine in enumerate(ENGINES):
            values = layers.get(f"{family}.{engine}") or layers.get(engine) or layers["common"]
            write_layer(table, i, j, values)
    return table


def predict(points: Measured, layers: Mapping[str, Mapping[str, float]]) -> tuple[Floats, Floats]:
    """TTFT and TPOT of the points in ms; NaN where the model has no answer."""
    results = evaluate(points.records, coefficient_table(layers)).results
    return results["ttft_ms"], results["tpot_ms"]


def tempered(errors: Floats, scale: float) -> Floats:
    """Signed square root of the loss scale^2 log(1 + (e / scale)^2): like e when small, nearly flat when large."""
    loss: Floats = np.sign(errors) * scale * np.sqrt(np.log1p((errors / scale) ** 2))
    return loss


def residuals(x: Floats, points: Measured, layout: Layout, weights: Floats) -> Floats:
    """Weighted, tempered log errors of TTFT and TPOT, then the pull towards the priors."""
    ttft, tpot = predict(points, layout.layers(x))
    errors = np.concatenate(
        [
            TTFT_WEIGHT * weights * tempered(np.log(ttft / points.ttft_ms), TTFT_SCALE),
            weights * tempered(np.log(tpot / points.tpot_ms), TPOT_SCALE),
        ]
    )
    return np.concatenate([np.nan_to_num(errors, nan=2.0), PULL * x / layout.spreads()])


def fit(points: Measured, layout: Layout, rounds: int, start: Floats | None = None) -> Floats:
    """Parameters that fit the points best, shape (layout.size,); deterministic."""
    from scipy.optimize import least_squares

    names, counts = np.unique(points.combination, return_counts=True)
    count = dict(zip(names, counts, strict=True))
    weights = np.array([count[name] ** -0.25 for name in points.combination])
    first = np.zeros(layout.size) if start is None else start
    solved = least_squares(
        residuals, first, args=(points, layout, weights / weights.mean()), max_nfev=rounds, diff_step=1e-3
    )
    x: Floats = solved.x
    return x


def held_out(points: Measured, layout: Layout, seed: int = 0) -> tuple[Floats, Floats]:
    """TTFT and TPOT of every point from fits that never saw its combination."""
    names = np.unique(points.combination)
    np.random.default_rng(seed).shuffle(names)
    fold_of = {name: i % FOLDS for i, name in enumerate(names)}
    folds = np.array([fold_of[name] for name in points.combination])
    ttft, tpot = np.empty(len(folds)), np.empty(len(folds))
    for fold in range(FOLDS):
        out = folds == fold
        x = fit(points.take(~out), layout, FOLD_ROUNDS)
        ttft[out], tpot[out] = predict(points.take(out), layout.layers(x))
    return ttft, tpot


def quantiles(points: Measured, ttft: Floats, tpot: Floats, rows: npt.NDArray[np.bool_]) -> dict[str, float]:
    """p10 and p90 of measured over predicted, for both figures."""
    out = {}
    for name, measured, predicted in (("ttft", points.ttft_ms, ttft), ("tpot", points.tpot_ms, tpot)):
        ratio = (measured / predicted)[rows & np.isfinite(predicted)]
        out[f"{name}_p10"], out[f"{name}_p90"] = (float(f"{q:.4g}") for q in np.quantile(ratio, [0.1, 0.9]))
    return out


def scores(points: Measured, ttft: Floats, tpot: Floats) -> dict[str, float]:
    """Median absolute percentage errors."""
    return {
        "ttft_median_abs_percent": round(100 * float(np.nanmedian(np.abs(ttft / points.ttft_ms - 1))), 1),
        "tpot_median_abs_percent": round(100 * float(np.nanmedian(np.abs(tpot / points.tpot_ms - 1))), 1),
        "rows": len(ttft),
    }


def calibrate(points: Measured) -> dict[str, Any]:
    """The content of engines.yaml: layers, measured combinations, residual spreads and scores."""
    colocated = points.take(~points.pooled)
    layout = layout_of(colocated)
    x = fit(colocated, layout, ROUNDS)
    layers = layout.layers(x)
    near = predict(colocated, layers)
    unseen = held_out(colocated, layout)
    spread = {}
    for engine in ("all", *layout.engines):
        rows = np.ones(len(colocated.engine), bool) if engine == "all" else colocated.engine == engine
        spread[engine] = {
            "near": quantiles(colocated, *near, rows),
            "unseen": quantiles(colocated, *unseen, rows),
        }
    return {
        "layers": {
            name: {term: float(f"{value:.5g}") for term, value in values.items()}
            for name, values in layers.items()
        },
        "residuals": spread,
        "scores": {"near": scores(colocated, *near), "unseen": scores(colocated, *unseen)},
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
    options.output.write_text(header + yaml.safe_dump(content, sort_keys=False, width=100), encoding="utf-8")
    for name, values in content["scores"].items():
        print(f"{name}: {values}")
    return 0
