"""Models of the catalogue, and the names that mean them: catalogue names, Hugging Face ids, config.json files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sweep.catalog import hf_config
from sweep.catalog.ids import FORMAT_LIKE, CheckpointId, holds_stem, parse_id, stem_of
from sweep.catalog.repackaged import Source, stored_formats
from sweep.catalog.yaml_file import read_yaml
from sweep.errors import UserError, nearest
from sweep.fields import model as model_fields
from sweep.paths import conf_dir
from sweep.spelling import folded

LONG_CONTEXT = {"2507": 262144}
"""Context of releases that are longer than their first: Qwen3-*-Instruct-2507 and -Thinking-2507."""


@dataclass(frozen=True)
class ModelEntry:
    """One model: catalogue name and the value of every `model.*` field by short name.

    `precision` holds overrides of `precision.*` fields that the name implies beyond what its checkpoint stores
    (`fields` says that class by class); `notes` say what a user should know about the reading.
    """

    name: str
    fields: Mapping[str, Any]
    precision: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()


@cache
def list_models() -> tuple[str, ...]:
    """Catalogue names, sorted."""
    return tuple(sorted(path.stem for path in (conf_dir() / "model").glob("*.yaml")))


@cache
def model(name: str) -> ModelEntry:
    """The entry of a catalogue name.

    Raises UserError for a name that is not in the catalogue or a file that is not of its form.
    """
    if name not in list_models():
        raise _unknown(name)
    file = conf_dir() / "model" / f"{name}.yaml"
    return ModelEntry(name, _complete(read_yaml(file), f"model/{file.name}"))


def architecture_of(path: str | Path) -> ModelEntry:
    """The entry of a Hugging Face config.json (or of the folder that holds one); see `hf_config`."""
    found = hf_config.architecture_of(path)
    return ModelEntry(str(found.fields["name"]), _complete(found.fields, str(path)), notes=found.notes)


def resolve_model(text: str) -> ModelEntry:
    """The entry that `text` means: a catalogue name, a Hugging Face id, or the path of a config.json.

    The precision that the name of a repackaged checkpoint states becomes its `checkpoint_*` fields. Raises
    UserError, with the nearest names, where `text` means nothing known.
    """
    text = text.strip()
    if _is_path(text):
        return architecture_of(text)
    return _resolve_id(text)


def _is_path(text: str) -> bool:
    if text.endswith(".json") or text.startswith(("./", "../", "/", "~")):
        return True
    return "/" in text and (Path(text) / "config.json").is_file()


@cache
def _resolve_id(text: str) -> ModelEntry:
    if "/" not in text and folded(text) in list_models():
        return model(folded(text))
    known = _ids()
    if text.lower() in known:
        return _released(model(known[text.lower()]), text)
    checkpoint = parse_id(text)
    name, note = _base_model(checkpoint, text)
    entry = _released(model(name), text)
    if not checkpoint.scheme:
        return ModelEntry(name, entry.fields, notes=note)
    source = Source(checkpoint.org, checkpoint.base, checkpoint.revision)
    stored = stored_formats(entry.fields, checkpoint.scheme, source)
    return ModelEntry(name, MappingProxyType({**entry.fields, **stored}), notes=note)


def _released(entry: ModelEntry, text: str) -> ModelEntry:
    """The entry with the context of the release that the id names."""
    for release, tokens in LONG_CONTEXT.items():
        if release in text.split("-") and entry.fields["max_position"] < tokens:
            return ModelEntry(entry.name, MappingProxyType({**entry.fields, "max_position": tokens}))
    return entry


def _base_model(checkpoint: CheckpointId, text: str) -> tuple[str, tuple[str, ...]]:
    """Catalogue name of the model that a checkpoint was made of, and a note where that is a guess."""
    for wanted, names in ((checkpoint.base, _bases()), (checkpoint.stem, _stems())):
        if wanted in names:
            return names[wanted], ()
    contained = [stem for stem in _stems() if holds_stem(checkpoint.base, stem)]
    stem = max(contained, key=len, default="")
    if (
        stem
        and not FORMAT_LIKE.search(checkpoint.base)
        and checkpoint.org
        and checkpoint.org not in _orgs_of(_stems()[stem])
    ):
        name = _stems()[stem]
        return name, (f"{text} is taken for a fine-tune of {name}",)
    raise _unknown(text)


def _complete(values: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """`values` over the fields' defaults; a key that is no field is refused."""
    complete = {f.name: f.default for f in model_fields.FIELDS}
    for key, value in values.items():
        if key not in complete:
            raise UserError("is no field of a model", file=file, field=key, near=nearest(key, complete))
        complete[key] = value
    return MappingProxyType(complete)


@cache
def _ids() -> Mapping[str, str]:
    """Catalogue name of each listed Hugging Face id, in lower case."""
    return {
        listed.strip().lower(): name
        for name in list_models()
        for listed in str(model(name).fields["hf_ids"]).split(",")
    }


@cache
def _bases() -> Mapping[str, str]:
    """Catalogue name of each listed id's name without its organisation, and of itself."""
    return {folded(i.rpartition("/")[2]): name for i, name in _ids().items()} | {n: n for n in list_models()}


@cache
def _stems() -> Mapping[str, str]:
    """Catalogue name of each listed id's stem; the first catalogue name where releases differ in format."""
    stems: dict[str, str] = {}
    for base, name in sorted(_bases().items(), key=lambda item: item[1]):
        stems.setdefault(stem_of(base), name)
    return stems


def _orgs_of(name: str) -> set[str]:
    return {i.strip().lower().partition("/")[0] for i in str(model(name).fields["hf_ids"]).split(",")}


def _unknown(text: str) -> UserError:
    listed = {
        i: i for i in (j.strip() for n in list_models() for j in str(model(n).fields["hf_ids"]).split(","))
    }
    if "/" in text:
        close = nearest(text, listed)
    else:
        by_base = {i.rpartition("/")[2].lower(): name for i, name in _ids().items()}
        found = nearest(text, [*list_models(), *by_base])
        close = list(dict.fromkeys(by_base.get(c, c) for c in found))
    return UserError("is not in the catalogue", field="model", value=text, near=close)
