"""YAML of files that anyone may have written: plain data only, and bounded in what its aliases repeat."""

from __future__ import annotations

from typing import Any

import yaml

from sweep.errors import UserError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's safe loader where it was built in: ten times faster than the pure one."""
MOST_REPEATED = 10_000
"""Nodes that aliases may add to a document. A few lines of aliases of aliases stand for 10^9 of them."""


def parse_yaml(text: str, file: str) -> Any:
    """What the text of `file` holds. Raises UserError where it is not YAML, or its aliases repeat too much."""
    try:
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if "&" in text and "*" in text:
                _refuse_repetition(node, file)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or error
        raise UserError(
            f"is not YAML: {problem}", file=file, line=mark.line + 1 if mark is not None else None
        ) from None


def _refuse_repetition(document: yaml.Node, file: str) -> None:
    """Raises UserError where a node contains itself, or the document without aliases were far larger than with them."""
    sizes: dict[int, int] = {}
    """Node -> nodes that it stands for, itself included; 0 while it is being counted."""

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known == 0:
            raise UserError("an alias contains itself", file=file, line=node.start_mark.line + 1)
        if known is None:
            sizes[id(node)] = 0
            known = sizes[id(node)] = 1 + sum(map(size, _members(node)))
        return known

    if size(document) - len(sizes) > MOST_REPEATED:
        raise UserError(f"aliases repeat more than {MOST_REPEATED:,} values", file=file)


def _members(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
