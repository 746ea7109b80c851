"""`servesweep flags`: every input, its names, unit, default and what it moves."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from sweep.arguments import Parser
from sweep.inputs_page import by_question, default_text, markdown, rows


def main(argv: Sequence[str]) -> int:
    """Print the registry: for people, as JSON, or as the page of the documentation."""
    parser = Parser(
        prog="servesweep flags", description="Every input: meaning, unit, default, what it moves."
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one array of objects, for programs")
    form.add_argument("--markdown", action="store_true", help="the page docs/inputs.md")
    parser.add_argument("word", nargs="?", help="only inputs whose key, flags or meaning contain this word")
    arguments = parser.parse_args(list(argv))
    if arguments.json:
        json.dump(rows(), sys.stdout, indent=1)
        print()
    elif arguments.markdown:
        print(markdown(), end="")
    else:
        print(listing((arguments.word or "").lower()))
    return 0


def listing(word: str) -> str:
    """The inputs in plain text, one paragraph per question."""
    lines: list[str] = []
    for question, fields in by_question().items():
        found = [f for f in fields if word in " ".join((f.key, f.doc, *(s.flag for s in f.seeds))).lower()]
        if not found:
            continue
        lines += ["", question]
        for field in found:
            mark = "\u2691" if field.regime else " "
            unit = f" {field.unit}" if field.unit and field.default is not None else ""
            flags = " ".join(s.flag for s in field.seeds)
            lines.append(f"{mark} {field.key} = {default_text(field)}{unit}   {flags}".rstrip())
            lines.append(f"      {field.doc}")
            if field.default is None and field.auto:
                lines.append(f"      auto: {field.auto}")
    return "\n".join(lines).lstrip("\n")
