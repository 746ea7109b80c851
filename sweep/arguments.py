"""An argument parser whose mistakes are one line: what is missing or wrong, what is allowed, the nearest option."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from sweep.errors import UserError, nearest

LONGEST_USAGE = 160


class Parser(argparse.ArgumentParser):
    """Raises `UserError` instead of printing usage and exiting; never abbreviates options.

    `example` is a command line that works, told where an argument is missing.
    """

    def __init__(self, *, example: str = "", **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.example = example

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        self._refuse_contradictions(args or ())
        return super().parse_known_args(args, namespace)

    def _refuse_contradictions(self, arguments: Sequence[str]) -> None:
        """Raises UserError where a switch is turned both on and off: --enable-x --no-enable-x."""
        turned: dict[str, tuple[str, object]] = {}
        for word in arguments:
            action = self._option_string_actions.get(word)
            if action is None or not isinstance(action.const, bool):
                continue
            first, value = turned.setdefault(action.dest, (word, action.const))
            if value != action.const:
                raise UserError(f"contradicts {first}", field=word)

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"unrecognized arguments: (\S+)", message):
            word = found.group(1)
            option = word.split("=", 1)[0]
            if not option.startswith("-"):
                raise UserError(f"'{word}' is one argument too many: {self._form()}")
            raise UserError(f"unknown option {option}", near=nearest(option, self._option_string_actions))
        if found := re.match(r"the following arguments are required: (.*)", message):
            raise UserError(f"{found.group(1)} missing, as in: {self._form()}")
        if found := re.match(r"argument (\S+): expected (at least )?one argument", message):
            raise UserError("needs a value", field=found.group(1).split("/")[-1])
        if found := re.match(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            choices = re.findall(r"'([^']*)'", found.group(3)) or [found.group(3)]
            near, allowed = nearest(found.group(2), choices), ", ".join(choices)
            raise UserError("unknown", field=found.group(1), value=found.group(2), allowed=allowed, near=near)
        if found := re.match(r"argument (\S+): invalid int value: '(.*)'", message):
            raise UserError("is not a whole number", field=found.group(1), value=found.group(2))
        raise UserError(message)

    def _form(self) -> str:
        """How the command line goes: the example, else the usage, where that is a line."""
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        return self.example or (usage if len(usage) <= LONGEST_USAGE else f"{self.prog} --help")
