"""Values that a person gives for one deployment, by flag, environment, YAML or override, each with where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sweep.errors import UserError, nearest
from sweep.fields import SAME, Field, Seed, by_name
from sweep.fields.check import AUTO, checked
from sweep.schema import ALL_FIELDS, field_by_key
from sweep.versions import encode_version

ENVIRONMENT = "INFERASIM_"
GROUP_TP = "--tp"
"""TP as the compatible tool counts it: attention DP divides it. `parallelism.tp` is the width of one DP rank."""
RANKS_OF_TP = "--attention-dp-size"

CONFIG_NAMES: Mapping[str, str] = {
    "tensor_model_parallel_size": "INFERASIM_TP",
    "pipeline_model_parallel_size": "parallelism.pp",
    "virtual_pipeline_model_parallel_size": "parallelism.virtual_stages",
    "expert_model_parallel_size": "parallelism.moe_ep",
    "context_parallel_size": "parallelism.cp",
    "num_layers": "model.n_layers",
    "hidden_size": "model.hidden_size",
    "num_attention_heads": "model.n_heads",
    "num_query_groups": "model.n_kv_heads",
    "ffn_hidden_size": "model.ffn_dim",
    "num_experts": "model.n_experts",
    "moe_router_topk": "model.experts_per_token",
    "moe_ffn_hidden_size": "model.moe_ffn_dim",
    "seq_length": "workload.isl",
}
"""Names of the compatible tool's YAML that serving reads."""


@dataclass(frozen=True)
class Given:
    """One value: the Hydra key it is for, the text or value, and the name under which it was written."""

    key: str
    value: Any
    written: str
    seed: Seed | None = None


@cache
def flags() -> Mapping[str, tuple[Field, Seed]]:
    """Flags and environment names of the compatible estimator: (field, seed)."""
    return {s.flag: (f, s) for f in ALL_FIELDS for s in f.seeds if s.spec == "inferasim"}


def from_flag(flag: str, value: Any, written: str | None = None) -> Given:
    """The value of a flag of the compatible estimator (or of its environment)."""
    field, seed = flags()[flag]
    return Given(field.key, value, written or flag, seed)


def from_environment(environment: Mapping[str, str]) -> list[Given]:
    """What INFERASIM_* variables give, empty ones left out."""
    shape = [name for name in flags() if name.startswith(ENVIRONMENT)]
    found = [from_flag(name, environment[name]) for name in shape if environment.get(name)]
    if environment.get("INFERASIM_GPU_ARCH"):
        found.append(Given("hardware.name", environment["INFERASIM_GPU_ARCH"], "INFERASIM_GPU_ARCH"))
    if environment.get("INFERASIM_MODEL"):
        found.append(Given("model.name", environment["INFERASIM_MODEL"], "INFERASIM_MODEL"))
    if environment.get("INFERASIM_ANCHOR_STORE"):
        found.append(
            from_flag("--anchor-store", environment["INFERASIM_ANCHOR_STORE"], "INFERASIM_ANCHOR_STORE")
        )
    return found


def from_name(name: str, value: Any, written: str | None = None) -> Given:
    """The value of a Hydra key, a short name, or a name of the compatible tool's YAML.

    Raises UserError with the nearest names for any other.
    """
    written = written or name
    target = CONFIG_NAMES.get(name, name)
    if target in flags():
        return from_flag(target, value, written)
    if target in field_by_key():
        return Given(target, value, written)
    if target in ("model", "hardware", "price"):
        return Given(f"{target}.name", value, written)
    if target in by_name():
        return Given(by_name()[target].key, value, written)
    known = [*field_by_key(), *by_name(), *CONFIG_NAMES]
    raise UserError(f"'{name}' is no input", near=nearest(name, known))


def from_override(text: str) -> Given:
    """A trailing key=value."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UserError(f"'{text}' is neither an option nor key=value", near=nearest(text, flags()))
    return from_name(name.strip(), value.strip(), text)


def value_of(given: Given, *, amd: bool = False) -> Any:
    """The field's own value: the alias's reading of 0 and of its own words, then checked against the field.

    `amd`: plain "fp4" is mxfp4 there. Raises UserError under the name that the person wrote.
    """
    field = field_by_key()[given.key]
    value = given.value
    try:
        if given.seed is not None:
            value = _as_seed(given.seed, field, value)
        if value is None:
            return None
        if field.key == "engine.engine_version" and isinstance(value, str):
            value = encode_version(value) or value
        if amd and field.group == "precision" and str(value).lower() == "fp4":
            value = "mxfp4"
        return checked(field, value)
    except UserError as error:
        raise UserError(**{**error.details, "field": given.written.split("=", 1)[0]}) from None


def _as_seed(seed: Seed, field: Field, value: Any) -> Any:
    words = dict(seed.values)
    word = str(value).strip().lower()
    if word in words:
        return words[word]
    if seed.values and word not in (*field.choices, *AUTO):
        choices = [*words, *(c for c in field.choices if None in words.values())]
        raise UserError("is not one of the choices", value=value, allowed=", ".join(choices))
    if seed.negated and isinstance(value, bool):
        return not value
    if seed.zero is not SAME and _is_zero(value):
        return seed.zero
    return value


def _is_zero(value: Any) -> bool:
    try:
        return float(value) == 0.0
    except (TypeError, ValueError):
        return False


def alias_defaults() -> list[Given]:
    """Values that the compatible estimator has where nothing is given and the field's own default differs."""
    return [
        Given(field.key, seed.default, "default", seed)
        for field, seed in flags().values()
        if seed.default is not SAME and seed.default is not None and not isinstance(seed.default, bool)
    ]


def refuse_contradictions(givens: Iterable[Given]) -> None:
    """Raises UserError where two names of one input have different values; of one name twice, the last counts."""
    first: dict[str, Given] = {}
    for given in _last_of_each_name(givens):
        other = first.setdefault(given.key, given)
        if _known_value(other) != _known_value(given):
            raise UserError(
                f"contradicts {_shown(other)}: both are {given.key}", field=_name(given), value=_value(given)
            )


def _last_of_each_name(givens: Iterable[Given]) -> list[Given]:
    return list({_name(given): given for given in givens}.values())


def _known_value(given: Given) -> Any:
    """The field's value where it has one, else what was written: what is wrong with it is told later."""
    try:
        return value_of(given)
    except (UserError, KeyError):
        return str(given.value)


def _name(given: Given) -> str:
    return given.written.split("=", 1)[0].strip()


def _value(given: Given) -> Any:
    return None if given.value is True else given.value


def _shown(given: Given) -> str:
    return _name(given) if _value(given) is None else f"{_name(given)}={given.value}"


def last_of_each(givens: Iterable[Given]) -> dict[str, Given]:
    """The value that counts for each key: later ones win."""
    return {given.key: given for given in givens}
