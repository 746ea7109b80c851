"""An argument parser whose mistakes are one line with the nearest option."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from sweep.errors import UserError, nearest


class Parser(argparse.ArgumentParser):
    """Raises `UserError` instead of printing usage and exiting; never abbreviates options."""

    def __init__(self, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(**kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown:
            option = unknown.group(1).split("=", 1)[0]
            raise UserError(f"unknown option {option}", near=nearest(option, self._option_string_actions))
        raise UserError(message)
