"""Times of a trace: numbers in some unit, or dates; always nanoseconds inside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from sweep.errors import UserError
from sweep.traces.requests import MAX_NS

NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds of each unit a column may have."""
_SPELLED = {
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "second": "s",
    "millis": "ms",
    "msec": "ms",
    "micros": "us",
}
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:?\d\d)?")
_UNIX_SINCE_NS = 10**18
"""Numbers from here on (September 2001, in ns) are dates; smaller ones count from the start of the trace."""


@dataclass(frozen=True)
class Clock:
    """How a column tells time: `unit_ns` nanoseconds per number, or 0 for dates written as `layout`."""

    unit_ns: int
    layout: str = ""
    absolute: bool = False
    guessed: bool = False


def clock_of(name: str, value: object, unit: str = "", usual: str = "") -> Clock:
    """The clock of a column from its name, its first value, a stated unit, or the usual unit of such files.

    Raises ValueError where the value is no time. Unix times are told by their size.
    """
    if isinstance(value, str) and (date := _DATE.fullmatch(value.strip())):
        separator = value.strip()[10]
        zone = "" if date[4] is None else "Z" if date[4] == "Z" else "%z"
        return Clock(0, f"%Y-%m-%d{separator}%H:%M:%S%.f{zone}", absolute=True)
    number = abs(float(value))  # type: ignore[arg-type]
    if not np.isfinite(number):
        raise ValueError(value)
    stated = unit or _unit_in(name)
    if stated:
        return Clock(NS[stated], absolute=number * NS[stated] >= _UNIX_SINCE_NS)
    for scale in NS.values():
        if _UNIX_SINCE_NS <= number * scale < 4 * _UNIX_SINCE_NS:
            return Clock(scale, absolute=True)
    return Clock(NS[usual or "ms"], guessed=not usual)


def _unit_in(name: str) -> str:
    last = re.split(r"[^a-z]+", name.lower().rstrip(")] "))[-1]
    last = _SPELLED.get(last, last)
    return last if last in NS and last != name.lower() else ""


def unit(text: str) -> str:
    """A unit of time as written in a column mapping. Raises UserError."""
    known = _SPELLED.get(text, text)
    if known not in NS:
        raise UserError("unknown unit of time", field="columns", value=text, allowed=", ".join(NS))
    return known


def one_time(clock: Clock, value: object) -> int:
    """One time in ns. Raises ValueError with the reason."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a time")
    if clock.unit_ns == 0:
        ns = _date_ns(str(value).strip())
    elif isinstance(value, int):
        ns = value * clock.unit_ns
    else:
        ns = _number_ns(value, clock.unit_ns)
    if ns < 0:
        raise ValueError("negative time")
    if ns > MAX_NS:
        raise ValueError("too far in the future")
    return ns


def _number_ns(value: float | str, unit_ns: int) -> int:
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and re.fullmatch(r"[+-]?\d{1,30}", text):
        return int(text) * unit_ns
    try:
        number = float(text) * unit_ns
    except ValueError:
        raise ValueError("not a time") from None
    if not np.isfinite(number):
        raise ValueError("not a time")
    return round(number)


def _date_ns(text: str) -> int:
    date = _DATE.fullmatch(text)
    if date is None:
        raise ValueError("not a date")
    zone = (date[4] or "Z").replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{date[1]}T{date[2]}{zone}")
    except ValueError:
        raise ValueError("not a date") from None
    seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * NS["s"] + int((date[3] or "0").ljust(9, "0"))


def times(clock: Clock, column: pl.Series) -> pl.Series:
    """A column of strings or numbers as Int64 ns; null where a value is no time or out of range."""
    if clock.unit_ns == 0:
        moment = column.str.to_datetime(clock.layout, time_unit="ns", strict=False)
        out = moment.to_physical()
    elif column.dtype == pl.Int64:
        out = _scaled(column, clock.unit_ns)
    elif column.dtype == pl.String:
        whole = column.cast(pl.Int64, strict=False)
        out = _scaled(whole, clock.unit_ns)
        if whole.null_count() > column.null_count():
            out = out.zip_with(
                whole.is_not_null(), _rounded(column.cast(pl.Float64, strict=False), clock.unit_ns)
            )
    else:
        out = _rounded(column, clock.unit_ns)
    return out.set(((out < 0) | (out > MAX_NS)).fill_null(False), None)


def _scaled(whole: pl.Series, unit_ns: int) -> pl.Series:
    return whole.set(((whole < 0) | (whole > MAX_NS // unit_ns)).fill_null(False), None) * unit_ns


def _rounded(number: pl.Series, unit_ns: int) -> pl.Series:
    return (number * unit_ns).round().cast(pl.Int64, strict=False)
