"""Reading a Hugging Face config.json as bounded data: no code, no surprise in size, depth or type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweep import bounded
from sweep.errors import UserError

MAX_BYTES = 16 * 1024**2
"""The largest public config.json seen is 2.4 MB (a layer-by-layer quantisation table)."""
MAX_DEPTH = 16
MAX_COUNT = 2**31

Config = Mapping[str, Any]


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; a `UserError` where it is missing, too big, too deep or not an object."""
    data = bounded.read_json(path, MAX_BYTES)
    if not isinstance(data, dict):
        raise UserError("not a JSON object", file=str(path))
    if _depth(data) > MAX_DEPTH:
        raise UserError(f"nested deeper than {MAX_DEPTH} levels", file=str(path))
    return data


def _depth(data: object) -> int:
    """Levels of nesting, counted level by level so that no input can exhaust the stack."""
    level, depth = [data], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    return depth


class Keys:
    """A config whose reads are checked and remembered, so that what nobody read can be told."""

    def __init__(self, data: Config, defaults: Config) -> None:
        self._data = data
        self._defaults = defaults
        self.seen: set[str] = set()

    def get(self, *names: str) -> Any:
        """The first of `names` that is given and not null, else the family's default, else None."""
        self.seen.update(names)
        for source in (self._data, self._defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        return None

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number that is not negative; without `default` it must be there."""
        value = self.get(*names)
        if value is None:
            if default is None:
                raise UserError("missing from the configuration", field=names[0])
            return default
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole or isinstance(value, bool) or not 0 <= value < MAX_COUNT:
            raise UserError(
                "not a whole number", field=names[0], value=value, allowed=f"0 to {MAX_COUNT - 1}"
            )
        return int(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        value = self.get(*names)
        if value is None:
            return default
        if not isinstance(value, bool | int):
            raise UserError("not true or false", field=names[0], value=value)
        return bool(value)

    def text(self, *names: str, default: str = "") -> str:
        value = self.get(*names)
        return value if isinstance(value, str) else default

    def per_layer(self, name: str, n_layers: int) -> list[Any] | None:
        """A list with one entry per layer (longer where it covers MTP layers too), or None."""
        value = self.get(name)
        if not isinstance(value, list):
            return None
        if len(value) < n_layers:
            raise UserError(f"has {len(value)} entries for {n_layers} layers", field=name)
        return value[:n_layers]

    def unread(self, names: frozenset[str]) -> list[str]:
        """Those of `names` that say something (not null, false, zero, empty) and that nobody has read."""
        return sorted(name for name in names - self.seen if self._data.get(name))
