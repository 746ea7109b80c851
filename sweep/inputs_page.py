"""The list of inputs, from the registry: as rows for programs and as a page for people."""

from __future__ import annotations

from typing import Any

from sweep.fields import SAME, Field
from sweep.fields.check import allowed
from sweep.fields.columns import in_words
from sweep.schema import ALL_FIELDS

TITLE = "# Inputs"
PREFACE = """\
Every input of the model, by the question that it answers. Each is a key of the Hydra tree
(`servesweep group.field=value`, a list or `range()` sweeps it) and, where the compatible command lines know it, a flag
of `servesweep estimate` (`simulate` for those of `serving`). Auto means that it is not given; the rule is in italics. \u2691 marks the inputs that
change an answer most often. Inputs that cannot matter in a run are reported as inert in its manifest. In the column "moves",
*speed* stands for latency, step times, throughput, cost and energy, and *everything* for those and memory.

This page is generated: `servesweep flags --markdown > docs/inputs.md`."""


def rows() -> list[dict[str, Any]]:
    """One object per input: key, flags, type, unit, default, choices, what it moves, one sentence."""
    return [_row(field) for field in ALL_FIELDS]


def _row(field: Field) -> dict[str, Any]:
    flags = [
        {"seed": s.spec, "flag": s.flag, "default": field.default if s.default is SAME else s.default}
        for s in field.seeds
    ]
    return {
        "key": field.key,
        "flags": flags,
        "question": field.question,
        "type": field.kind,
        "unit": field.unit,
        "default": field.default,
        "auto": field.auto,
        "choices": list(field.choices),
        "allowed": allowed(field),
        "scope": field.scope,
        "often_changes_the_answer": field.regime,
        "moves": list(field.moves),
        "doc": field.doc,
    }


def by_question() -> dict[str, list[Field]]:
    """Fields by the question they answer, in the order of the registry."""
    questions: dict[str, list[Field]] = {}
    for field in ALL_FIELDS:
        questions.setdefault(field.question, []).append(field)
    return questions


def default_text(field: Field) -> str:
    """A field's default in words: the value with its unit, or auto."""
    if field.default is None:
        return "auto"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    if field.default == "":
        return "empty"
    return f"{field.default:g}" if isinstance(field.default, float) else str(field.default)


def markdown() -> str:
    """The page docs/inputs.md."""
    lines = [TITLE, "", PREFACE, ""]
    for question, fields in by_question().items():
        lines += [f"## {question}", "", "| key | meaning | unit | default | moves | flags |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [_line(field) for field in fields]
        lines.append("")
    return "\n".join(lines)


def _line(field: Field) -> str:
    meaning = field.doc
    if field.choices and len(field.choices) <= 8:
        meaning += f" ({', '.join(field.choices)})"
    default = default_text(field) if field.default is not None else f"auto: *{field.auto}*"
    flags = ", ".join(f"`{s.flag}`" for s in field.seeds)
    mark = "\u2691 " if field.regime else ""
    cells = (f"{mark}`{field.key}`", meaning, field.unit, default, in_words(field.moves), flags)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
