"""One deployment scaled by measured points: which points, by what factors, how far to trust them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.evaluate import LOAD_RATE
from kernels.layout import N_OUT
from kernels.reasons import OK
from sweep.anchors.anchor import Anchor
from sweep.anchors.apply import scale
from sweep.anchors.correction import Anchors, Correction, Point, correction_from, shape_of
from sweep.anchors.laws import BRACKETED, TPOT_REACH, TpFit, decode_floor_ms, fit_tp
from sweep.anchors.readers import read_results
from sweep.anchors.regime import Regime, regime_of
from sweep.anchors.store import load, save
from sweep.catalog.models import resolve_model
from sweep.errors import UserError
from sweep.estimation.measured import FILE, FLOOR, MODE, SAVE, SCALING, STORE
from sweep.estimation.rules import Deployment
from sweep.evaluation import Evaluated
from sweep.fields import by_name
from sweep.records import Records
from sweep.versions import encode_version

HIGH, BETWEEN, LOW = "high", "interpolated", "low"
GPU_REACH = 2.0
"""A target of more GPUs than this many times the measured ones is extrapolated."""
TP = 0
"""Position of tp in `shape_of`."""


@dataclass(frozen=True)
class Anchoring:
    """What measured points did to one estimate."""

    points: tuple[Point, ...]
    ttft_factor: float
    tpot_factor: float
    ttft_weight: float
    tpot_weight: float
    confidence: str
    alone: Mapping[str, float]
    """The model's own results, by column."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """The deployment to be scaled, with the model's answer."""

    model: str
    hardware: str
    base: str
    record: Records
    evaluated: Evaluated

    @property
    def regime(self) -> Regime:
        return regime_of(self.model, self.hardware, self.record[0], self.evaluated.derived[0])

    @property
    def shape(self) -> tuple[float, ...]:
        return shape_of(self.record[0], self.evaluated.derived[0])

    @property
    def in_flight(self) -> float:
        p = self.record[0]
        return float(self.evaluated.results["resident"][0] if p["load"] == LOAD_RATE else p["concurrency"])

    @property
    def decode_spread(self) -> float:
        return float(self.record[0]["decode_spread"])

    def result(self, name: str) -> float:
        return float(self.evaluated.results[name][0])


def anchored(asked: Deployment, target: Target) -> tuple[Anchoring | None, list[str]]:
    """Scale the target's results in place by its nearest measured points; None where no point is of its regime.

    Then the notes say why. Raises UserError where --profiling-mode asks for a measurement and none fits.
    """
    if target.evaluated.results["reason"][0] != OK:
        return None, []
    settings = asked.settings
    if settings.get(FILE):
        points, notes = _loaded(Path(str(settings[FILE])), target)
    else:
        points, notes = _of_store(Path(str(settings[STORE])), target)
    if not points:
        if MODE in settings:
            raise UserError(notes[-1], field="--profiling-mode", value=settings[MODE])
        return None, notes
    p = target.record[0]
    found = correction_from(
        points, target.shape, float(p["isl"]), float(p["osl"]), np.array([target.in_flight])
    )
    factors = [float(found.ttft[0]), float(found.tpot[0])]
    weights = [float(found.ttft_weight[0]), float(found.tpot_weight[0])]
    if settings.get(SCALING):
        fitted = _over_tp(points, _scaling_points(str(settings[SCALING]), target), target)
        if fitted is not None:
            factors[1], weights[1], said = fitted
            notes.append(said)
    notes += _other_versions(found.points, target)
    alone = {name: target.result(name) for name in target.evaluated.results.dtype.names or ()}
    if settings.get(FLOOR):
        raised = _floor_factor(Path(str(settings[FLOOR])), target, factors[1])
        if raised > 1.0:
            factors[1] *= raised
            notes.append(f"decode floor: the measured step is {raised:.2f} times the estimate's")
    rows = target.evaluated.results.view(np.float64).reshape(-1, N_OUT)
    scale(rows, np.array(factors[:1]), np.array(factors[1:]), target.record["load"])
    if settings.get(SAVE):
        notes.append(f"written: {save(Path(str(settings[SAVE])), [point.anchor for point in found.points])}")
    done = Anchoring(
        points=found.points,
        ttft_factor=factors[0],
        tpot_factor=factors[1],
        ttft_weight=weights[0],
        tpot_weight=weights[1],
        confidence=_confidence(found, points, target),
        alone=alone,
        notes=tuple(notes),
    )
    return done, []


def _of_store(path: Path, target: Target) -> tuple[list[Point], list[str]]:
    """Points of the target's regime; and why there are none."""
    anchors, passed = load(path)
    known = Anchors(anchors, target.base, target.model, target.decode_spread)
    points = known.of_regime(target.regime)
    notes = [f"{path}: {len(passed)} files are no benchmark results"] if passed else []
    if known.unused:
        notes.append(f"{path}: {len(known.unused)} points cannot be used ({known.unused[0]})")
    if points:
        return points, notes
    missed = known.nearest_miss(target.regime)
    why = f"the nearest differs in {', '.join(missed)}" if missed else f"nothing of {target.model} in it"
    return [], [*notes, f"{path}: no measured point of this regime ({why}): the estimate is the model's own"]


def _loaded(path: Path, target: Target) -> tuple[list[Point], list[str]]:
    """Points of one artifact: its regime is not checked, its model is."""
    known = Anchors(_read(path, target), target.base, decode_spread=target.decode_spread)
    if not known.points:
        raise UserError(
            f"holds no point that can be used ({known.unused[0]})", field="--load-benchmark", value=path
        )
    notes = []
    missed = target.regime.differences(known.points[0].regime)
    if missed:
        notes.append(f"{path.name} was measured in another regime: {', '.join(missed)}")
    return known.points, notes


def _read(path: Path, target: Target) -> list[Anchor]:
    anchors = read_results(path, columns_of(target))
    others = {resolve_model(str(a.deployment["model"])).name for a in anchors} - {target.model}
    if len(others) > 0:
        raise UserError(f"was measured on {', '.join(sorted(others))}, not on {target.model}", file=str(path))
    return anchors


def columns_of(target: Target) -> dict[str, Any]:
    """What a result file may leave out, as columns of a deployment: the target's own."""
    p, fields = target.record[0], by_name()
    columns: dict[str, Any] = {
        "model": target.model,
        "hardware": target.hardware,
        "backend": target.regime.engine,
    }
    for name in ("tp", "pp", "attention_dp", "moe_ep", "isl", "osl", "length_range"):
        if not np.isnan(p[name]):
            columns[name] = int(p[name]) if fields[name].kind == "int" else float(p[name])
    return columns


def _scaling_points(text: str, target: Target) -> list[Point]:
    paths = [Path(part.strip()) for part in text.split(",") if part.strip()]
    return [
        point
        for path in paths
        for point in Anchors(_read(path, target), target.base, decode_spread=target.decode_spread).points
    ]


def _over_tp(
    points: Sequence[Point], more: Sequence[Point], target: Target
) -> tuple[float, float, str] | None:
    """(TPOT factor, weight, note) from points at several TP widths, where none is at the target's own.

    The measured time per token without its exposed all-reduce is shardable / tp + fixed; the target's all-reduce, as
    priced, comes back on top. None where the law does not hold.
    """
    width = target.shape[TP]
    by_width: dict[float, list[Point]] = {}
    for point in (*points, *more):
        by_width.setdefault(point.shape[TP], []).append(point)
    p, tpot = target.record[0], target.result("tpot_ms")
    isl, osl = float(p["isl"]), float(p["osl"])
    compute, weights = {}, []
    for tp, there in by_width.items():
        found = correction_from(there, there[0].shape, isl, osl, np.array([target.in_flight]))
        near = min(found.points, key=lambda point: abs(np.log2(point.load / target.in_flight)))
        measured_ms = near.predicted["tpot_ms"] * np.exp(near.log_tpot)
        share = near.predicted["step_tp_comm_ms"] / near.predicted["step_ms"]
        compute[tp] = measured_ms - share * near.predicted["tpot_ms"]
        weights.append(float(found.tpot_weight[0]))
    if width in compute:
        return None
    law: TpFit | None = fit_tp(list(compute), list(compute.values()))
    if law is None:
        return None
    share = target.result("step_tp_comm_ms") / target.result("step_ms")
    at_target = law.at(width, share * tpot)
    far = min(abs(np.log2(width / tp)) for tp in compute)
    inside = min(compute) < width < max(compute)
    weight = min(weights) * float(TPOT_REACH.weight(0.0, BRACKETED * far if inside else far, 0.0))
    note = f"over TP: {law.shardable_ms:.3g} / tp + {law.fixed_ms:.3g} ms, from TP {', '.join(f'{tp:.0f}' for tp in sorted(compute))}"
    return at_target / tpot, weight, note


def _floor_factor(path: Path, target: Target, tpot_factor: float) -> float:
    """How far a measured decode step lies above the estimated one at the same batch of a rank; 1 where it does not."""
    points = Anchors(_read(path, target), target.base, decode_spread=target.decode_spread).points
    steps = [(p.load / p.shape[2], p.predicted["tpot_ms"] * float(np.exp(p.log_tpot))) for p in points]
    batch = target.in_flight / float(target.record["attention_dp"][0])
    floor_ms = decode_floor_ms([b for b, _ in steps], [ms for _, ms in steps], batch)
    return max(1.0, floor_ms / (target.result("tpot_ms") * tpot_factor))


def _other_versions(points: Sequence[Point], target: Target) -> list[str]:
    """A line where the points were measured under another version of the engine than is asked for."""
    asked = target.record["engine_version"][0]
    named = {
        str(p.anchor.deployment["backend_version"])
        for p in points
        if "backend_version" in p.anchor.deployment
    }
    other = sorted(name for name in named if (encode_version(name) or asked) != asked)
    if np.isnan(asked) or not other:
        return []
    return [f"measured under {target.regime.engine} {', '.join(other)}, not the version that is asked for"]


def _confidence(found: Correction, points: Sequence[Point], target: Target) -> str:
    """High at a measured shape, lengths and range of loads; low beyond twice the measured GPUs."""
    if target.result("gpus") > GPU_REACH * max(point.gpus for point in points):
        return LOW
    loads = [point.load for point in found.points]
    exact = found.shape_distance == 0.0 and found.length_distance == 0.0
    return HIGH if exact and min(loads) <= target.in_flight <= max(loads) else BETWEEN
