"""Days and hours in UTC as whole numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from sweep.traces.summary import HOUR_NS

DAY_NS = 24 * HOUR_NS
EPOCH = date(1970, 1, 1)


def start_ns(day: date) -> int:
    """Midnight at the start of `day`, ns since 1970."""
    return (day - EPOCH).days * DAY_NS


def day_of(ns: int) -> date:
    """The day in which a time lies."""
    return EPOCH + timedelta(days=ns // DAY_NS)


def clock(ns: int) -> str:
    """`2026-03-29 18:04:11`."""
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def yesterday() -> date:
    """The day before today, UTC."""
    return datetime.now(UTC).date() - timedelta(days=1)
