"""Measured latency and throughput of served models, as the engine layer's fit reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sweep.catalog.architecture import architecture
from sweep.catalog.engine_layer import level_keys
from sweep.catalog.hardware import hardware, resolve_hardware
from sweep.catalog.models import resolve_model
from sweep.errors import UserError
from sweep.fields.engine import ENGINES
from sweep.point_rows import ALIASES, COLUMNS, MEASURED, build_records
from sweep.table_io import numbers, read_table, tell

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[Any]

DEPLOYMENT = ("tp", "pp", "attention_dp", "moe_ep", "isl", "osl", "concurrency")
"""Fields that, with the combination, tell one measured deployment from another."""


FIGURES = ("ttft_ms", "tpot_ms", "output_tok_s_per_gpu")
"""Result columns that a table may have measured, in columns `measured_*`."""


@dataclass(frozen=True)
class Measured:
    """Measured points: records (n,), figures (n, FIGURES; NaN: not measured), keys of the layer's levels (n, levels), labels."""

    records: Rows
    figures: Floats
    keys: npt.NDArray[np.str_]
    engine: npt.NDArray[np.str_]
    combination: npt.NDArray[np.str_]
    """architecture|accelerator|engine"""
    pooled: npt.NDArray[np.bool_]
    """Whether prefill and decode run in pools of their own."""

    @property
    def with_latency(self) -> npt.NDArray[np.bool_]:
        """Points whose TTFT and TPOT were measured."""
        return np.asarray(np.isfinite(self.figures[:, :2]).all(axis=1))

    def take(self, rows: Rows) -> Measured:
        """The points at `rows`."""
        return Measured(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def deployments(self) -> npt.NDArray[np.str_]:
        """Label of every point's deployment: repeated measurements share one."""
        shapes = [",".join(f"{row[name]:g}" for name in DEPLOYMENT) for row in self.records]
        return np.array([f"{c}|{s}" for c, s in zip(self.combination, shapes, strict=True)])


def read_measured(paths: Sequence[Path]) -> Measured:
    """Points of measured tables: columns of `servesweep points`, with measured_ttft_ms and measured_tpot_ms, or
    measured_output_tok_s_per_gpu.

    Raises UserError where a row cannot be read as a deployment.
    """
    parts = []
    for path in paths:
        frame = read_table(path)
        columns = set(frame.columns)
        if not ({"measured_ttft_ms", "measured_tpot_ms"} <= columns or f"measured_{FIGURES[2]}" in columns):
            raise UserError(
                "has no measured figures",
                file=str(path),
                allowed=f"measured_ttft_ms and measured_tpot_ms, or measured_{FIGURES[2]}",
            )
        records, errors = build_records(frame)
        for line, error in enumerate(errors, start=2):
            if error:
                raise UserError(error, file=str(path), line=line)
        tell("calibrate engine", path, frame, (*COLUMNS, *MEASURED), ALIASES)
        # A measured row ran, whatever the account of its memory says.
        records["enforce_memory"] = 0.0
        parts.append(_labelled(frame, records))
    return Measured(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Measured.__dataclass_fields__)
    )


def _labelled(frame: pl.DataFrame, records: Rows) -> Measured:
    names = [resolve_hardware(str(text)).name for text in frame["hardware"]]
    labels = [architecture(resolve_model(str(text)).fields) for text in frame["model"]]
    engines = [ENGINES[int(code)] for code in records["engine"]]
    families = [str(hardware(name).fields["family"]) for name in names]
    keys = [level_keys(*where) for where in zip(labels, families, engines, strict=True)]
    return Measured(
        records,
        np.column_stack([_figure(frame, f"measured_{name}") for name in FIGURES]),
        np.array(keys),
        np.array(engines),
        np.array(["|".join(parts) for parts in zip(labels, names, engines, strict=True)]),
        records["disaggregate"] > 0.0,
    )


def _figure(frame: pl.DataFrame, column: str) -> Floats:
    if column not in frame.columns:
        return np.full(frame.height, np.nan)
    values: Floats = numbers(frame, column).to_numpy()
    return values
