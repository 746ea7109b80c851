"""Validation of one value against its field: the same words for a YAML file, an override and a flag."""

from __future__ import annotations

import math
from typing import Any

from sweep.errors import UserError, nearest
from sweep.fields.dtype_names import canonical, spellings
from sweep.fields.spec import Field

TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")
AUTO = ("", "auto", "null", "none")
LARGEST, SMALLEST = {"int": 2.0**40, "float": 1e12}, 1e-9
"""Beyond these a field without bounds of its own means nothing, and sums and quotients of such numbers overflow."""


def checked(field: Field, value: Any, *, file: str | None = None, line: int | None = None) -> Any:
    """`value` as the field's own type (None for auto), or a UserError that says what is allowed."""
    try:
        return _typed(field, value)
    except UserError as error:
        raise error.located(file, line) from None


def _typed(field: Field, value: Any) -> Any:
    if value is None or (isinstance(value, str) and value.strip().lower() in AUTO):
        return _auto(field, value)
    if field.kind in ("int", "float"):
        return _number(field, value)
    if field.kind == "bool":
        return _bool(field, value)
    if field.kind == "choice":
        return _choice(field, value)
    return value if field.kind == "list" else str(value)


def allowed(field: Field) -> str:
    """What a field accepts, in words."""
    if field.kind == "choice":
        words = ", ".join(field.choices)
    elif field.kind == "bool":
        words = "true or false"
    elif field.kind in ("int", "float"):
        words = ("whole number" if field.kind == "int" else "number") + _bounds(field)
    else:
        words = "text"
    return words + (" or null (auto)" if field.default is None else "")


def _bounds(field: Field) -> str:
    low = "" if field.low is None else f" {'>' if field.low_open else '>='} {field.low:g}"
    high = "" if field.high is None else f"{' and' if low else ''} <= {field.high:g}"
    return low + high


def _wrong(field: Field, value: Any, message: str) -> UserError:
    names = spellings() if _is_format(field) else field.choices
    near = nearest(str(value), names) if field.kind == "choice" else ()
    return UserError(message, field=field.key, value=value, allowed=allowed(field), near=near)


def _auto(field: Field, value: Any) -> Any:
    if field.kind in ("text", "path"):
        return None if field.default is None or value is None else str(value)
    if field.kind == "choice" and isinstance(value, str) and value.strip().lower() in field.choices:
        return value.strip().lower()
    if field.default is not None:
        raise _wrong(field, "null" if value is None else value, "must be given")
    return None


def _number(field: Field, value: Any) -> float | int:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(field, value, "is not a number") from None
    if isinstance(value, bool) or not math.isfinite(number):
        raise _wrong(field, value, "is not a finite number")
    if field.kind == "int" and number != int(number):
        raise _wrong(field, value, "is not a whole number")
    below = field.low is not None and (number <= field.low if field.low_open else number < field.low)
    if below or (field.high is not None and number > field.high):
        raise _wrong(field, value, "is out of range")
    if field.high is None and abs(number) > LARGEST[field.kind]:
        raise _wrong(field, value, f"is beyond any sense: at most {LARGEST[field.kind]:,.0f}")
    if 0.0 < abs(number) < SMALLEST:
        raise _wrong(field, value, f"is beyond any sense: 0, or at least {SMALLEST:g}")
    return int(number) if field.kind == "int" else number


def _bool(field: Field, value: Any) -> bool:
    word = str(value).strip().lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise _wrong(field, value, "is neither true nor false")


def _is_format(field: Field) -> bool:
    """Whether a field's choices are number formats, so that their usual spellings are understood."""
    return "bfloat16" in field.choices


def _choice(field: Field, value: Any) -> str:
    word = str(value).strip()
    if _is_format(field):
        word = canonical(word) or word
    by_folded = {c.casefold(): c for c in field.choices}
    if word.casefold() not in by_folded:
        raise _wrong(field, value, "is not one of the choices")
    return by_folded[word.casefold()]
