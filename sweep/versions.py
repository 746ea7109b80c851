"""Engine versions as numbers that compare."""

from __future__ import annotations

import re

_VERSION = re.compile(r"(?<![\d.])(\d+)\.(\d+)(?:\.(\d+))?")
_DATE = re.compile(r"(?<!\d)(20\d\d)-(\d\d)(?:-\d\d)?(?!\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAME = re.compile(rf"\b({'|'.join(_MONTHS)})[a-z]*\.? +(20\d\d)\b", re.IGNORECASE)

VLLM_RELEASES = (
    (2023, 6, 100),
    (2023, 9, 200),
    (2023, 12, 206),
    (2024, 1, 300),
    (2024, 3, 303),
    (2024, 4, 401),
    (2024, 6, 500),
    (2024, 7, 503),
    (2024, 8, 505),
    (2024, 9, 602),
    (2024, 10, 603),
    (2024, 11, 604),
    (2024, 12, 606),
    (2025, 1, 700),
    (2025, 2, 703),
    (2025, 3, 802),
    (2025, 4, 805),
    (2025, 5, 900),
    (2025, 6, 901),
    (2025, 7, 1000),
    (2025, 8, 1001),
    (2025, 9, 1002),
    (2025, 10, 1100),
)
"""Newest vLLM release of a month (GitHub releases of vllm-project/vllm): engine logs often carry a date alone."""


def encode_version(text: str | None, engine: str = "vllm") -> float | None:
    """major * 10000 + minor * 100 + patch of the first version in `text`.

    A text that has a date instead ("2025-07", "Dec 2023") means vLLM's newest release of that month. None where
    neither is there, or the date lies beyond the releases known (nightly, unknown).
    """
    match = _VERSION.search(text or "")
    if match is None:
        return _release_of(text or "") if engine == "vllm" else None
    major, minor, patch = (int(part or 0) for part in match.groups())
    if major > 99 or minor > 99 or patch > 99:
        return None
    return float(major * 10000 + minor * 100 + patch)


def _release_of(text: str) -> float | None:
    """vLLM's newest release in the month that `text` names."""
    date = _DATE.search(text)
    if date is not None:
        month = (int(date[1]), int(date[2]))
    else:
        named = _MONTH_NAME.search(text)
        if named is None:
            return None
        month = (int(named[2]), _MONTHS.index(named[1].lower()) + 1)
    last_year, last_month, _ = VLLM_RELEASES[-1]
    if month > (last_year, last_month):
        return None
    past = [release for year, number, release in VLLM_RELEASES if (year, number) <= month]
    return float(past[-1]) if past else None
