"""Command-line overrides, parsed by Hydra's own grammar and checked against the registry and the tree.

Every mistake is told here, before anything is composed: key, group or value, what is allowed, nearest names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.errors import HydraException

from sweep.catalog.hardware import known_spelling
from sweep.catalog.models import resolve_model
from sweep.errors import UserError, nearest
from sweep.fields.check import checked
from sweep.schema import RUN_GROUPS, field_by_key, fields_of_group
from sweep.spelling import same_spelling

MAX_CHOICES = 1_000_000
"""Longest axis: a longer range() is a slip of the keyboard."""


@dataclass(frozen=True)
class Setting:
    """One override: a group choice or a field's value, or a sweep over several of them."""

    key: str
    values: tuple[Any, ...]
    is_group: bool
    swept: bool

    def line(self) -> str:
        """The override as Hydra reads it; a sweep over one value stays a sweep."""
        values = ",".join(_quoted(v) for v in self.values)
        return (
            f"{self.key}=choice({values})" if self.swept and len(self.values) == 1 else f"{self.key}={values}"
        )


def config_groups(loader: ConfigLoader) -> dict[str, list[str]]:
    """Choices of each config group of the tree."""
    # The repository itself: the loader's methods copy every source on each call.
    tree = loader.repository  # type: ignore[attr-defined]
    groups = [g for g in tree.get_group_options("", ObjectType.GROUP) if g != "hydra"]
    return {g: tree.get_group_options(g, ObjectType.CONFIG) for g in groups}


def parse(lines: Sequence[str], loader: ConfigLoader, *, file: str | None = None) -> list[Setting]:
    """Settings of the override `lines` (Hydra's own `hydra.*` lines are not among them)."""
    groups = config_groups(loader)
    parser = OverridesParser.create(config_loader=loader)
    settings: dict[str, Setting] = {}
    for line in lines:
        setting = _setting(_override(parser, line, file), groups, file)
        settings[setting.key] = setting
    return list(settings.values())


def _override(parser: OverridesParser, line: str, file: str | None) -> Override:
    if "=" not in line:
        raise UserError(f"'{line}' is not key=value", file=file, allowed="group=choice or group.field=value")
    try:
        override = parser.parse_overrides([line])[0]
    except (HydraException, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        key, _, value = line.partition("=")
        raise UserError(f"cannot be read: {reason}", file=file, field=key, value=value) from None
    if override.is_delete() or override.package is not None:
        raise UserError(f"'{line}': deleting and re-packaging (~, @) mean nothing here", file=file)
    return override


def _setting(override: Override, groups: dict[str, list[str]], file: str | None) -> Setting:
    key = override.key_or_group
    field = field_by_key().get(key)
    if key not in groups and field is None:
        raise _unknown_key(key, groups, file)
    values = _values(override, file)
    swept = override.is_sweep_override()
    if swept and (key in RUN_GROUPS or (field is not None and field.scope == "run")):
        raise UserError("says how a run is done and cannot be swept", file=file, field=key)
    if key in groups:
        values = tuple(_known_choice(key, str(v), groups[key], file) for v in values)
        # A model that no file of the tree describes is resolved by the catalogue, so Hydra must not look for it.
        swept = swept or not set(values) <= set(groups[key])
    elif field is not None:
        values = tuple(checked(field, v, file=file) for v in values)
    return Setting(key, tuple(dict.fromkeys(values)), key in groups, swept)


def _values(override: Override, file: str | None) -> tuple[Any, ...]:
    key, written = override.key_or_group, override.get_value_string()
    if not override.is_sweep_override():
        return (override.value(),)
    if not override.is_discrete_sweep():
        raise UserError(
            "an interval has no steps to sweep",
            file=file,
            field=key,
            value=written,
            allowed="a,b,c, range(start,stop,step), glob(pattern)",
        )
    try:
        return _enumerated(override)
    except UserError as error:
        raise UserError(**{**error.details, "field": key, "value": written}, file=file) from None
    except (HydraException, ValueError, ArithmeticError) as error:
        raise UserError(f"cannot be enumerated: {error}", file=file, field=key, value=written) from None


def _enumerated(override: Override) -> tuple[Any, ...]:
    given = override.value()
    if isinstance(given, RangeSweep):
        _check_range(given)
    if isinstance(given, (RangeSweep, ChoiceSweep)):
        given.shuffle = False  # an axis has no order of its own, and a shuffled range would be listed whole
    values = tuple(islice(override.sweep_iterator(), MAX_CHOICES + 1))
    if len(values) > MAX_CHOICES:
        raise UserError(f"sweeps more than {MAX_CHOICES} values")
    if not values:
        raise UserError("sweeps no value at all")
    return tuple(Override._convert_value(value) for value in values)


def _check_range(given: RangeSweep) -> None:
    """Raises UserError for a range that has no end or stands still."""
    numbers = (given.start, given.stop, given.step)
    finite = all(number is not None and math.isfinite(number) for number in numbers)
    if not finite or given.step == 0:
        raise UserError(
            "stands still" if finite else "has no end",
            allowed="range(start,stop,step) of finite numbers, with a step that is not 0",
        )


def _known_choice(group: str, choice: str, options: Iterable[str], file: str | None) -> str:
    options = list(options)
    if choice in options:
        return choice
    found = _catalogued(group, choice) if _is_path(choice) else same_spelling(choice, options)
    found = found or _catalogued(group, choice)
    if found is None:
        few = (
            ", ".join(options)
            if len(options) <= 12
            else f"{len(options)} choices (servesweep flags lists them)"
        )
        raise UserError(
            "is not a choice of this group",
            file=file,
            field=group,
            value=choice,
            allowed=few,
            near=nearest(choice, options),
        )
    return found


def _catalogued(group: str, text: str) -> str | None:
    """What the catalogue makes of another spelling: an accelerator's file; a Hugging Face id or path as it is."""
    if group == "hardware":
        return known_spelling(text)
    if group != "model":
        return None
    try:
        resolve_model(text)
    except UserError:
        if _is_path(text):
            raise
        return None
    return text


def _is_path(text: str) -> bool:
    return "/" in text or text.endswith(".json")


def _unknown_key(key: str, groups: dict[str, list[str]], file: str | None) -> UserError:
    group, dot, name = key.partition(".")
    by_name = {k.rsplit(".", 1)[-1]: k for k in field_by_key()}
    if dot and group in fields_of_group():
        within = [f.key for f in fields_of_group()[group]]
        near = nearest(key, within) or [by_name[n] for n in nearest(name, by_name)]
        return UserError(f"'{key}' is not a field", file=file, near=near)
    near = nearest(key, [*field_by_key(), *groups]) or [by_name[n] for n in nearest(name or key, by_name)]
    return UserError(f"'{key}' is neither a field nor a config group", file=file, near=near)


def _quoted(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "\\'") + "'"
