"""The typed Hydra schema, generated from the field registry: a misspelt key cannot compose."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from sweep.fields import FIELDS, run
from sweep.fields.spec import Field

ALL_FIELDS: tuple[Field, ...] = (*FIELDS, *(f for f in run.FIELDS if f not in FIELDS))
RUN_GROUPS = (*dict.fromkeys(f.group for f in ALL_FIELDS if f.scope == "run"), "grid")
"""Groups that say how a run is done; they cannot be swept."""
EXTRA: dict[str, tuple[tuple[str, Any], ...]] = {
    "grid": (("name", str), ("axes", dict[str, Any])),
    "price": (("book", dict[str, Any]),),
    "job": (("plan", dict[str, Any]), ("models", dict[str, Any])),
}
"""Keys of the tree that are no inputs of the model: a preset's axes, a price book's table, what a nightly job plans."""

_TYPES: dict[str, Any] = {
    "int": int | None,
    "float": float | None,
    "bool": bool | None,
    "choice": str | None,
    "text": str | None,
    "path": str | None,
    "list": Any,
}


@cache
def fields_of_group() -> dict[str, tuple[Field, ...]]:
    """Fields by group, groups in registry order."""
    groups: dict[str, list[Field]] = {}
    for field in ALL_FIELDS:
        groups.setdefault(field.group, []).append(field)
    return {group: tuple(fields) for group, fields in groups.items()}


@cache
def field_by_key() -> dict[str, Field]:
    """Every field, run settings included, by Hydra key."""
    return {f.key: f for f in ALL_FIELDS}


@cache
def group_schema(group: str) -> type:
    """Dataclass of one group: one typed, defaulted attribute per field."""
    members: list[tuple[str, Any, Any]] = [
        (f.name, _TYPES[f.kind], dataclasses.field(default=f.default))
        for f in fields_of_group().get(group, ())
    ]
    members += [
        (name, kind, dataclasses.field(default_factory=str if kind is str else dict))
        for name, kind in EXTRA.get(group, ())
    ]
    return dataclasses.make_dataclass(group.title(), members)


@cache
def root_schema() -> type:
    """Dataclass of the whole tree."""
    groups = dict.fromkeys([*fields_of_group(), *EXTRA])
    members = [(g, group_schema(g), dataclasses.field(default_factory=group_schema(g))) for g in groups]
    return dataclasses.make_dataclass("Config", members)
