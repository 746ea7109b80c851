"""Which column of a trace holds what: by mapping, or by the names that such files use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from sweep.errors import UserError, nearest
from sweep.traces.clock import unit

KNOWN = MappingProxyType(
    {
        "arrival": (
            "arrivaltimens timestamp arrival arrivalms arrivalns arrivalus arrivals arrivaltime arrivaltimems arrivaltimes "
            "arrivedat time step starttime startedat createdat created requesttime requestedat ts datetime"
        ),
        "isl": (
            "inputtoks contexttokens inputlength isl inputlen promptlen prompttokens inputtokens requesttokens "
            "promptlength numprefilltokens numprompttokens inputtokencount"
        ),
        "osl": (
            "outputtoks generatedtokens outputlength osl outputlen completiontokens outputtokens responsetokens "
            "outputtokencount numdecodetokens generatedlength generationtokens numoutputtokens"
        ),
        "hash_ids": "hashids blockhashes blocks",
        "input_tok_ids": "inputtokids",
        "output_tok_ids": "outputtokids",
        "model": "model modelname deployment modelid",
    }
)
"""What a column is called in the wild, letters and digits only, best name first."""
REQUIRED = ("arrival", "isl", "osl")


@dataclass(frozen=True)
class Columns:
    """Names of a source's columns; empty where it has none. `arrival_unit` empty = told from name and values."""

    arrival: str = ""
    isl: str = ""
    osl: str = ""
    hash_ids: str = ""
    input_tok_ids: str = ""
    output_tok_ids: str = ""
    model: str = ""
    arrival_unit: str = ""
    usual_unit: str = field(default="", compare=False)

    def given(self) -> dict[str, str]:
        """Role -> column of those that the source has."""
        roles = {f.name: getattr(self, f.name) for f in fields(self) if f.name in KNOWN}
        return {role: name for role, name in roles.items() if name}


def mapping(text: str) -> Columns:
    """Columns from `arrival=NAME:unit,isl=NAME,osl=NAME,...`; parts not named are found by their usual names.

    Separators are commas or semicolons. Raises UserError.
    """
    found: dict[str, str] = {}
    for part in re.split(r"[,;]", text):
        if not part.strip():
            continue
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals or role not in KNOWN:
            raise UserError(
                "not ROLE=COLUMN",
                field="columns",
                value=part.strip(),
                allowed=", ".join(KNOWN),
                near=nearest(role, KNOWN),
            )
        if role == "arrival" and (timed := re.fullmatch(r"(.+):([a-z]+)", name)):
            name, found["arrival_unit"] = timed[1], unit(timed[2])
        found[role] = name
    return Columns(**found)


def find(names: Sequence[str], wanted: Columns, *, file: str, required: Sequence[str] = REQUIRED) -> Columns:
    """Columns of a source that has `names`. Raises UserError naming the part that none of them is."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    found = wanted.given()
    for role, known in KNOWN.items():
        if role in found:
            if found[role] not in names:
                raise UserError(
                    "no such column",
                    file=file,
                    field=f"columns.{role}",
                    value=found[role],
                    allowed=", ".join(names[:20]),
                    near=nearest(found[role], names),
                )
            continue
        match = next((plain[name] for name in known.split() if name in plain), "")
        if match:
            found[role] = match
        elif role in required:
            raise UserError(
                f"no column for {role}; name it: {role}=NAME in --columns (or workload.columns, job.columns)",
                file=file,
                allowed=", ".join(names[:20]),
            )
    return Columns(**found, arrival_unit=wanted.arrival_unit, usual_unit=_usual_unit(found))


def _usual_unit(found: dict[str, str]) -> str:
    """Unit of a relative time in the public traces that do not name it: BurstGPT counts seconds, Mooncake ms."""
    if found.get("isl") == "Request tokens":
        return "s"
    return "ms" if "hash_ids" in found else ""
