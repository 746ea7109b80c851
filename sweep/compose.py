"""From a composed Hydra configuration and its sweeps to a grid.

Each choice of each config group is read once; a scalar sweep needs no composition at all. Groups own disjoint
keys, so their axes are orthogonal. One value crosses groups: a price book prices an accelerator, so
`usd_per_gpu_hour` joins the hardware axis (or an axis of pairs where both are swept).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweep import coverage
from sweep.axes import (
    Axis,
    Grid,
    Label,
    group_axis,
    label,
    product_axis,
    rank,
    scalar_axis,
    with_column,
)
from sweep.catalog.architecture import PARTS, architecture
from sweep.catalog.engine_layer import known_architectures
from sweep.catalog.hardware import hardware_names
from sweep.catalog.models import resolve_model
from sweep.catalog.prices import usd_in_table
from sweep.errors import UserError, nearest
from sweep.fields import by_name, encode, record_dtype
from sweep.fields.check import checked
from sweep.overrides import Setting, config_groups
from sweep.schema import EXTRA, RUN_GROUPS, field_by_key, fields_of_group, group_schema

Values = dict[str, Any]
"""Checked values of one group by short name; extra keys (a price book's table) included."""

SHOWN = (
    "isl",
    "osl",
    "concurrency",
    "tp",
    "attention_dp",
    "pp",
    "moe_tp",
    "moe_ep",
    "max_num_batched_tokens",
)
"""Inputs that results always show, swept or not."""
SPREAD = ("precision", "engine", "parallelism", "workload", "slo")
"""Config groups whose choices are also shown field by field."""
NO_COVERAGE = {f"coverage_{n}": 1.0 for n in coverage.POINTS}
"""Router coverage where no measured curve is given: independent routing."""


class Composition:
    """One composed configuration: base values by group, the group choices, and what was swept."""

    def __init__(self, config: DictConfig, settings: Sequence[Setting], loader: ConfigLoader) -> None:
        self.loader = loader
        self._loaded: dict[tuple[str, str], Values] = {}
        self.files = config_groups(loader)
        self.settings = {s.key: s for s in settings}
        chosen = OmegaConf.to_container(config.hydra.runtime.choices)
        assert isinstance(chosen, dict)
        self.choices = {str(g): str(c) for g, c in chosen.items() if not str(g).startswith("hydra")}
        self.base = {g: checked_group(g, config[g]) for g in dict.fromkeys([*fields_of_group(), *EXTRA])}

    def names(self, group: str) -> tuple[str, ...]:
        """Choices of `group` in this run."""
        setting = self.settings.get(group)
        return setting.values if setting else (self.choices[group],)

    def group_values(self, group: str, name: str) -> Values:
        """Values of choice `name` of `group`, under the values that the command line sets one by one."""
        if not self._swept(group):
            return self.base[group]
        if (group, name) not in self._loaded:
            pinned = {s.key.split(".", 1)[1]: s.values[0] for s in self._scalars(group) if not s.swept}
            self._loaded[group, name] = {**self._choice(group, name), **pinned}
        return self._loaded[group, name]

    def _choice(self, group: str, name: str) -> Values:
        if group == "model" and name not in self.files["model"]:
            return dict(resolve_model(name).fields)
        return load_choice(self.loader, group, name)

    def scalar_sweeps(self) -> list[Setting]:
        return [s for s in self.settings.values() if s.swept and not s.is_group]

    def _swept(self, group: str) -> bool:
        return group in self.settings and self.settings[group].swept

    def _scalars(self, group: str) -> list[Setting]:
        return [s for s in self.settings.values() if s.key.startswith(f"{group}.")]


def checked_group(group: str, node: Any, *, file: str | None = None) -> Values:
    """Values of a group's node, each checked against its field."""
    raw = OmegaConf.to_container(node, resolve=True)
    assert isinstance(raw, dict)
    fields = {f.name: f for f in fields_of_group().get(group, ())}
    values = {
        str(name): checked(fields[str(name)], value, file=file) if name in fields else value
        for name, value in raw.items()
    }
    if values.get("router_coverage"):
        values.update(coverage.coverage_values(values["router_coverage"]))
    return values


def load_choice(loader: ConfigLoader, group: str, name: str) -> Values:
    """Values of `conf/<group>/<name>.yaml` over the group's defaults."""
    file = f"conf/{group}/{name}.yaml"
    try:
        result = loader.repository.load_config(f"{group}/{name}")  # type: ignore[attr-defined]
        if result is None:
            raise UserError("file is missing or empty", file=file)
        if result.defaults_list or result.header.get("package"):
            raise UserError("a group file has no defaults list and no package of its own", file=file)
        merged = OmegaConf.merge(OmegaConf.structured(group_schema(group)), result.config)
    except (OmegaConfBaseException, HydraException) as error:
        raise UserError(first_line(error), file=file) from None
    return checked_group(group, merged, file=file)


def first_line(error: BaseException) -> str:
    """The part of a library's message that a person needs: its first line, with the one it introduces."""
    lines = [line.strip() for line in str(error.__cause__ or error).splitlines() if line.strip()]
    head = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    return head or type(error).__name__


def grid_of(composition: Composition, name: str, overrides: Sequence[str]) -> Grid:
    """The grid of a composed run: axes slowest first, constants in the base record."""
    swept = {s.key.split(".", 1)[1] for s in composition.scalar_sweeps()}
    axes = {g: _group_axis(composition, g, swept) for g in composition.choices if g not in RUN_GROUPS}
    for setting in composition.scalar_sweeps():
        axes[setting.key] = _setting_axis(setting)
    if "usd_per_gpu_hour" not in swept:
        _join_prices(composition, axes)
    ordered = [axes[key] for key in sorted(axes, key=lambda k: rank(k.split("+")[0]))]
    return Grid(
        name=name,
        base=_base_record(composition, axes),
        axes=tuple(_with_shown(ordered, composition)),
        hardware=_hardware_names(composition),
        settings=_settings(composition),
        overrides=tuple(overrides),
        given=tuple(composition.settings),
    )


def _settings(composition: Composition) -> Values:
    """What no kernel reads: how the run is done, and the traffic that simulations replay."""
    run = {f"{g}.{k}": v for g in RUN_GROUPS for k, v in composition.base[g].items()}
    traffic = (f for f in fields_of_group()["workload"] if not f.column)
    return run | {f.key: composition.base["workload"][f.name] for f in traffic}


def _setting_axis(setting: Setting) -> Axis:
    """Axis of one swept field; a swept file sets the columns that it holds."""
    axis = scalar_axis(field_by_key()[setting.key], setting.values)
    if setting.key != coverage.FIELD:
        return axis
    curves = [coverage.coverage_values(file) if file else NO_COVERAGE for file in setting.values]
    for column in NO_COVERAGE:
        axis = with_column(axis, column, [curve[column] for curve in curves])
    return axis


def _group_axis(composition: Composition, group: str, swept: set[str]) -> Axis:
    names = composition.names(group)
    choices = [composition.group_values(group, name) for name in names]
    columns = [f for f in fields_of_group()[group] if f.column and f.name not in swept]
    encoded = [{f.name: encode(f, values[f.name]) for f in columns} for values in choices]
    labels: list[Label] = []
    if group in SPREAD:
        shown = [f for f in columns if len({values[f.name] for values in choices}) > 1]
        labels = [label(f, (values[f.name] for values in choices)) for f in shown]
    axis = group_axis(group, names, encoded, (x for x in labels if x.name != group))
    if group == "hardware":
        return with_column(axis, "hardware_index", range(axis.radix))
    if group == "model" and not any(name in swept for _, name in PARTS):
        known = {label: i for i, label in enumerate(known_architectures())}
        return with_column(axis, "architecture_index", [known.get(architecture(v), 0) for v in choices])
    return axis


def _join_prices(composition: Composition, axes: dict[str, Axis]) -> None:
    """Price of each accelerator in each book, on the hardware axis or on an axis of pairs."""
    hardware = [composition.group_values("hardware", n) for n in composition.names("hardware")]
    books = [composition.group_values("price", n) for n in composition.names("price")]
    usd = np.array([[_usd(book, h) for book in books] for h in hardware])
    price = axes["price"]
    keep = [i for i, c in enumerate(price.columns) if c != "usd_per_gpu_hour"]
    price = Axis(price.name, tuple(price.columns[i] for i in keep), price.table[:, keep], price.labels)
    if len(books) == 1:
        axes["hardware"] = with_column(axes["hardware"], "usd_per_gpu_hour", usd[:, 0])
        axes["price"] = price
    elif len(hardware) == 1:
        axes["price"] = with_column(price, "usd_per_gpu_hour", usd[0])
    else:
        axes["hardware+price"] = product_axis(axes.pop("hardware"), price, {"usd_per_gpu_hour": usd.ravel()})
        del axes["price"]


def _usd(book: Values, hardware: Values) -> float:
    """$/GPU-h of an accelerator: the explicit figure, else the book's; NaN where the book has none."""
    explicit = book.get("usd_per_gpu_hour")
    price = explicit if explicit is not None else usd_in_table(book.get("book"), hardware["name"])
    return float("nan") if price is None else float(price)


def _with_shown(axes: list[Axis], composition: Composition) -> list[Axis]:
    """The inputs that results always show join as constant labels of the first axis."""
    present = {shown.name for axis in axes for shown in axis.labels}
    constant = [by_name()[n] for n in SHOWN if n not in present]
    first = axes[0]
    labels = [label(f, (composition.base[f.group][f.name],) * first.radix) for f in constant]
    return [Axis(first.name, first.columns, first.table, (*first.labels, *labels)), *axes[1:]]


def _base_record(composition: Composition, axes: Mapping[str, Axis]) -> np.ndarray:
    base = np.full(len(record_dtype().names or ()), np.nan)
    index = {name: i for i, name in enumerate(record_dtype().names or ())}
    for group, fields in fields_of_group().items():
        names = composition.names(group) if group in composition.choices else ("",)
        values = composition.group_values(group, names[0])
        for field in fields:
            if field.column:
                base[index[field.name]] = encode(field, values[field.name])
    base[index["hardware_index"]] = 0.0
    base[index["architecture_index"]] = 0.0
    return base


def _hardware_names(composition: Composition) -> tuple[str, ...]:
    """Catalogue name of each accelerator whose coefficients apply: its own, or of the one it says it inherits from."""
    values = [composition.group_values("hardware", n) for n in composition.names("hardware")]
    return tuple(_measured_name(v) for v in values)


def _measured_name(hardware: Values) -> str:
    own, parent = str(hardware["name"]), str(hardware["inherits"] or "")
    known = next((name for name in (own, parent) if name in hardware_names()), None)
    if known is None:
        raise UserError(
            "is not in the catalogue, and does not say whose efficiencies it inherits",
            field="hardware.name",
            value=own,
            allowed="hardware.inherits: a catalogue name",
            near=nearest(parent or own, hardware_names()),
        )
    return known


def preset_axes(loader: ConfigLoader, name: str, options: Sequence[str]) -> list[str]:
    """Override lines of the grid preset `conf/grid/<name>.yaml`."""
    if name not in options:
        raise UserError(
            "is not a grid preset",
            field="grid",
            value=name,
            allowed=", ".join(options),
            near=nearest(name, options),
        )
    axes = load_choice(loader, "grid", name)["axes"]
    return [f"{key}={_line(value)}" for key, value in axes.items()]


def _line(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(_line(v) for v in value)
    return "null" if value is None else str(value)
