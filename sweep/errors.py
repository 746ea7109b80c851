"""Mistakes that a person makes, told in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

EXIT_FAULT, EXIT_INPUT, EXIT_NO_ANSWER = 1, 2, 3
"""Exit statuses: our fault, wrong input, a question without an answer."""


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates most like `name`, best first; empty when none is close."""
    by_folded = {c.casefold(): c for c in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=limit, cutoff=0.5)
    return [by_folded[c] for c in close]


class UserError(Exception):
    """An input that is wrong: the command line prints it on one line and exits with 2."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
        value: object = None,
        allowed: str | None = None,
        near: Iterable[str] = (),
    ) -> None:
        self.details: dict[str, Any] = {
            "message": message,
            "field": field,
            "value": value,
            "allowed": allowed,
            "near": list(near),
        }
        where = "".join([f"{file}: " if file else "", f"line {line}: " if line is not None else ""])
        parts = [where + message]
        if field is not None:
            parts[0] = (
                f"{where}{field}={value}: {message}" if value is not None else f"{where}{field}: {message}"
            )
        if allowed:
            parts.append(f"allowed: {allowed}")
        close = self.details["near"]
        if close:
            parts.append(f"nearest: {', '.join(close)}")
        self.message = " ".join("; ".join(parts).split())
        super().__init__(self.message)

    def located(self, file: str | None, line: int | None) -> UserError:
        """The same mistake with the place it was made in."""
        if file is None and line is None:
            return self
        return UserError(file=file, line=line, **self.details)


class NoAnswer(Exception):
    """A question without an answer (no deployment meets the SLO): exit 3, with the nearest miss."""
