"""What a declared input is: the record behind every Hydra key, flag, axis and kernel column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["int", "float", "bool", "choice", "text", "path", "list"]
Scope = Literal["instance", "cluster", "run"]
Specification = Literal["llmservingsim", "inferasim"]


class _Same:
    def __repr__(self) -> str:
        return "SAME"


SAME: Final = _Same()
"""A seed alias that has the field's own default."""


@dataclass(frozen=True)
class Seed:
    """The name one of the two specifications gives a field.

    `default` and `zero` are the alias's own: the specifications sometimes disagree on both
    while the field has one meaning. `zero` is the field value that a literal 0 stands for.
    """

    spec: Specification
    flag: str
    default: Any = SAME
    zero: Any = SAME
    scale: float = 1.0
    negated: bool = False


@dataclass(frozen=True)
class Expect:
    """What must happen when the field goes from `low` to `high` with `given` set.

    `column` moves "up" or "down"; the generated feature test reads this.
    """

    low: Any
    high: Any
    column: str
    direction: Literal["up", "down", "change"]
    given: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Field:
    """One input of the model.

    `default=None` means "auto": `auto` then says the rule, and the kernel sees NaN. `None` is
    distinct from 0. `column` is False for inputs that no kernel reads (paths, plumbing).
    """

    key: str
    doc: str
    kind: Kind
    default: Any = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    auto: str = ""
    scope: Scope = "instance"
    question: str = ""
    seeds: tuple[Seed, ...] = ()
    moves: tuple[str, ...] = ()
    expect: tuple[Expect, ...] = ()
    regime: bool = False
    column: bool = True
    inert_reason: str = ""

    @property
    def name(self) -> str:
        """Kernel column and short name: the last part of the Hydra key; unique."""
        return self.key.rsplit(".", 1)[-1]

    @property
    def group(self) -> str:
        return self.key.split(".", 1)[0]
