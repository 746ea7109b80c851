"""Axes and grids: what composition hands to the kernel.

A grid is a base record and a list of axes, the last varying fastest. Row `r` decodes in mixed radix to one
choice per axis; each axis writes its fields over the base. No table of rows is ever held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from sweep.fields import encode, record_dtype
from sweep.fields.spec import Field
from sweep.schema import field_by_key

ORDER = ("model", "hardware", "cluster", "price", "precision", "engine", "parallelism")
"""Slowest axes first: what is derived from a deployment is shared by all the loads put on it."""
LAST = ("workload", "slo")
FASTEST = ("workload.request_rate", "workload.concurrency")


@dataclass(frozen=True)
class Label:
    """One column that names an axis's choices in results: a name and one value per choice."""

    name: str
    values: tuple[Any, ...]
    field: Field | None = None


@dataclass(frozen=True)
class Axis:
    """One axis: `table[i]` holds the values that choice `i` gives to the record's columns `columns`."""

    name: str
    columns: tuple[str, ...]
    table: np.ndarray
    labels: tuple[Label, ...]

    @property
    def radix(self) -> int:
        return int(self.table.shape[0])


@dataclass(frozen=True)
class PackedGrid:
    """A grid as flat arrays, in the order of `kernels.grid.evaluate_rows`' arguments."""

    base: np.ndarray
    axis_field_offsets: np.ndarray
    axis_fields: np.ndarray
    axis_value_offsets: np.ndarray
    axis_values: np.ndarray
    radices: np.ndarray

    def arguments(self) -> tuple[np.ndarray, ...]:
        return (
            self.base,
            self.axis_field_offsets,
            self.axis_fields,
            self.axis_value_offsets,
            self.axis_values,
            self.radices,
        )


@dataclass(frozen=True)
class Grid:
    """A composed run: base record, axes (slowest first), hardware names, run settings, resolved values."""

    name: str
    base: np.ndarray
    axes: tuple[Axis, ...]
    hardware: tuple[str, ...]
    settings: dict[str, Any]
    overrides: tuple[str, ...] = ()
    given: tuple[str, ...] = field(default=())
    """Keys that the user set by hand."""

    @property
    def radices(self) -> tuple[int, ...]:
        return tuple(axis.radix for axis in self.axes)

    @property
    def n_rows(self) -> int:
        return prod(self.radices)

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(label for axis in self.axes for label in axis.labels)

    def possible(self) -> dict[str, np.ndarray]:
        """Every value that each input column takes somewhere in the grid."""
        names = record_dtype().names or ()
        values = {name: self.base[i : i + 1] for i, name in enumerate(names)}
        for axis in self.axes:
            values |= {column: np.unique(axis.table[:, i]) for i, column in enumerate(axis.columns)}
        return values

    def strides(self) -> tuple[int, ...]:
        """Rows from one choice of an axis to the next."""
        return tuple(prod(self.radices[i + 1 :]) for i in range(len(self.axes)))

    def codes(self, start: int, stop: int) -> list[np.ndarray]:
        """Choice index of each axis for rows [start, stop)."""
        return self.codes_of(np.arange(start, stop, dtype=np.int64))

    def codes_of(self, rows: np.ndarray) -> list[np.ndarray]:
        """Choice index of each axis for row numbers `rows`."""
        return [self.code_of(rows, axis) for axis in range(len(self.axes))]

    def code_of(self, rows: np.ndarray, axis: int) -> np.ndarray:
        """Choice index of one axis for row numbers `rows`."""
        radix = self.axes[axis].radix
        if radix == 1:
            return np.zeros(rows.shape, dtype=np.int64)
        return rows // prod(self.radices[axis + 1 :]) % radix

    def packed(self) -> PackedGrid:
        """Arrays for the kernel."""
        index = {name: i for i, name in enumerate(record_dtype().names or ())}
        columns = [[index[c] for c in axis.columns] for axis in self.axes]
        tables = [np.ascontiguousarray(axis.table, dtype=np.float64).ravel() for axis in self.axes]
        return PackedGrid(
            base=np.ascontiguousarray(self.base, dtype=np.float64),
            axis_field_offsets=_offsets(len(c) for c in columns),
            axis_fields=np.array([i for c in columns for i in c], dtype=np.int64),
            axis_value_offsets=_offsets(t.size for t in tables),
            axis_values=np.concatenate(tables) if tables else np.empty(0),
            radices=np.array(self.radices, dtype=np.int64),
        )


def _offsets(sizes: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(list(sizes))]).astype(np.int64)


def rank(key: str) -> tuple[int, int, int]:
    """Sort key of an axis (a group or a field's Hydra key), whatever the order on the command line."""
    keys = list(field_by_key())
    position = keys.index(key) if key in keys else -1
    group = key.split(".", 1)[0]
    if key in FASTEST:
        return (3, 0, FASTEST.index(key))
    if group in LAST:
        return (2, -LAST.index(group), position)
    if key in ORDER:
        return (0, ORDER.index(key), -1)
    return (1, ORDER.index(group) if group in ORDER else len(ORDER), position)


def group_axis(
    group: str, names: Sequence[str], choices: Sequence[dict[str, float]], labels: Iterable[Label] = ()
) -> Axis:
    """Axis of a config group: `choices[i]` maps record columns to the values of choice `names[i]`.

    Only the columns on which the choices differ become part of the axis.
    """
    columns = tuple(c for c in choices[0] if _varies([choice[c] for choice in choices]))
    table = np.array([[choice[c] for c in columns] for choice in choices]).reshape(len(choices), len(columns))
    return Axis(group, columns, table, (Label(group, tuple(names)), *labels))


def scalar_axis(field: Field, values: Sequence[Any]) -> Axis:
    """Axis of one field; one that no kernel reads has no columns and shows as a label only."""
    labels = (label(field, values),)
    if not field.column:
        return Axis(field.key, (), np.empty((len(values), 0)), labels)
    table = np.array([[encode(field, v)] for v in values])
    return Axis(field.key, (field.name,), table, labels)


def label(field: Field, values: Iterable[Any]) -> Label:
    """Label of a field's values. An SLO's limit shares its name with the result it bounds, so it says whose it is."""
    name = f"slo_{field.name}" if field.group == "slo" else field.name
    return Label(name, tuple(values), field)


def product_axis(first: Axis, second: Axis, extra: dict[str, np.ndarray]) -> Axis:
    """One axis over all pairs of two, the second varying fastest; `extra[column]` has one value per pair."""
    n, m = first.radix, second.radix
    table = np.column_stack(
        [np.repeat(first.table, m, axis=0), np.tile(second.table, (n, 1)), *extra.values()]
    )
    labels = [Label(x.name, tuple(v for v in x.values for _ in range(m)), x.field) for x in first.labels]
    labels += [Label(x.name, x.values * n, x.field) for x in second.labels]
    return Axis(
        f"{first.name}+{second.name}", (*first.columns, *second.columns, *extra), table, tuple(labels)
    )


def with_column(axis: Axis, column: str, values: Sequence[float] | np.ndarray) -> Axis:
    """`axis` with one more column."""
    table = np.column_stack([axis.table, np.asarray(values, dtype=np.float64)])
    return Axis(axis.name, (*axis.columns, column), table, axis.labels)


def _varies(values: Sequence[float]) -> bool:
    array = np.asarray(values)
    return not bool(np.all((array == array[0]) | (np.isnan(array) & np.isnan(array[0]))))
