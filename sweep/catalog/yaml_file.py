"""Reading one YAML file of the configuration tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sweep.bounded import read_text
from sweep.errors import UserError

MAX_BYTES = 16 * 1024**2
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's safe loader where it was built in: ten times faster than the pure one."""


def read_yaml(file: Path) -> dict[str, Any]:
    """The mapping in `file`. Raises UserError where it holds no mapping."""
    text = read_text(file, MAX_BYTES)
    try:
        content = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"is not YAML: {error}", file=file.name) from None
    if not isinstance(content, dict):
        raise UserError("holds no mapping", file=file.name)
    return content
