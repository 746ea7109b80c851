"""What a declared input is: the record behind every Hydra key, flag, axis and kernel column."""

from __future__ import annotations

from collections.abc import Callable
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
    while the field has one meaning. `zero` is the field value that a literal 0 stands for;
    `values` maps the alias's other words to the field's (a switch that is set has the word "true").
    `hidden` aliases are accepted and not shown in help.
    """

    spec: Specification
    flag: str
    default: Any = SAME
    zero: Any = SAME
    negated: bool = False
    values: tuple[tuple[str, Any], ...] = ()
    hidden: bool = False


@dataclass(frozen=True)
class Expect:
    """What must happen when the field goes from `low` to `high` with `given` set.

    `column` moves "up" or "down" (or "change"s, or stays the "same"); the generated feature test reads this. `given`
    are short names and values of the setting in which the input matters, on top of the test's deployment;
    `model` and `hardware` are names of the catalogue.
    """

    low: Any
    high: Any
    column: str
    direction: Literal["up", "down", "change", "same"]
    given: tuple[tuple[str, Any], ...] = ()


def _expects(direction: Literal["up", "down", "change", "same"]) -> Callable[..., Expect]:
    def expect(column: str, low: Any, high: Any, **given: Any) -> Expect:
        return Expect(low, high, column, direction, tuple(given.items()))

    return expect


rises, falls, changes, stays = (_expects("up"), _expects("down"), _expects("change"), _expects("same"))
"""What `column` does when the field goes from `low` to `high` with `given` set: `rises("tpot_ms", 1, 2, tp=4)`."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One input of the model.

    `default=None` means "auto": `auto` then says the rule, and the kernel sees NaN. `None` is
    distinct from 0. `column` is False for inputs that no kernel reads (paths, plumbing, what only
    the simulator knows). `moves` names the result columns that the input can change; it is empty for
    plumbing, whose `doc` then says why. `regime` marks the inputs that change an answer most often.
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
    regime: bool = False
    column: bool = True

    @property
    def name(self) -> str:
        """Kernel column and short name: the last part of the Hydra key; unique."""
        return self.key.rsplit(".", 1)[-1]

    @property
    def group(self) -> str:
        return self.key.split(".", 1)[0]
