"""Lines that a reader could not use, and what it does about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sweep.errors import UserError

OnBadLine = Literal["stop", "skip", "report"]
POLICIES: tuple[OnBadLine, ...] = ("stop", "skip", "report")
KEPT = 1000
"""Bad lines remembered one by one; all are counted."""


@dataclass(frozen=True)
class BadLine:
    """One line that is no request."""

    file: str
    line: int
    reason: str
    field: str = ""
    value: object = None

    @property
    def error(self) -> UserError:
        shown = None if self.value is None else str(self.value)[:60]
        return UserError(
            self.reason,
            file=self.file,
            line=self.line,
            field=self.field or None,
            value=shown if self.field else None,
        )


@dataclass
class Report:
    """What a reader noticed: lines read and refused, and remarks in plain words."""

    policy: OnBadLine = "stop"
    n_lines: int = 0
    n_bad: int = 0
    bad: list[BadLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    n_backwards: int = 0

    def refuse(self, bad: BadLine) -> None:
        """Count a bad line; raises its error where the policy is to stop."""
        if self.policy == "stop":
            raise bad.error
        self.n_bad += 1
        if len(self.bad) < KEPT:
            self.bad.append(bad)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def lines(self) -> list[str]:
        """Remarks and, where the policy is to report them, the bad lines, ready to print."""
        out = list(self.notes)
        if self.policy == "report":
            out += [one.error.message for one in self.bad]
            if self.n_bad > len(self.bad):
                out.append(f"and {self.n_bad - len(self.bad):,} more bad lines")
        elif self.n_bad:
            out.append(
                f"{self.n_bad:,} of {self.n_lines:,} lines skipped; first: {self.bad[0].error.message}"
            )
        return out
