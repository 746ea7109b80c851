"""A measured figure beside the model's answers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Figure:
    """One measured figure: its name, and columns `measured` and `predicted` beside the table's own."""

    name: str
    frame: pl.DataFrame
    table: str = ""
    """Name of the table or folder it comes from."""
