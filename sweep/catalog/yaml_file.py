"""Reading one YAML file of the configuration tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweep.bounded import read_text
from sweep.bounded_yaml import parse_yaml
from sweep.errors import UserError

MAX_BYTES = 16 * 1024**2


def read_yaml(file: Path) -> dict[str, Any]:
    """The mapping in `file`. Raises UserError where it holds no mapping."""
    content = parse_yaml(read_text(file, MAX_BYTES), file.name)
    if not isinstance(content, dict):
        raise UserError("holds no mapping", file=file.name)
    return content
