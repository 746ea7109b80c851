"""Mistakes that a person makes, told in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

EXIT_FAULT, EXIT_INPUT, EXIT_NO_ANSWER = 1, 2, 3
"""Exit statuses: our fault, wrong input, a question without an answer."""


def nearest(name: str, candidates: Iterable[str], limit: int = 3, likeness: float = 0.5) -> list[str]:
    """The candidates most like `name` (1 is the same), best first; empty when none is close."""
    by_folded = {c.casefold(): c for c in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=limit, cutoff=likeness)
    return [by_folded[c] for c in close]


LONGEST_VALUE, LONGEST_MESSAGE = 120, 1200
"""Characters of a value, and of a whole message, that are shown."""


def printable(value: object, longest: int = LONGEST_VALUE) -> str:
    """A value as a terminal can show it: on one line, nothing unprintable in it, its middle left out where it is long."""
    text = " ".join(str(value).split())
    if len(text) > longest:
        head = longest * 2 // 3
        text = f"{text[:head]} ... {text[len(text) - (longest - head) :]}"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


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
        self.file, self.line = file, line
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
            given = "" if value is None else f"={printable(value)}"
            parts[0] = f"{where}{field}{given}: {message}"
        if allowed:
            parts.append(f"allowed: {allowed}")
        close = self.details["near"]
        if close:
            parts.append(f"nearest: {', '.join(close)}")
        self.message = printable("; ".join(parts), LONGEST_MESSAGE)
        super().__init__(self.message)

    def located(self, file: str | None, line: int | None) -> UserError:
        """The same mistake with the place it was made in; a place that it names already stays."""
        return UserError(
            file=self.file or file, line=line if self.line is None else self.line, **self.details
        )


class NoAnswer(Exception):
    """A question without an answer (no deployment meets the SLO): exit 3, with the nearest miss."""
