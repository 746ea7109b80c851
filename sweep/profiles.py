"""Profile bundles: `<root>/<hardware>/<model>/<variant>/{meta.yaml, tp<N>/*.csv}` read into dense arrays.

A bundle holds measured operator times of one accelerator, model and number format. The reader checks what it
finds and answers in one line when something is missing; the lookups are in `kernels.tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kernels.tables import LINEAR_NAMES, SEQUENCE_NAMES
from sweep.bounded import read_text
from sweep.bounded_yaml import parse_yaml
from sweep.errors import UserError, nearest
from sweep.table_io import read_table

Floats = NDArray[np.float64]
NS_PER_US = 1000.0
TP_STABLE = ("layernorm", "qk_norm", "final_layernorm", "sampler")
"""Layers that do not shrink with tensor parallelism: always read from tp1."""
LABELS = ("layer", "n_label", "skew_rate_label", "kv_big_label", "kp_label")
"""Columns of a bundle's tables that are names; all others are numbers."""
MOST = 1e12
"""Largest count or time of a table: eleven days in us, and sums of nanoseconds still fit 64 bits."""
MAX_BINS = 64
"""Edges per axis of the skew table, which has their fourth power as entries."""
MAX_META_BYTES = 16 * 1024**2
FALLBACK_BINS: dict[str, list[float]] = {
    "n": [2, 4, 8, 16, 32, 64, 128, 256, np.inf],
    "skew_rate": [0.05, 0.15, 0.4, 0.7, np.inf],
    "kv_big": [1024, 4096, 16384, np.inf],
    "kp": [0, 512, 1024, 2048, 4096, 8192, np.inf],
}


@dataclass(frozen=True)
class Curve:
    """A one-dimensional table: ascending axis, whole nanoseconds."""

    axis: Floats
    time_ns: Floats

    def at(self, x: Floats) -> Floats:
        """Linear, clamped below, extrapolated above, truncated to whole nanoseconds (at least 1)."""
        inside = np.interp(x, self.axis, self.time_ns)
        if len(self.axis) > 1:
            slope = (self.time_ns[-1] - self.time_ns[-2]) / (self.axis[-1] - self.axis[-2])
            above = self.time_ns[-2] + (x - self.axis[-2]) * slope
            inside = np.where(x > self.axis[-1], above, inside)
        return np.maximum(1.0, np.trunc(inside))


@dataclass
class Profile:
    """One bundle at one tensor-parallel width."""

    where: Path
    linear: dict[str, Curve]
    sequence: dict[str, Curve]
    attention: dict[tuple[int, int], dict[int, tuple[Floats, Floats]]]
    moe: dict[int, Curve] = field(default_factory=dict)
    alpha: dict[tuple[int, int, int, int, int], float] = field(default_factory=dict)
    alpha_default: float = float("nan")
    bins: list[list[float]] = field(default_factory=lambda: list(FALLBACK_BINS.values()))
    max_tokens: int = 0
    max_seqs: int = 0


def _read_csv(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    frame = read_table(path)
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise UserError(f"{path.name} lacks the column {missing[0]}", file=str(path), field=missing[0])
    for column in set(columns) - set(LABELS):
        frame = frame.with_columns(_number(frame[column], path))
    if not frame.height:
        raise UserError(f"{path.name} has no rows", file=str(path))
    return frame


def _number(values: pl.Series, path: Path) -> pl.Series:
    """The column, checked: a number from 0 (a skew weight: any) to `MOST` in every row."""
    low = -MOST if values.name == "alpha" else 0
    numbers = values.cast(pl.Float64, strict=False)
    good = numbers.is_between(low, MOST).fill_null(False)
    if not good.all():
        at = int((~good).arg_true()[0])
        raise UserError(
            "is not a number",
            file=str(path),
            line=at + 2,
            field=values.name,
            value=values[at],
            allowed=f"{low:g} to {MOST:g}",
        )
    return values if values.dtype.is_numeric() else numbers


def _whole_ns(time_us: pl.Series) -> Floats:
    return np.maximum(1.0, np.rint(time_us.to_numpy() * NS_PER_US))


def _curves(path: Path, axis: str) -> dict[str, Curve]:
    frame = _read_csv(path, ("layer", axis, "time_us")).sort(axis)
    return {
        str(layer): Curve(rows[axis].to_numpy().astype(float), _whole_ns(rows["time_us"]))
        for (layer,), rows in frame.group_by("layer")
    }


def _attention(path: Path) -> dict[tuple[int, int], dict[int, tuple[Floats, Floats]]]:
    keys = ("prefill_chunk", "n_decode", "kv_prefill", "kv_decode")
    frame = _read_csv(path, (*keys, "time_us")).sort(keys)
    slices: dict[tuple[int, int], dict[int, tuple[Floats, Floats]]] = {}
    for (chunk, n_decode, kv_prefill), rows in frame.group_by(keys[:3], maintain_order=True):
        axis, time_ns = rows["kv_decode"].to_numpy().astype(float), _whole_ns(rows["time_us"])
        slices.setdefault((int(chunk), int(n_decode)), {})[int(kv_prefill)] = (axis, time_ns)
    return slices


def _moe(path: Path) -> dict[int, Curve]:
    frame = _read_csv(path, ("tokens", "activated_experts", "time_us")).sort("tokens")
    return {
        int(activated): Curve(rows["tokens"].to_numpy().astype(float), _whole_ns(rows["time_us"]))
        for (activated,), rows in frame.group_by("activated_experts")
    }


def _meta(path: Path) -> dict[str, Any]:
    meta = parse_yaml(read_text(path, MAX_META_BYTES), str(path))
    if not isinstance(meta, dict):
        raise UserError("meta.yaml is not a mapping", file=str(path))
    return meta


def _read_skew(profile: Profile, fit: dict[str, Any], tp: int, folder: Path) -> None:
    """Fill the skew weights of `profile` from meta.yaml's `skew_fit` and its bucket table."""
    per_tp = fit.get("per_tp") or {}
    entry = per_tp.get(tp, per_tp.get(str(tp))) or {}
    axes = entry.get("bucket_axes") or fit.get("bucket_axes") or {}
    labels: list[list[str]] = []
    for i, name in enumerate(FALLBACK_BINS):
        edges = axes.get(f"{name}_bins")
        if edges and len(edges) > MAX_BINS:
            raise ValueError(f"{name}_bins has more than {MAX_BINS} edges")
        profile.bins[i] = [float(e) for e in edges[1:]] if edges else FALLBACK_BINS[name]
        labels.append([str(label) for label in axes.get(f"{name}_labels") or ()])
    profile.alpha_default = float(entry.get("alpha_default", 0.0))
    table = entry.get("bucket_table")
    rows: list[tuple[int, list[str], float]] = []
    if table:
        path = folder.parent / str(table)
        if path.parent != folder or not path.is_file():
            raise UserError(f"skew_fit names {table}, which is not in the bundle", file=str(folder.parent))
        names = ("n_label", "skew_rate_label", "kv_big_label", "kp_label")
        rows += [
            (int(row["pc"]), [str(row[n]) for n in names], float(row["alpha"]))
            for row in _read_csv(path, ("pc", *names, "alpha")).iter_rows(named=True)
        ]
    for key, alpha in (entry.get("alpha_by_bucket") or {}).items():
        first, *parts = str(key).split("|")
        rows.append((int(first.removeprefix("pc=")), parts, float(alpha)))
    for pc, parts, alpha in rows:
        known = [part in of for part, of in zip(parts, labels, strict=True)]
        if all(known):
            index = [of.index(part) for part, of in zip(parts, labels, strict=True)]
            profile.alpha[(pc, index[0], index[1], index[2], index[3])] = alpha


def read_profile(root: Path, hardware: str, model: str, variant: str, tp: int) -> Profile:
    """Read the bundle of one accelerator, model, number format and tensor-parallel width.

    Raises UserError with the file where a folder or column is missing.
    """
    base = root / hardware / model / variant
    for part, parent in ((hardware, root), (model, root / hardware), (variant, root / hardware / model)):
        if not (parent / part).is_dir():
            found = (
                sorted(str(p.relative_to(parent)) for p in parent.glob("*/*" if "/" in part else "*"))
                if parent.is_dir()
                else []
            )
            raise UserError(
                f"no operator profile {part}", file=str(parent), value=part, near=nearest(part, found)
            )
    folder, tp1 = base / f"tp{tp}", base / "tp1"
    if not folder.is_dir():
        widths = sorted(p.name for p in base.glob("tp*"))
        raise UserError(
            f"no operator profile for tp{tp}",
            file=str(base),
            field="tp_size",
            value=tp,
            allowed=", ".join(widths),
        )
    meta = _meta(base / "meta.yaml")
    linear, sequence = (
        _curves(folder / "dense.csv", "tokens"),
        _curves(folder / "per_sequence.csv", "sequences"),
    )
    if tp1.is_dir() and tp != 1:
        stable_linear, stable_sequence = (
            _curves(tp1 / "dense.csv", "tokens"),
            _curves(tp1 / "per_sequence.csv", "sequences"),
        )
        for name in TP_STABLE:
            if name in stable_linear:
                linear[name] = stable_linear[name]
            if name in stable_sequence:
                sequence[name] = stable_sequence[name]
    engine = _mapping(meta, "engine_effective", base)
    profile = Profile(
        where=folder,
        linear=linear,
        sequence=sequence,
        attention=_attention(folder / "attention.csv"),
        moe=_moe(tp1 / "moe.csv") if (tp1 / "moe.csv").is_file() else {},
        max_tokens=_limit(engine, "max_num_batched_tokens", base),
        max_seqs=_limit(engine, "max_num_seqs", base),
    )
    fit = _mapping(meta, "skew_fit", base)
    if fit.get("enabled"):
        try:
            _read_skew(profile, fit, tp, folder)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            raise UserError(
                f"skew_fit cannot be read: {type(error).__name__} {error}", file=str(base / "meta.yaml")
            ) from None
    return profile


def _mapping(meta: dict[str, Any], name: str, base: Path) -> dict[str, Any]:
    value = meta.get(name) or {}
    if not isinstance(value, dict):
        raise UserError("is not a mapping", file=str(base / "meta.yaml"), field=name)
    return value


def _limit(engine: dict[str, Any], name: str, base: Path) -> int:
    """A limit of the profiled engine; 0 where it is not told."""
    value = engine.get(name) or 0
    if not isinstance(value, int) or not 0 <= value <= 2**31:
        raise UserError("is not a whole number", file=str(base / "meta.yaml"), field=name, value=value)
    return int(value)


def _nearest_pair(pairs: list[tuple[int, int]], chunk: int, n_decode: int) -> tuple[int, int]:
    return min(pairs, key=lambda pair: (pair[0] - chunk) ** 2 + (pair[1] - n_decode) ** 2)


def _stack_attention(profiles: list[Profile]) -> dict[str, NDArray[Any]]:
    chunks = [sorted({c for c, _ in p.attention}) for p in profiles]
    decodes = [sorted({d for _, d in p.attention}) for p in profiles]
    rows = max(len(s) for p in profiles for s in p.attention.values())
    cells = max(len(axis) for p in profiles for s in p.attention.values() for axis, _ in s.values())
    t, n_slices = len(profiles), max(len(p.attention) for p in profiles)
    width_c, width_d = max(map(len, chunks)), max(map(len, decodes))
    out: dict[str, NDArray[Any]] = {
        "chunk_axis": np.zeros((t, width_c)),
        "n_chunks": np.array([len(c) for c in chunks]),
        "decode_axis": np.zeros((t, width_d)),
        "n_decodes": np.array([len(d) for d in decodes]),
        "slices": np.zeros((t, width_c, width_d), np.int64),
        "n_rows": np.zeros((t, n_slices), np.int64),
        "row_axis": np.zeros((t, n_slices, rows)),
        "n_cells": np.zeros((t, n_slices, rows), np.int64),
        "cell_axis": np.zeros((t, n_slices, rows, cells)),
        "cells": np.zeros((t, n_slices, rows, cells)),
    }
    for i, profile in enumerate(profiles):
        out["chunk_axis"][i, : len(chunks[i])] = chunks[i]
        out["decode_axis"][i, : len(decodes[i])] = decodes[i]
        pairs = sorted(profile.attention)
        for c, chunk in enumerate(chunks[i]):
            for d, n_decode in enumerate(decodes[i]):
                out["slices"][i, c, d] = pairs.index(_nearest_pair(pairs, chunk, n_decode))
        for s, pair in enumerate(pairs):
            ordered = sorted(profile.attention[pair].items())
            out["n_rows"][i, s] = len(ordered)
            for r, (kv_prefill, (axis, time_ns)) in enumerate(ordered):
                out["row_axis"][i, s, r] = kv_prefill
                out["n_cells"][i, s, r] = len(axis)
                out["cell_axis"][i, s, r, : len(axis)] = axis
                out["cells"][i, s, r, : len(axis)] = time_ns
    return out


def _stack_alpha(profiles: list[Profile]) -> dict[str, NDArray[Any]]:
    chunks = [sorted({key[0] for key in p.alpha}) for p in profiles]
    n_bins = max(len(axis) for p in profiles for axis in p.bins)
    width = max([1, *map(len, chunks)])
    alpha = np.full((len(profiles), width, n_bins, n_bins, n_bins, n_bins), np.nan)
    values = np.full((len(profiles), width), np.inf)
    bins = np.full((len(profiles), 4, n_bins), np.inf)
    for i, profile in enumerate(profiles):
        values[i, : len(chunks[i])] = chunks[i]
        for axis in range(4):
            bins[i, axis, : len(profile.bins[axis])] = profile.bins[axis]
        for key, value in profile.alpha.items():
            alpha[(i, chunks[i].index(key[0]), *key[1:])] = value
    default = np.array([p.alpha_default for p in profiles])
    alpha = alpha.reshape(len(profiles), width, n_bins**4)
    return {"alpha": alpha, "alpha_chunks": values, "alpha_bins": bins, "alpha_default": default}


def _stack_moe(profiles: list[Profile]) -> dict[str, NDArray[Any]]:
    width = max([1, *(len(p.moe) for p in profiles)])
    depth = max([1, *(len(curve.axis) for p in profiles for curve in p.moe.values())])
    out: dict[str, NDArray[Any]] = {
        "expert_axis": np.zeros((len(profiles), width)),
        "n_experts": np.array([len(p.moe) for p in profiles]),
        "n_tokens": np.zeros((len(profiles), width), np.int64),
        "token_axis": np.zeros((len(profiles), width, depth)),
        "moe": np.zeros((len(profiles), width, depth)),
    }
    for i, profile in enumerate(profiles):
        for a, (activated, curve) in enumerate(sorted(profile.moe.items())):
            out["expert_axis"][i, a] = activated
            out["n_tokens"][i, a] = len(curve.axis)
            out["token_axis"][i, a, : len(curve.axis)] = curve.axis
            out["moe"][i, a, : len(curve.axis)] = curve.time_ns
    return out


def stack(profiles: list[Profile], max_tokens: int, max_seqs: int) -> dict[str, NDArray[Any]]:
    """Dense arrays of several bundles, with the one-dimensional curves evaluated at every count.

    The arrays of `kernels.tables.TABLES` by name. `max_tokens` and `max_seqs` are the largest step the simulation can form. A layer that a bundle lacks
    costs 0.
    """
    tokens = np.maximum(1.0, np.arange(max_tokens + 1.0))
    seqs = np.maximum(1.0, np.arange(max_seqs + 1.0))
    linear = np.zeros((len(profiles), len(LINEAR_NAMES), max_tokens + 1), np.int64)
    sequence = np.zeros((len(profiles), len(SEQUENCE_NAMES), max_seqs + 1), np.int64)
    for i, profile in enumerate(profiles):
        for layer, name in enumerate(LINEAR_NAMES):
            if name in profile.linear:
                linear[i, layer] = profile.linear[name].at(tokens)
        for layer, name in enumerate(SEQUENCE_NAMES):
            if name in profile.sequence:
                sequence[i, layer] = profile.sequence[name].at(seqs)
    return {
        "linear": linear,
        "sequence": sequence,
        **_stack_attention(profiles),
        **_stack_alpha(profiles),
        **_stack_moe(profiles),
    }
