"""Synthetic traffic from and to the configuration's `workload` and `des` groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweep.errors import UserError
from sweep.traces.synthetic import Traffic

_WORKLOAD = {
    "process": "arrival",
    "burstiness": "burstiness",
    "pulse_requests": "pulse_requests",
    "pulse_delay_s": "pulse_delay_s",
    "distribution": "lengths",
    "isl": "isl",
    "osl": "osl",
    "length_range": "length_range",
    "isl_sigma": "isl_sigma",
    "osl_sigma": "osl_sigma",
    "length_correlation": "length_correlation",
    "max_tokens": "longest_tokens",
}
_DES = {
    "n_requests": "num_requests",
    "n_prefixes": "num_prefixes",
    "prefix_tokens": "prefix_len",
    "prefix_zipf": "prefix_zipf",
    "block_tokens": "prefix_block_size",
    "seed": "seed",
}


def traffic_of(settings: Mapping[str, Any]) -> Traffic:
    """The traffic that settings by Hydra key describe (`workload.isl`, `des.seed`, ...); missing ones take defaults.

    Only `load=rate` has a rate: closed loops, saturation and static batches offer everything at once.
    """
    given: dict[str, Any] = {name: settings.get(f"workload.{key}") for name, key in _WORKLOAD.items()}
    given |= {name: settings.get(f"des.{key}") for name, key in _DES.items()}
    given = {name: value for name, value in given.items() if value is not None}
    if settings.get("workload.load") == "rate":
        given["rate_per_s"] = float(settings.get("workload.request_rate") or 0.0)
        given["hourly_rates"] = rates(settings.get("workload.hourly_rates"))
    return Traffic(**given)


def rates(text: object) -> tuple[float, ...]:
    """Numbers separated by spaces. Raises UserError."""
    try:
        return tuple(float(word) for word in str(text or "").replace(",", " ").split())
    except ValueError:
        raise UserError(
            "not numbers", field="workload.hourly_rates", value=text, allowed="requests/s of each hour"
        ) from None


def as_workload(traffic: Traffic, name: str) -> dict[str, Any]:
    """The keys of a `workload` group that describe `traffic`."""
    out: dict[str, Any] = {"name": name, "load": "rate", "request_rate": _short(traffic.rate_per_s)}
    for attribute, key in _WORKLOAD.items():
        out[key] = _short(getattr(traffic, attribute))
    out["isl"], out["osl"] = round(traffic.isl), round(traffic.osl)
    if traffic.process != "pulse":
        del out["pulse_requests"], out["pulse_delay_s"]
    if traffic.distribution != "lognormal":
        del out["isl_sigma"], out["osl_sigma"], out["length_correlation"], out["longest_tokens"]
    if traffic.hourly_rates:
        out["hourly_rates"] = " ".join(f"{rate:.6g}" for rate in traffic.hourly_rates)
    return out


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
