"""A grid as `config.yaml` in its results directory: readable, and enough to continue the run without Hydra."""

from __future__ import annotations

from typing import Any

import numpy as np
import yaml

from sweep import __version__
from sweep.axes import Axis, Grid, Label
from sweep.bounded_yaml import parse_yaml
from sweep.errors import UserError
from sweep.fields import by_name, encode, record_dtype
from sweep.fields.check import checked
from sweep.fields.spec import Field
from sweep.schema import RUN_GROUPS, field_by_key, fields_of_group

FILE = "config.yaml"


def dumped(grid: Grid, extra: dict[str, Any]) -> bytes:
    """The resolved configuration as YAML; `extra` joins at the top."""
    content = {
        "servesweep": __version__,
        **extra,
        "grid": grid.name,
        "overrides": list(grid.overrides),
        "given": list(grid.given),
        "settings": grid.settings,
        "hardware": list(grid.hardware),
        "base": _base(grid),
        "axes": [_axis(axis) for axis in grid.axes],
    }
    text: str = yaml.safe_dump(content, sort_keys=False, width=120)
    return text.encode()


def loaded(content: bytes, file: str) -> tuple[Grid, dict[str, Any]]:
    """The grid of a `config.yaml`, and the whole document."""
    try:
        document = parse_yaml(content.decode(), file)
        if document["servesweep"] != __version__:
            raise UserError(
                f"was made by servesweep {document['servesweep']}, this is {__version__}", file=file
            )
        grid = Grid(
            name=str(document["grid"]),
            base=_record(document["base"], file),
            axes=tuple(_read_axis(axis) for axis in document["axes"]),
            hardware=tuple(document["hardware"]),
            settings=_settings(document["settings"]),
            overrides=tuple(document["overrides"]),
            given=tuple(document["given"]),
        )
        sizes = {len(label.values) for axis in grid.axes for label in axis.labels} - set(grid.radices)
        if sizes or not grid.axes or int(document["block_rows"]) < 1:
            raise ValueError("axes and labels of different lengths, or no rows")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"is not the configuration of a run: {type(error).__name__} {error}", file=file
        ) from None
    return grid, document


def _settings(content: dict[str, Any]) -> dict[str, Any]:
    """Run settings, each checked; all must be there."""
    fields = field_by_key()
    traffic = {field.key for field in fields_of_group()["workload"] if not field.column}
    wanted = [key for key, field in fields.items() if field.group in RUN_GROUPS or key in traffic]
    return {key: checked(fields[key], content[key]) for key in wanted}


def decoded(field: Field | None, value: float) -> Any:
    """A record's number as a person writes it."""
    if np.isnan(value):
        return None
    if field is None or field.kind == "float":
        return float(value)
    if field.kind == "choice":
        return field.choices[int(value)]
    return bool(value) if field.kind == "bool" else int(value)


def _base(grid: Grid) -> dict[str, dict[str, Any]]:
    fields = by_name()
    groups: dict[str, dict[str, Any]] = {}
    for name, value in zip(record_dtype().names or (), grid.base, strict=True):
        field = fields.get(name)
        groups.setdefault(field.group if field else "lookup", {})[name] = decoded(field, value)
    return groups


def _record(groups: dict[str, dict[str, Any]], file: str) -> np.ndarray:
    values = {name: value for group in groups.values() for name, value in group.items()}
    names = record_dtype().names or ()
    if set(values) != set(names):
        raise UserError(
            f"other inputs than this version has: {sorted(set(values) ^ set(names))[:5]}", file=file
        )
    return np.array([_encoded(name, values[name]) for name in names])


def _encoded(name: str, value: Any) -> float:
    field = by_name().get(name)
    if field is None:
        return float("nan") if value is None else float(value)
    return encode(field, value if value is None else checked(field, value))


def _axis(axis: Axis) -> dict[str, Any]:
    fields = by_name()
    return {
        "name": axis.name,
        "labels": [
            {"name": x.name, "key": x.field.key if x.field else None, "values": list(x.values)}
            for x in axis.labels
        ],
        "sets": {
            column: [decoded(fields.get(column), v) for v in axis.table[:, i]]
            for i, column in enumerate(axis.columns)
        },
    }


def _read_axis(content: dict[str, Any]) -> Axis:
    labels = [
        Label(x["name"], tuple(x["values"]), field_by_key()[x["key"]] if x["key"] else None)
        for x in content["labels"]
    ]
    columns = tuple(content["sets"])
    table = [[_encoded(column, v) for v in content["sets"][column]] for column in columns]
    n = len(labels[0].values)
    return Axis(content["name"], columns, np.array(table).reshape(len(columns), n).T, tuple(labels))
