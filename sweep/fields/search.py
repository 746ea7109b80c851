"""How a search is done (group `search`): read by `servesweep search`."""

from __future__ import annotations

from typing import Any

from sweep.fields.spec import Field, Kind

_Q = "How is the run done?"


def _set(key: str, kind: Kind, doc: str, **more: Any) -> Field:
    doc += " Moves nothing: it says where a search looks."
    return Field(key=f"search.{key}", doc=doc, kind=kind, scope="run", column=False, question=_Q, **more)


FIELDS = (
    _set(
        "evaluations",
        "int",
        "Most rows that a search evaluates.",
        low=1,
        high=10_000_000,
        auto="1 % of the space, at least 2,000 and at most 20,000",
        unit="rows",
    ),
    _set(
        "generation",
        "int",
        "Rows evaluated at once; what is evaluated next depends on them.",
        low=1,
        high=1_000_000,
        auto="a 25th of what is left after the first, random rows",
        unit="rows",
    ),
    _set("seed", "int", "Seed of the search.", low=0, high=2**31 - 1, default=0),
    _set(
        "tolerance",
        "float",
        "Growth of the frontiers' hypervolume, over `patience` generations, below which a search stops; 0 spends all evaluations.",
        low=0,
        high=1,
        default=0.0005,
    ),
    _set("patience", "int", "Generations over which growth is judged.", low=1, high=1000, default=5),
    _set(
        "within_slo",
        "bool",
        "Whether only rows that meet the SLO count.",
        auto="true where the command line names an SLO",
    ),
)
