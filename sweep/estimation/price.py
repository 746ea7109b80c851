"""The estimate of one deployment: kernel record in, typed answer out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.catalog.fitted import Source
from sweep.catalog.hardware import HardwareEntry, resolve_hardware
from sweep.catalog.models import ModelEntry, resolve_model
from sweep.catalog.prices import DEFAULT_BOOK, price_of
from sweep.compilation import announced
from sweep.coverage import coverage_values
from sweep.errors import UserError, nearest
from sweep.estimation.measured import FILE, SAVE, STORE, is_anchored
from sweep.estimation.rules import Deployment
from sweep.evaluation import Evaluated, evaluate
from sweep.fields import by_key, by_name
from sweep.fields.inert import DES, inert, of_record
from sweep.intervals import CHANGED, bounds_of, interval_of, is_inside, narrowed
from sweep.memory import MemoryAccount, account, pool_record
from sweep.records import Records, default_records, set_values

if TYPE_CHECKING:
    from sweep.estimation.anchoring import Anchoring

RUNGS = ("roofline", "fitted", "tables", "anchored")


@dataclass(frozen=True)
class Estimate:
    """Answer for one deployment: result columns (kernels.layout.RESULT_COLUMNS), memory account, what to tell."""

    model: str
    hardware: str
    engine: str
    fidelity: str
    record: Records
    results: dict[str, float]
    memory: MemoryAccount
    """Of the decode pool where pools are split."""
    prefill_memory: MemoryAccount | None
    inert: dict[str, str]
    by_hand: dict[str, str]
    notes: tuple[str, ...]
    price_notes: tuple[str, ...]
    sources: dict[str, Source]
    """Where the operator times were measured, by operator; empty under the roofline."""
    concurrency_is_ceiling: bool
    evidence: str
    """How near measurements stand: a word of `sweep.results.EVIDENCE_WORDS`."""
    bounds: dict[str, float]
    """p10 and p90 of TTFT and TPOT by column name (`sweep.results.BOUNDS`); NaN where there is none."""
    anchoring: Anchoring | None
    """What measured points did to the results; None where none were applied."""

    @property
    def reason(self) -> str:
        from kernels.reasons import TEXT

        return TEXT[int(self.results["reason"])]

    @property
    def bound(self) -> str | None:
        from kernels.layout import BOUND_NAMES

        code = self.results["bound"]
        return None if math.isnan(code) else BOUND_NAMES[int(code)]


def estimate(asked: Deployment, fidelity: str | None = None) -> Estimate:
    """Price a deployment. Raises UserError for a model, an accelerator or a fidelity that is not known."""
    profiles = asked.settings.get("fidelity.operator_profiles")
    fidelity = fidelity or asked.settings.get("fidelity.level") or ("tables" if profiles else "fitted")
    if fidelity not in RUNGS:
        raise UserError(
            "is not available for one deployment yet",
            field="--fidelity",
            value=fidelity,
            allowed=", ".join(RUNGS),
            near=nearest(fidelity, RUNGS),
        )
    model, hardware = resolve_model(asked.model), resolve_hardware(asked.hardware)
    record, notes = input_record(asked, model, hardware)
    if fidelity == "tables" and not profiles:
        raise UserError(
            "needs profile bundles: --operator-profiles DIR",
            field="--fidelity",
            value=fidelity,
            allowed="fitted",
        )
    table = _coefficients(hardware.name, _base(fidelity))
    ceiling = "workload.concurrency" not in asked.by_hand
    if is_anchored(asked.settings):
        record["prefill_rate_us_per_token"] = math.nan
    with announced():
        evaluated = evaluate(record, table)
    if ceiling and evaluated.results["max_concurrency"][0] >= 1.0:
        record["concurrency"] = sustainable_concurrency(record, evaluated)
        evaluated = evaluate(record, table)
    looked_up = _looked_up(profiles, model.name, hardware.name, record, evaluated, table) if profiles else ()
    anchoring, said = _anchored(asked, model.name, hardware.name, fidelity, record, evaluated)
    names = evaluated.results.dtype.names or ()
    engine = str(asked.values.get("engine.engine", by_key()["engine.engine"].default))
    changed = any(key in by_key() and key.startswith(CHANGED) for key in asked.by_hand)
    pooled = bool(record["disaggregate"][0] > 0.0)
    inside = bool(is_inside(evaluated.results["doublings_from_measured"][0]))
    found = interval_of("" if changed else model.name, hardware.name, engine, fidelity, pooled, inside)
    if anchoring is not None:
        found = narrowed(found, anchoring.ttft_weight, anchoring.tpot_weight)
    latencies = (float(evaluated.results[name][0]) for name in ("ttft_ms", "tpot_ms"))
    return Estimate(
        model=model.name,
        hardware=hardware.name,
        engine=engine,
        fidelity=fidelity,
        record=record,
        results={name: float(evaluated.results[name][0]) for name in names},
        memory=account(pool_record(record, "decode")),
        prefill_memory=account(pool_record(record, "prefill")) if record["disaggregate"][0] else None,
        inert=inert(of_record(record[0]), asked.by_hand, verb="estimate", read=DES if asked.simulate else ()),
        by_hand=dict(asked.by_hand),
        notes=(*asked.notes, *model.notes, *looked_up, *said),
        price_notes=tuple(notes),
        sources=_sources(record, hardware.name, engine) if fidelity in ("fitted", "anchored") else {},
        concurrency_is_ceiling=ceiling,
        evidence=found.support,
        bounds=bounds_of(found, *latencies),
        anchoring=anchoring,
    )


def _anchored(
    asked: Deployment, model: str, hardware: str, fidelity: str, record: Records, evaluated: Evaluated
) -> tuple[Anchoring | None, list[str]]:
    """Scale the results by measured points where such are given; what came of it, and what to tell."""
    if fidelity == "anchored" and not (asked.settings.get(STORE) or asked.settings.get(FILE)):
        allowed = "--anchor-store PATH or --load-benchmark FILE"
        raise UserError("needs measured points", field="--fidelity", value=fidelity, allowed=allowed)
    if not is_anchored(asked.settings):
        unwritten = asked.settings.get(SAVE)
        return None, ["--save-benchmark: nothing measured to write"] if unwritten else []
    from sweep.estimation.anchoring import Target, anchored

    return anchored(asked, Target(model, hardware, _base(fidelity), record, evaluated))


def _base(fidelity: str) -> str:
    """The rung whose coefficients price the closed form under a rung."""
    return "roofline" if fidelity == "roofline" else "fitted"


def _looked_up(
    profiles: str, model: str, hardware: str, record: Records, evaluated: Evaluated, table: Any
) -> tuple[str, ...]:
    from sweep.estimation.tables import priced_by_tables
    from sweep.fidelity import coefficients_of as of_record

    own = of_record(table, record)
    note = priced_by_tables(Path(str(profiles)), model, hardware, record, evaluated, own)
    return (note,) if note else ()


def _sources(record: Records, hardware: str, engine: str) -> dict[str, Source]:
    from sweep.estimation.sources import sources_of

    return sources_of(record, hardware, engine)


def _coefficients(hardware: str, fidelity: str) -> Any:
    from sweep.coefficients import coefficients

    return coefficients([hardware], fidelity)


def coefficients_of(result: Estimate) -> Any:
    """Coefficients (N_OPS, N_COEF) that price an estimate request by request, measured points included."""
    from sweep.fidelity import coefficients_of as of_record

    own = of_record(_coefficients(result.hardware, _base(result.fidelity)), result.record)
    if result.anchoring is None:
        return own
    from sweep.anchors.apply import scaled_coefficients

    return scaled_coefficients(own, result.anchoring.ttft_factor, result.anchoring.tpot_factor)


def input_record(asked: Deployment, model: ModelEntry, hardware: HardwareEntry) -> tuple[Records, list[str]]:
    """The kernel's record of a deployment, and notes on the price that was filled in."""
    notes: list[str] = []
    record = default_records(1)
    values = {**_columns("model", model.fields), **model.precision, **_columns("hardware", hardware.fields)}
    given = {key.rsplit(".", 1)[-1]: value for key, value in asked.values.items() if _is_column(key)}
    if "moe.router_coverage" in asked.values:
        values.update(coverage_values(asked.values["moe.router_coverage"]))
    if "usd_per_gpu_hour" not in given:
        price = price_of(DEFAULT_BOOK, hardware.name)
        values["usd_per_gpu_hour"] = price.usd_per_gpu_hour
        if price.usd_per_gpu_hour is not None:
            notes.append(f"price: {price.usd_per_gpu_hour:.2f} $/GPU-h, {price.source}")
    set_values(record[0], {**values, **given})
    record["hardware_index"] = 0.0
    return record, notes


def _columns(group: str, fields: Any) -> dict[str, object]:
    known = by_name()
    return {name: value for name, value in fields.items() if name in known and known[name].group == group}


def _is_column(key: str) -> bool:
    field = by_key().get(key)
    return field is not None and field.column


def sustainable_concurrency(record: Records, evaluated: Evaluated) -> int:
    """Requests of the longest length that the deployment decodes at once: the operating point where none is given."""
    p = record[0]
    ranks = p["attention_dp"]
    if p["disaggregate"]:
        own = p["decode_attention_dp"]
        ranks = (p["attention_dp"] if math.isnan(own) else own) * p["decode_replicas"]
    per_rank = min(float(evaluated.results["max_concurrency"][0]), _max_seqs(evaluated))
    return max(1, math.floor(per_rank)) * int(ranks)


def _max_seqs(evaluated: Evaluated) -> float:
    limit = float(evaluated.derived["max_seqs"][0])
    return limit if limit > 0.0 else math.inf
