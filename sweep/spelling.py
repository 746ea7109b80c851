"""Usual spellings of a choice: `H100-SXM`, `Llama-3.1-8B` and `llama_3_1_8b` name the same file."""

from __future__ import annotations

import re
from collections.abc import Iterable


def folded(name: str) -> str:
    """Lower case, every run of punctuation one underscore."""
    return re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")


def same_spelling(name: str, options: Iterable[str]) -> str | None:
    """The option that `name` spells, None when none does."""
    wanted = folded(name)
    return next((option for option in options if folded(option) == wanted), None)
