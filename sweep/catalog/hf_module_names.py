"""Lists of modules that a quantisation configuration names, in the notations in use."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Any

from sweep.errors import UserError

WRAPPERS = re.compile(r"^(?:(?:model|language_model|text_model|backbone|transformer)\.)+(?=layers\.)")
"""What stands before the layers. Not `mtp.`: those layers have numbers of their own."""


class ModuleNames:
    """A list of modules in any of the notations in use: names, parents, globs, `re:` expressions.

    A plain name means the module and all below it, wherever its components stand in the full name
    ("gate" is not "gate_proj"). Globs match the full name or a parent.
    """

    def __init__(self, patterns: Iterable[Any], field: str) -> None:
        self._plain: set[str] = set()
        globs, expressions = [], []
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > 300:
                raise UserError("not a list of module names", field=field, value=pattern)
            if pattern.startswith("re:"):
                expressions.append(_safe(pattern[3:], field))
            elif any(c in pattern for c in "*?["):
                glob = from_layers(pattern)
                globs += [fnmatch.translate(glob), fnmatch.translate(glob + ".*")]
            else:
                self._plain.add(from_layers(pattern))
        self._glob = re.compile("|".join(globs)) if globs else None
        self._expressions = [re.compile(e) for e in expressions]

    def __contains__(self, name: str) -> bool:
        parts = name.split(".")
        spans = (".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
        if self._plain and any(span in self._plain for span in spans):
            return True
        full = "model." + name
        if self._glob and (self._glob.match(name) or self._glob.match(full)):
            return True
        return any(e.match(full) or e.match(name) for e in self._expressions)


def from_layers(pattern: str) -> str:
    """The pattern without what stands before the layers, which differs between wrappers of one model."""
    pattern = WRAPPERS.sub("", pattern)
    for name in ("lm_head", "embed_tokens"):
        if pattern.endswith("." + name):
            return name
    return pattern


def _safe(expression: str, field: str) -> str:
    """A regular expression whose matching time is bounded: no repeated groups, no look-around."""
    if re.search(r"\)[*+{?]|\(\?", expression):
        raise UserError(
            "a regular expression with repeated groups is not accepted", field=field, value=expression
        )
    try:
        re.compile(expression)
    except re.error:
        raise UserError("not a regular expression", field=field, value=expression) from None
    return expression
