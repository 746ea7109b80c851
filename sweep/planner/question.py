"""The question of one `plan` run: overrides on top of what a plan searches, composed into candidates, demand and SLO."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweep.axes import Grid
from sweep.catalog.yaml_file import read_yaml
from sweep.paths import conf_dir
from sweep.planner.candidates import Candidates, candidates_of
from sweep.planner.demand import LATENCIES, Demand, Limits, demand_of
from sweep.traces.lengths import mean_lengths
from sweep.traces.requests import Requests

PRESET = "plan"
MOE_SHAPES = ("tp8_ep8", "dp8_ep8", "dp4_ep4", "dp2_ep2")
"""Shapes added where the model has experts."""


@dataclass(frozen=True)
class Question:
    """What is asked: the composed grid, its deployments, the load, the SLO, and the trace that lengths come from."""

    grid: Grid
    candidates: Candidates
    demand: Demand
    limits: Limits
    trace: Requests | None

    def setting(self, name: str) -> Any:
        """A setting of the group `demand`."""
        return self.grid.settings[f"demand.{name}"]


def question(
    overrides: Sequence[str], config_dirs: Sequence[Path] = (), trace: Requests | None = None
) -> Question:
    """Compose the question that Hydra `overrides` ask; `trace` stands for workload.trace. Raises UserError."""
    from sweep.hydra_sweeper import compose_grid

    return of_grid(compose_grid(searched(overrides, config_dirs), config_dirs=config_dirs), trace)


def of_grid(grid: Grid, trace: Requests | None = None) -> Question:
    """The question that a composed grid asks, its trace read unless one is given. Raises UserError."""
    candidates = candidates_of(grid)
    trace = _trace(grid) if trace is None else trace
    rate = math.nan
    if trace is not None:
        candidates.records["isl"], candidates.records["osl"] = mean_lengths(trace)
        candidates.records["length_range"] = 1.0
        rate = busiest_minute_per_s(trace)
    return Question(grid, candidates, demand_of(grid.settings, rate), limits_of(grid, candidates), trace)


def searched(overrides: Sequence[str], config_dirs: Sequence[Path]) -> list[str]:
    """`overrides`, over the axes of the preset that they leave open and the groups that the demand's file names."""
    named = {line.split("=", 1)[0].lstrip("+") for line in overrides}
    groups = {key.split(".", 1)[0] for key in named}
    lines = [] if "grid" in named else _preset(named, groups, overrides)
    file = _demand_file(overrides, config_dirs)
    asked = read_yaml(file) if file is not None else {}
    for group in ("workload", "slo"):
        if asked.get(group) and group not in named:
            lines.append(f"{group}={asked[group]}")
    lines += _one_load(named)
    return [*([] if "grid" in named else ["grid=none"]), *lines, *overrides]


def _one_load(named: set[str]) -> list[str]:
    """A load that the command line gives replaces that of the demand's file, whatever its kind."""
    kinds = {"demand.request_rate", "demand.concurrency"}
    if kinds & named:
        return [f"{key}=null" for key in kinds - named]
    if "workload.trace" in named and "demand" not in named:
        return [
            "demand.request_rate=null",
            *([] if "demand.peak_factor" in named else ["demand.peak_factor=1"]),
        ]
    return []


def _preset(named: set[str], groups: set[str], overrides: Sequence[str]) -> list[str]:
    axes = read_yaml(conf_dir() / "grid" / f"{PRESET}.yaml")["axes"]
    lines = []
    for key, value in axes.items():
        group = key.split(".", 1)[0]
        if key in named or (key == group and group in groups):
            continue
        if key == "parallelism" and _has_experts(overrides):
            value = ",".join([value, *MOE_SHAPES])
        lines.append(f"{key}={value}")
    return lines


def _has_experts(overrides: Sequence[str]) -> bool:
    from sweep.catalog.models import resolve_model
    from sweep.errors import UserError

    model = next((line.split("=", 1)[1] for line in overrides if line.startswith("model=")), None)
    try:
        return model is not None and bool(resolve_model(model.strip("'\"")).fields["n_moe_layers"])
    except UserError:
        return False


def _demand_file(overrides: Sequence[str], config_dirs: Sequence[Path]) -> Path | None:
    name = next((line.split("=", 1)[1] for line in overrides if line.startswith("demand=")), "chat")
    files = (folder / "demand" / f"{Path(name).name}.yaml" for folder in (*config_dirs, conf_dir()))
    return next((file for file in files if file.is_file()), None)


def limits_of(grid: Grid, candidates: Candidates) -> Limits:
    """The SLO at the demand's percentile."""
    first = candidates.records[0]
    values = {name: math.inf if math.isnan(first[name]) else float(first[name]) for name in LATENCIES}
    share = 100.0 * float(grid.settings["demand.goodput_share"])
    return Limits(**values, percentile=max(float(grid.settings["demand.percentile"]), share))


def _trace(grid: Grid) -> Requests | None:
    path = grid.settings["workload.trace"]
    if path is None:
        return None
    from sweep.traces import read

    return read(
        path,
        columns=grid.settings["workload.columns"] or "",
        on_bad_line=grid.settings["workload.on_bad_line"],
    ).requests


def busiest_minute_per_s(trace: Requests) -> float:
    """Requests per second in the busiest minute; over the whole trace where it is shorter than that."""
    seconds = (trace.arrival_ns[: trace.n_open] - trace.arrival_ns[0]) / 1e9
    span = float(seconds[-1])
    if span < 60.0:
        return len(trace) / max(span, 1.0)
    counts = np.bincount((seconds // 60.0).astype(np.int64))
    return float(counts.max()) / 60.0 * len(trace) / trace.n_open
