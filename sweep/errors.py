"""What a person did wrong, in one line: file, field, value, what is allowed, the nearest names.

The command line prints the message on stderr and exits 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """The input is wrong, and `message` says in one line where and what would be right."""

    def __init__(
        self,
        problem: str = "",
        *,
        file: object = None,
        field: str = "",
        value: object = None,
        allowed: str = "",
        near: Iterable[str] = (),
    ) -> None:
        place = ": ".join(str(part) for part in (file, field) if part)
        what = problem or "not a valid value"
        if value is not None:
            what = f"{str(value)[:120]!r}: {what}"
        parts = [f"{place}: {what}" if place else what]
        if allowed:
            parts.append(f"allowed: {allowed}")
        near = list(near)
        if near:
            parts.append(f"nearest: {', '.join(near)}")
        self.message = " ".join("; ".join(parts).split())
        self.file, self.field, self.value, self.near = file, field, value, near
        super().__init__(self.message)


def nearest(name: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """The `n` candidates most like `name`, best first, ignoring case; empty where none is like it."""
    spelling: dict[str, str] = {}
    for candidate in candidates:
        spelling.setdefault(candidate.lower(), candidate)
    return [spelling[match] for match in get_close_matches(name.lower(), spelling, n=n, cutoff=0.5)]
