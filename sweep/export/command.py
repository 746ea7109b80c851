"""A command line in the making: every flag must be one that the engine documents."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CHECKPOINT = "$CHECKPOINT"
"""Stands for the checkpoint in words of a command; scripts and manifests define it."""
SHELL_WORDS = (CHECKPOINT, "$NODE_RANK", "$HEAD:5000", "${BASE_URL:-http://127.0.0.1:8000}")
"""Words that the shell fills in; all others are quoted."""


@dataclass
class Command:
    """A program with its flags, in order."""

    program: tuple[str, ...]
    known: Mapping[str, str]
    flags: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, flag: str, *values: object) -> None:
        """Append a flag; raises KeyError for one that is not documented (a fault of ours)."""
        if flag not in self.known:
            raise KeyError(f"{self.program[0]} does not document {flag}")
        self.flags.append((flag, *(word(value) for value in values)))

    def words(self) -> list[str]:
        """Program and flags, one word each."""
        return [*self.program, *(part for flag in self.flags for part in flag)]

    def value(self, flag: str) -> str | None:
        """The first value of a flag, None where the command does not have it."""
        return next((f[1] if len(f) > 1 else "" for f in self.flags if f[0] == flag), None)

    def shell(self) -> str:
        """The command as a person types it, one flag per line."""
        lines = [self.program, *self.flags]
        return " \\\n  ".join(" ".join(quoted(part) for part in line) for line in lines)


def word(value: object) -> str:
    """A value as a flag takes it: numbers without needless digits, mappings as JSON."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    return str(value)


def quoted(text: str) -> str:
    """A word for the shell; those that the shell fills in stay open to it."""
    return f'"{text}"' if text in SHELL_WORDS else shlex.quote(text)


def nested(options: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """Dotted options as the tree of a configuration file; raises KeyError for one that is not documented."""
    tree: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            raise KeyError(f"{name} is not documented")
        *groups, last = name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return tree
