"""Tonight's plan against the one that was last told to people: is the difference worth telling?

A slow drift of a few percent a night adds up, so the comparison is with the last *announced* plan, not with last night's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from sweep.errors import EXIT_NO_ANSWER
from sweep.nightly.plan import NO_ANSWER, PLANNED

EXIT_UNCHANGED, EXIT_CHANGED = 0, 10


def compared(
    one: Mapping[str, Any], before: tuple[date, Mapping[str, Any]] | None, threshold: float, first_night: bool
) -> dict[str, Any]:
    """What to add to a model's part of plan.json: `changed`, `announced`, and why, in words."""
    if one["status"] != PLANNED:
        return {"changed": False, "announced": False, "change": one["reason"], "compared_with": None}
    if before is None:
        change = "first plan" if first_night else "a model without a plan before"
        return {"changed": not first_night, "announced": True, "change": change, "compared_with": None}
    night, old = before
    reasons = differences(one, old, threshold)
    changed = bool(reasons)
    if not changed:
        reasons = [_within(one["answer"], old["answer"], threshold)]
    return {
        "changed": changed,
        "announced": changed,
        "change": "; ".join(reasons),
        "compared_with": {
            "night": night.isoformat(),
            **{k: old["answer"][k] for k in ("plan", "gpus", "usd_per_hour")},
        },
    }


def differences(new: Mapping[str, Any], old: Mapping[str, Any], threshold: float) -> list[str]:
    """The differences beyond the threshold. GPUs of different accelerators do not compare; their cost does."""
    a, b = old["answer"], new["answer"]
    found = []
    usd = relative(a["usd_per_hour"], b["usd_per_hour"])
    gpus = relative(a["gpus"], b["gpus"]) if a["hardware"] == b["hardware"] or usd is None else None
    if gpus is not None and abs(gpus) > threshold:
        found.append(f"{a['gpus']:,} to {b['gpus']:,} GPUs ({gpus:+.0%})")
    if usd is not None and abs(usd) > threshold:
        found.append(f"${a['usd_per_hour']:,.2f} to ${b['usd_per_hour']:,.2f} per hour ({usd:+.0%})")
    load = new.get("announced_fleet_load")
    if load is not None and load > 1.0 + threshold:
        found.append(f"the announced fleet carries {1.0 / load:.0%} of the planned load")
    return found


def _within(new: Mapping[str, Any], old: Mapping[str, Any], threshold: float) -> str:
    if new["plan"] == old["plan"]:
        return "the same plan"
    return f"a different plan within the threshold of {threshold:.0%}"


def relative(old: float | None, new: float | None) -> float | None:
    """Change as a share of the old value; None where either is unknown or the old one is 0."""
    return None if old is None or new is None or old == 0 else (new - old) / old


def exit_status(models: Sequence[Mapping[str, Any]]) -> int:
    """3 where a model with traffic has no plan, else 10 where a plan changed, else 0."""
    if any(one["status"] == NO_ANSWER for one in models):
        return EXIT_NO_ANSWER
    return EXIT_CHANGED if any(one["changed"] for one in models) else EXIT_UNCHANGED
