"""Engine versions as numbers that compare."""

from __future__ import annotations

import re

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def encode_version(text: str | None) -> float | None:
    """major * 10000 + minor * 100 + patch of the first version in `text`; None where there is none (nightly, unknown)."""
    match = _VERSION.search(text or "")
    if match is None:
        return None
    major, minor, patch = (int(part or 0) for part in match.groups())
    if major > 99 or minor > 99 or patch > 99:
        return None
    return float(major * 10000 + minor * 100 + patch)
