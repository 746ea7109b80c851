"""Checking one value against its field."""

from __future__ import annotations

import math

from kernels.dtypes import NAMES as DTYPES
from sweep.errors import UserError, nearest
from sweep.fields.dtype_names import canonical, spellings
from sweep.fields.spec import Field

AUTO_WORDS = frozenset({"", "auto", "none", "null", "~"})
TRUE_WORDS = frozenset({"true", "1", "yes", "on"})
FALSE_WORDS = frozenset({"false", "0", "no", "off"})


def allowed(field: Field) -> str:
    """What a field takes, in words."""
    if field.kind == "choice":
        return ", ".join(field.choices)
    if field.kind == "bool":
        return "true or false"
    if field.kind in ("int", "float"):
        kind = "a whole number" if field.kind == "int" else "a number"
        low = "" if field.low is None else f" {'above' if field.low_open else 'from'} {field.low:g}"
        high = "" if field.high is None else f" to {field.high:g}"
        unit = f" ({field.unit})" if field.unit else ""
        return f"{kind}{low}{high}{unit}"
    return "text"


def check(field: Field, value: object, *, file: str | None = None, line: int | None = None) -> object:
    """The value as the field stores it; None for auto.

    Raises `UserError` naming file, line, field, value and what is allowed.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return field.default if field.default is not None else None
    if (
        isinstance(value, str)
        and value.strip().lower() in AUTO_WORDS
        and field.kind not in ("text", "path", "list")
    ):
        return _auto(field, value, file, line)
    if field.kind == "choice":
        return _choice(field, value, file, line)
    if field.kind == "bool":
        return _bool(field, value, file, line)
    if field.kind in ("int", "float"):
        return _number(field, value, file, line)
    return value if field.kind == "list" else str(value)


def _wrong(
    field: Field,
    value: object,
    message: str,
    file: str | None,
    line: int | None,
    near: list[str] | None = None,
) -> UserError:
    return UserError(
        message, file=file, line=line, field=field.key, value=value, allowed=allowed(field), near=near or []
    )


def _auto(field: Field, value: object, file: str | None, line: int | None) -> object:
    if field.default is None:
        return None
    if str(value).strip() == "" or "auto" in field.choices:
        return field.default
    raise _wrong(field, value, "has no automatic value", file, line)


def _choice(field: Field, value: object, file: str | None, line: int | None) -> str:
    text = str(value).strip()
    if text in field.choices:
        return text
    if field.choices == DTYPES:
        known = canonical(text)
        if known is not None:
            return known
        raise _wrong(field, value, "unknown number format", file, line, nearest(text, spellings()))
    folded = {c.casefold(): c for c in field.choices}
    if text.casefold() in folded:
        return folded[text.casefold()]
    raise _wrong(field, value, "not one of the choices", file, line, nearest(text, field.choices))


def _bool(field: Field, value: object, file: str | None, line: int | None) -> bool:
    word = str(value).strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise _wrong(field, value, "not a yes or no", file, line)


def _number(field: Field, value: object, file: str | None, line: int | None) -> float | int:
    if isinstance(value, bool):
        raise _wrong(field, value, "not a number", file, line)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise _wrong(field, value, "not a number", file, line) from None
    if not math.isfinite(number):
        raise _wrong(field, value, "not a finite number", file, line)
    if field.kind == "int" and number != int(number):
        raise _wrong(field, value, "not a whole number", file, line)
    below = field.low is not None and (number < field.low or (field.low_open and number == field.low))
    if below or (field.high is not None and number > field.high):
        raise _wrong(field, value, "out of range", file, line)
    return int(number) if field.kind == "int" else number
