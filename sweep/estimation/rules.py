"""From given values to one deployment: conversions between the two command lines, and contradictions by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.bounded import no_file
from sweep.errors import UserError
from sweep.estimation.given import RANKS_OF_TP, Given, alias_defaults, last_of_each, value_of
from sweep.fields.disagg import FIELDS as DISAGG
from sweep.schema import field_by_key

SPAN = ("host.prefill_rate_us_per_token", "host.prefill_rate_lo_tokens", "host.prefill_rate_hi_tokens")
SPAN_FLAGS = ("--prefill-rate-us-per-token", "--prefill-rate-lo-tokens", "--prefill-rate-hi-tokens")
ANCHORS = ("anchors", "load_benchmark", "load_benchmark_scaling", "decode_floor_benchmark")
OWN_ANCHORS = ANCHORS[:2]
OPEN_ARRIVALS = ("poisson", "deterministic")
AMD = ("mi", "gfx", "instinct", "amd")


@dataclass(frozen=True)
class Deployment:
    """Checked values by Hydra key, the names under which they were given by hand, and what the tool should be told."""

    model: str
    hardware: str
    values: Mapping[str, Any]
    by_hand: Mapping[str, str]
    notes: tuple[str, ...] = ()
    simulate: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Run settings (inference mode, calibration, ...) by key."""


def deployment(givens: Iterable[Given], notes: Iterable[str] = ()) -> Deployment:
    """The deployment that `givens` (weakest first) describe.

    Raises UserError for a value that its field does not take and for contradictions.
    """
    last = last_of_each([*alias_defaults(), *givens])
    model, hardware = _named(last, "model.name", "--model"), _named(last, "hardware.name", "--hardware")
    amd = hardware.lower().startswith(AMD)
    values = {key: value_of(given, amd=amd) for key, given in last.items()}
    by_hand = {key: given.written for key, given in last.items() if given.written != "default"}
    values = {key: value for key, value in values.items() if value is not None}
    _split_tp(values, last)
    simulate = _load(values, by_hand)
    _refuse_half_a_prefill_rate(values)
    _refuse_pools_without_disaggregation(values, by_hand)
    _refuse_absent_anchors(values, by_hand)
    if "workload.trace" in values:
        from sweep.traces.source import present

        present(values["workload.trace"])
    settings = {k: v for k, v in values.items() if field_by_key()[k].scope == "run"}
    deployed = {k: v for k, v in values.items() if k not in settings}
    return Deployment(model, hardware, deployed, by_hand, tuple(notes), simulate, settings)


def _named(last: dict[str, Given], key: str, option: str) -> str:
    if key not in last or not str(last[key].value).strip():
        what = "model" if key == "model.name" else "accelerator"
        raise UserError(f"which {what}? give {option} NAME")
    return str(last.pop(key).value)


def _split_tp(values: dict[str, Any], last: Mapping[str, Given]) -> None:
    """TP of the compatible tool is that of tp x attention_dp GPUs: attention DP given as its flag divides it."""
    for prefix, tp_key, dp_key, tp_flag, dp_flag in (
        ("", "parallelism.tp", "parallelism.attention_dp", "--tp", RANKS_OF_TP),
        (
            "prefill_",
            "disagg.prefill_tp",
            "disagg.prefill_attention_dp",
            "--prefill-tp",
            "--prefill-attention-dp",
        ),
        ("decode_", "disagg.decode_tp", "disagg.decode_attention_dp", "--decode-tp", "--decode-attention-dp"),
    ):
        given = last.get(dp_key)
        if given is None or given.seed is None or given.seed.flag != dp_flag:
            continue
        group = values.get(tp_key, values.get("parallelism.tp", 1) if prefix else 1)
        ranks = values.get(dp_key, 1)
        if group % ranks:
            raise UserError(f"does not divide {tp_flag} {group}", field=dp_flag, value=ranks)
        values[tp_key] = group // ranks


def _load(values: dict[str, Any], by_hand: Mapping[str, str]) -> bool:
    """How load is offered; whether the simulator is asked for."""
    rate = values.get("workload.request_rate", 0.0)
    arrival_given = "workload.arrival" in by_hand
    arrival = values.get("workload.arrival")
    replayed = any(values.get(f"des.{name}") for name in ("workload_file", "mooncake_trace"))
    if rate > 0.0 and arrival_given and arrival is None:
        raise UserError(
            "a rate needs arrivals that are not a closed loop",
            field="--request-rate",
            value=rate,
            allowed="--arrival-model poisson or deterministic",
        )
    if values.get("workload.load") == "static" and "workload.concurrency" not in by_hand:
        values.setdefault("workload.inference_batch_size", 1)
    if rate > 0.0:
        if values.get("workload.load") == "static":
            raise UserError("a static batch has no arrivals", field="--request-rate", value=rate)
        values["workload.load"] = "rate"
    return replayed or (rate > 0.0 and arrival in OPEN_ARRIVALS and arrival_given)


def _refuse_half_a_prefill_rate(values: Mapping[str, Any]) -> None:
    given = [key in values for key in SPAN]
    if not any(given):
        return
    if not all(given):
        missing = ", ".join(flag for flag, there in zip(SPAN_FLAGS, given, strict=True) if not there)
        raise UserError(
            f"a measured prefill rate and the span it was fitted over go together: {missing} missing"
        )
    low, high = values[SPAN[1]], values[SPAN[2]]
    if high <= low:
        raise UserError(f"is not above {SPAN_FLAGS[1]} {low}", field=SPAN_FLAGS[2], value=high)


def _refuse_pools_without_disaggregation(values: Mapping[str, Any], by_hand: Mapping[str, str]) -> None:
    if values.get("disagg.disaggregate"):
        return
    given = [by_hand[f.key] for f in DISAGG if f.key in by_hand and f.key != "disagg.disaggregate"]
    if given:
        raise UserError(f"{given[0].split('=')[0]} means nothing without --disaggregate")


def _refuse_absent_anchors(values: Mapping[str, Any], by_hand: Mapping[str, str]) -> None:
    """Every artifact must be there, and those that only add to one need it."""
    given = [name for name in ANCHORS if values.get(f"fidelity.{name}")]
    for name in given:
        written = by_hand[f"fidelity.{name}"].split("=")[0]
        for path in str(values[f"fidelity.{name}"]).split(","):
            file = Path(path.strip())
            if not file.is_dir() and (told := no_file(file)):
                raise UserError(told, field=written, value=file)
        if name not in OWN_ANCHORS and not set(OWN_ANCHORS) & set(given):
            raise UserError(f"{written} adds to an anchor: give --anchor-store or --load-benchmark too")
