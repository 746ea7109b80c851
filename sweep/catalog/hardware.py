"""Accelerators of the catalogue: figures by name, and the names that mean them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from sweep.catalog.hardware_names import ALIASES, folded, split_memory
from sweep.catalog.yaml_file import read_yaml
from sweep.errors import UserError, nearest
from sweep.fields import hardware as hardware_fields
from sweep.paths import conf_dir

MEMORY_TOLERANCE = 0.1
"""How far the memory size in a spelling may lie from the marketed one (B200: 180 or 192 GB)."""


@dataclass(frozen=True)
class HardwareEntry:
    """One accelerator: catalogue name and the value of every `hardware.*` field by short name."""

    name: str
    fields: Mapping[str, Any]


@cache
def hardware_names() -> tuple[str, ...]:
    """Catalogue names, sorted."""
    return tuple(sorted(path.stem for path in (conf_dir() / "hardware").glob("*.yaml")))


@cache
def hardware(name: str) -> HardwareEntry:
    """The entry of a catalogue name.

    Raises UserError for a name that is not in the catalogue or a file that is not of its form.
    """
    if name not in hardware_names():
        raise _unknown(name)
    values = {f.name: f.default for f in hardware_fields.FIELDS}
    file = conf_dir() / "hardware" / f"{name}.yaml"
    for key, value in read_yaml(file).items():
        if key not in values:
            raise UserError(
                "is no field of an accelerator",
                file=f"hardware/{file.name}",
                field=key,
                near=nearest(key, values),
            )
        values[key] = value
    return HardwareEntry(name, MappingProxyType(values))


def maker(name: str) -> str:
    """Who makes an accelerator (catalogue name), by its family: amd or nvidia."""
    return "amd" if str(hardware(name).fields["family"]).startswith("cdna") else "nvidia"


def resolve_hardware(text: str) -> HardwareEntry:
    """The entry that `text` means: a catalogue name or a usual spelling ("NVIDIA H100 80GB HBM3", "gfx942").

    A memory size in the spelling must fit the entry's. Raises UserError with the nearest names.
    """
    name = _spellings().get(folded(text))
    if name is not None:
        return hardware(name)
    stem, memory_gb = split_memory(text)
    name = _spellings().get(folded(stem))
    if name is None or memory_gb is None:
        raise _unknown(text)
    entry = hardware(name)
    marketed_gb = entry.fields["hbm_marketed_gb"]
    if abs(memory_gb - marketed_gb) > MEMORY_TOLERANCE * marketed_gb:
        raise UserError(
            f"no such memory size: {name} has {marketed_gb:g} GB",
            field="hardware",
            value=text,
            near=nearest(text, hardware_names()),
        )
    return entry


def known_spelling(text: str) -> str | None:
    """The catalogue name that `text` means, None where it means none."""
    try:
        return resolve_hardware(text).name
    except UserError:
        return None


def hardware_index(name: str) -> int:
    """Position of a catalogue name in sorted order: picks its rows of fitted coefficients in one process.

    Fitted coefficients are stored by name; an index is not to be kept in files, adding an entry shifts it.
    """
    return hardware_names().index(hardware(name).name)


def inherits_from(name: str) -> str | None:
    """The accelerator whose measured efficiencies `name` takes where it has none of its own."""
    return hardware(name).fields["inherits"] or None


def relatives(name: str) -> tuple[str, ...]:
    """`name`, then whom it inherits from, nearest first."""
    chain: list[str] = [name]
    while (parent := inherits_from(chain[-1])) is not None and parent not in chain:
        chain.append(parent)
    return tuple(chain)


@cache
def _spellings() -> Mapping[str, str]:
    """Catalogue name of each folded spelling."""
    table = {folded(spelling): name for name, spellings in ALIASES.items() for spelling in spellings}
    return {**table, **{folded(name): name for name in hardware_names()}}


def _unknown(text: str) -> UserError:
    close = nearest(text, [*hardware_names(), *(a for names in ALIASES.values() for a in names)])
    names = dict.fromkeys(_spellings()[folded(c)] for c in close)
    return UserError("is not in the catalogue", field="hardware", value=text, near=names)
