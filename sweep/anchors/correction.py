"""What measured points say about a deployment's latencies: the nearest of its regime, and how far they carry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.reasons import OK
from sweep.anchors.anchor import Anchor
from sweep.anchors.laws import BRACKETED, TPOT_REACH, TTFT_REACH, Reach
from sweep.anchors.regime import Regime, regime_of
from sweep.catalog.hardware import resolve_hardware
from sweep.catalog.models import resolve_model
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for
from sweep.point_rows import row_values
from sweep.records import default_records, set_values

Floats = npt.NDArray[np.float64]

POOLS = ("prefill", "decode")


@dataclass(frozen=True)
class Point:
    """An anchor beside the model's own answer to it."""

    anchor: Anchor
    regime: Regime
    shape: tuple[float, ...]
    isl: float
    osl: float
    load: float
    """Requests in flight."""
    gpus: float
    log_ttft: float
    """ln(measured / model); NaN where it was not measured."""
    log_tpot: float
    predicted: dict[str, float]


@dataclass(frozen=True)
class Correction:
    """Factors on the model's TTFT and TPOT with their weights, one element per load asked for."""

    ttft: Floats
    tpot: Floats
    ttft_weight: Floats
    tpot_weight: Floats
    points: tuple[Point, ...]
    """The measured points that they come from: one shape, one pair of lengths, several loads."""
    shape_distance: float
    length_distance: float


def shape_of(p: Any, d: Any) -> tuple[float, ...]:
    """Parallel widths of a record: tp, pp, attention_dp, cp, moe_ep, and replicas and widths of each split pool."""
    widths = [p["tp"], p["pp"], p["attention_dp"], p["cp"], d["moe_ep"] if p["n_experts"] > 0 else 1.0]
    if p["disaggregate"] > 0:
        for pool in POOLS:
            own = [p[f"{pool}_{name}"] for name in ("tp", "pp", "attention_dp", "moe_ep")]
            widths += [p[f"{pool}_replicas"], *own]
    return tuple(float(w) if w >= 1.0 else 1.0 for w in widths)


def record_of(deployment: Mapping[str, Any], inputs: Mapping[str, Any] | None = None) -> Any:
    """The kernel's record of a measured deployment, shape (1,), its accelerator at position 0.

    Raises UserError for a model or value that is not known.
    """
    record = default_records(1)
    set_values(record[0], {**row_values(deployment), **(inputs or {})})
    record["hardware_index"] = 0
    return record


def check(anchor: Anchor) -> None:
    """Raises UserError, with the anchor's source, for a deployment that no row of a table could be: it corrects nothing."""
    try:
        record_of(anchor.deployment, anchor.inputs)
    except UserError as error:
        raise error.located(anchor.source, None) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"impossible value: {error}", file=anchor.source) from None


class Anchors:
    """Measured points by regime, each with the model's answer, ready to correct estimates."""

    def __init__(
        self,
        anchors: Iterable[Anchor],
        base: str = "fitted",
        model: str | None = None,
        decode_spread: float | None = None,
    ) -> None:
        """`base` is the rung whose estimates are corrected; with `model` (catalogue name) only its anchors are read.

        `decode_spread`: that of the loops to correct, where a point does not say its own: like is compared with like.
        """
        self.points: list[Point] = []
        self.unused: list[str] = []
        for anchor in anchors:
            try:
                if model is None or resolve_model(str(anchor.deployment["model"])).name == model:
                    self.points.append(_point(anchor, base, decode_spread))
            except UserError as error:
                self.unused.append(f"{anchor.source}: {error.message}")
            except (TypeError, ValueError, OverflowError) as error:
                self.unused.append(f"{anchor.source}: impossible value: {error}")
        self._by_place: dict[tuple[str, str], list[Point]] = {}
        for point in self.points:
            self._by_place.setdefault((point.regime.model, point.regime.hardware), []).append(point)

    @property
    def places(self) -> Collection[tuple[str, str]]:
        """Models and accelerators (catalogue names) of which there are points."""
        return self._by_place.keys()

    def of_regime(self, regime: Regime) -> list[Point]:
        """Points at distance 0."""
        near = self._by_place.get((regime.model, regime.hardware), ())
        return [point for point in near if not regime.differences(point.regime)]

    def nearest_miss(self, regime: Regime) -> list[str]:
        """Axes on which the closest other regime differs; empty where there are no points at all."""
        return min((regime.differences(p.regime) for p in self.points), key=len, default=[])

    def correction(self, regime: Regime, p: Any, d: Any, load: Floats) -> Correction | None:
        """Factors for a deployment at loads (requests in flight); None where nothing of its regime was measured."""
        points = self.of_regime(regime)
        return (
            correction_from(points, shape_of(p, d), float(p["isl"]), float(p["osl"]), load)
            if points
            else None
        )


def _point(anchor: Anchor, base: str, decode_spread: float | None) -> Point:
    model = resolve_model(str(anchor.deployment["model"])).name
    hardware = resolve_hardware(str(anchor.deployment["hardware"])).name
    client = {} if decode_spread is None else {"decode_spread": decode_spread}
    record = record_of(anchor.deployment, {**client, **anchor.inputs})
    evaluated = evaluate(record, coefficients_for(base, (hardware,)))
    result, p, d = evaluated.results[0], record[0], evaluated.derived[0]
    if result["reason"] != OK:
        raise UserError("the model says that it cannot run: not used")
    measured = anchor.measured
    ttft = None if anchor.cached else measured.get("ttft_ms")
    return Point(
        anchor=anchor,
        regime=regime_of(
            model, hardware, p, d, formats_unknown=anchor.formats_unknown, kernels=anchor.kernels
        ),
        shape=shape_of(p, d),
        isl=float(p["isl"]),
        osl=float(p["osl"]),
        load=float(result["resident"] if anchor.deployment.get("load") == "rate" else p["concurrency"]),
        gpus=float(result["gpus"]),
        log_ttft=float(np.log(ttft / result["ttft_ms"])) if ttft else np.nan,
        log_tpot=float(np.log(measured["tpot_ms"] / result["tpot_ms"]))
        if _counts(measured, result)
        else np.nan,
        predicted={
            name: float(result[name]) for name in ("ttft_ms", "tpot_ms", "step_ms", "step_tp_comm_ms")
        },
    )


def _counts(measured: Any, result: Any) -> bool:
    return bool("tpot_ms" in measured and result["tpot_ms"] > 0.0)


def correction_from(
    points: Sequence[Point], shape: tuple[float, ...], isl: float, osl: float, load: Floats
) -> Correction:
    """Factors from the points of the nearest shape (sum of differences of widths), then of the nearest lengths.

    Between measured loads the log correction is interpolated over log load, beyond them the end's is held; then it fades
    with the distance (sweep.anchors.laws).
    """
    ladder = _nearest_ladder(points, shape, isl, osl)
    first = ladder[0]
    shape_distance = float(np.abs(np.log2(shape) - np.log2(first.shape)).sum())
    length_distance = _length_distance(first, isl, osl)
    x = np.log2(np.maximum(1.0, np.asarray(load, np.float64)))
    found = []
    for logs, reach in (
        ([p.log_ttft for p in ladder], TTFT_REACH),
        ([p.log_tpot for p in ladder], TPOT_REACH),
    ):
        found.append(_faded([p.load for p in ladder], logs, x, reach, shape_distance, length_distance))
    (ttft, ttft_weight), (tpot, tpot_weight) = found
    return Correction(ttft, tpot, ttft_weight, tpot_weight, tuple(ladder), shape_distance, length_distance)


def _nearest_ladder(points: Sequence[Point], shape: tuple[float, ...], isl: float, osl: float) -> list[Point]:
    def distance(point: Point) -> tuple[float, float]:
        return float(np.abs(np.subtract(shape, point.shape)).sum()), _length_distance(point, isl, osl)

    best = min(points, key=distance)
    return [p for p in points if (p.shape, p.isl, p.osl) == (best.shape, best.isl, best.osl)]


def _length_distance(point: Point, isl: float, osl: float) -> float:
    return float(abs(np.log2(isl / point.isl)) + abs(np.log2(max(1.0, osl) / max(1.0, point.osl))))


def _faded(
    loads: Sequence[float], logs: Sequence[float], x: Floats, reach: Reach, shape: float, lengths: float
) -> tuple[Floats, Floats]:
    """(factor, weight) at log2 loads `x`; factor 1 and weight 0 where nothing was measured."""
    known = [
        (np.log2(max(1.0, load)), log) for load, log in zip(loads, logs, strict=True) if np.isfinite(log)
    ]
    if not known:
        return np.ones_like(x), np.zeros_like(x)
    at = np.unique([a for a, _ in known])
    mean = np.array([np.mean([log for a, log in known if a == value]) for value in at])
    nearest = np.abs(x[:, None] - at).min(axis=1)
    inside = (x >= at[0]) & (x <= at[-1])
    weight = reach.weight(np.where(inside, BRACKETED, 1.0) * nearest, shape, lengths)
    return np.exp(weight * np.interp(x, at, mean)), weight
