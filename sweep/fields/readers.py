"""Which verb reads which keys, where not every verb does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TRACE_KEYS = ("workload.trace", "workload.columns", "workload.on_bad_line")
"""A trace, and how it is read, which is of no use without one."""
READERS: Mapping[str, tuple[str, ...]] = {
    "bench": ("estimate",),
    "demand": ("plan", "nightly"),
    "des.top": ("sweep", "search"),
    "executor": ("sweep", "search"),
    "experiment": ("estimate",),
    "fidelity.anchors": ("sweep", "search", "estimate"),
    "fidelity.decode_floor_benchmark": ("estimate",),
    "fidelity.load_benchmark": ("sweep", "search", "estimate"),
    "fidelity.load_benchmark_scaling": ("estimate",),
    "fidelity.operator_profiles": ("estimate",),
    "fidelity.profiling_mode": ("estimate",),
    "grid": ("sweep", "search", "plan", "nightly", "export"),
    "job": ("nightly",),
    "output": ("sweep", "search", "plan"),
    "output.keep": ("sweep", "search"),
    "output.report": ("sweep", "search", "plan", "nightly"),
    "output.top": ("sweep", "search"),
    "search": ("search",),
    "serving": ("simulate",),
    **dict.fromkeys(TRACE_KEYS, ("sweep", "search", "plan")),
}
"""A key, or a group for all its keys -> the verbs that read it. What is not listed describes a deployment or its load,
which every verb reads; of two entries the longer counts."""


def needs_verb(key: str, verb: str) -> str | None:
    """The verbs that read `key` instead, as a person types them; None where `verb` reads it."""
    group = key.split(".", 1)[0]
    readers = READERS.get(key) or READERS.get(group)
    if readers is None or verb in readers:
        return None
    return "servesweep " + " or ".join(readers)


def unread(keys: Iterable[str], verb: str) -> dict[str, str]:
    """Those of `keys` that `verb` does not read, and the verbs that do."""
    found = {key: needs_verb(key, verb) for key in keys}
    return {key: needs for key, needs in found.items() if needs}


def keys_of(overrides: Iterable[str]) -> list[str]:
    """The keys of overrides, each once: `demand.spare` of `demand.spare=1`."""
    return list(dict.fromkeys(line.split("=", 1)[0].strip().lstrip("+~") for line in overrides))
