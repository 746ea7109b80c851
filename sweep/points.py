"""`servesweep points IN OUT`: a table of deployments in, a table of estimates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from kernels.layout import BOUND_NAMES
from kernels.reasons import KV_BELOW_ONE_REQUEST, OK, WEIGHTS_DO_NOT_FIT
from kernels.reasons import TEXT as REASONS
from sweep.errors import UserError
from sweep.evaluation import Evaluated, evaluate
from sweep.fidelity import base_of, coefficients_for
from sweep.files import check_target
from sweep.intervals import bounds_of, interval_of, is_inside, narrowed
from sweep.point_rows import ALIASES, COLUMNS, INPUTS, Place, build_records, is_start_up_log, place_of
from sweep.results import BOUNDS
from sweep.table_io import read_table, tell, write_table

MEMORY_REASONS = (WEIGHTS_DO_NOT_FIT, KV_BELOW_ONE_REQUEST)


def _with_lengths_that_fit(
    frame: pl.DataFrame, records: npt.NDArray[Any], evaluated: Evaluated
) -> npt.NDArray[Any]:
    """The records without an assumed length of which not one request fits: that engine ran with a shorter one."""
    if "max_model_len" not in frame.columns:
        return records
    too_long = frame["max_model_len"].is_null().to_numpy() & (
        evaluated.results["reason"] == KV_BELOW_ONE_REQUEST
    )
    shorter = records.copy()
    shorter["max_model_len"][too_long] = np.nan
    return shorter


OUT_COLUMNS = (
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "output_tok_s_per_gpu",
    "total_tok_s_per_gpu",
    "weights_gib_per_gpu",
    "kv_capacity_tokens",
    "kv_capacity_tokens_total",
    "max_concurrency",
    "usd_per_m_input",
    "usd_per_m_output",
    "usd_per_m_total",
)


def price_points(
    frame: pl.DataFrame,
    fidelity: str = "fitted",
    anchors: PointCorrector | None = None,
    simulated: PointSimulator | None = None,
) -> pl.DataFrame:
    """Estimates for a table of deployments (columns of the design's section 9), one output row per input row.

    A row with an impossible value has status `invalid` and its reason; one that cannot run `infeasible`. A start-up
    log asks for the memory account alone: its rows are `ok` with the verdict as reason, and no latency where it is no.
    `anchors` (sweep.anchors) scales what measured points of a row's regime say something about. `simulated`
    (sweep.simulate.points) answers rows request by request instead and adds percentiles.
    """
    if fidelity == "anchored" and anchors is None:
        raise UserError("needs measured points: --anchor-store", field="fidelity", value=fidelity)
    if frame.height == 0:
        raise UserError("has no rows")
    if "id" not in frame.columns:
        frame = frame.with_row_index("id")
    records, errors = build_records(frame)
    invalid = np.array([bool(e) for e in errors])
    fitted = coefficients_for(base_of(fidelity))
    log = is_start_up_log(frame)
    if log:
        records = _with_lengths_that_fit(frame, records, evaluate(records, fitted))
    evaluated = evaluate(records, fitted)
    results = evaluated.results
    places = [
        None if error else place_of(row)
        for error, row in zip(errors, frame.iter_rows(named=True), strict=True)
    ]
    runs = (results["reason"] == OK) & ~invalid & (not log)
    further = simulated(records, evaluated, fitted, runs) if simulated else {}
    weights = anchors.correct(places, records, evaluated) if anchors else None
    reason_codes = results["reason"].astype(int)
    reasons = [error or REASONS[code] for error, code in zip(errors, reason_codes, strict=True)]
    answered = (reason_codes == OK) | (log & np.isin(reason_codes, MEMORY_REASONS))
    status = np.where(invalid, "invalid", np.where(answered, "ok", "infeasible"))
    columns: dict[str, object] = {"id": frame["id"], "status": status, "reason": reasons}
    for name in OUT_COLUMNS:
        column = np.where(invalid, np.nan, results[name])
        columns[name] = pl.Series(column, nan_to_null=True)
    columns |= _intervals(places, records["disaggregate"] > 0.0, results, status, fidelity, weights)
    columns["weights_gib"] = columns["weights_gib_per_gpu"]
    columns["over_ceiling"] = np.where(invalid, False, results["over_ceiling"] > 0)
    bound = results["bound"]
    columns["bound"] = [None if np.isnan(b) else BOUND_NAMES[int(b)] for b in bound]
    return pl.DataFrame(columns | dict(further))


class PointSimulator(Protocol):
    """What `sweep.simulate.points` gives: answers the marked rows in place, returns further columns."""

    def __call__(
        self,
        records: npt.NDArray[Any],
        evaluated: Evaluated,
        fitted: npt.NDArray[np.float64],
        rows: npt.NDArray[np.bool_],
        /,
    ) -> Mapping[str, list[Any]]: ...


class PointCorrector(Protocol):
    """What `sweep.anchors.points` gives: scales results in place, tells the weight of each row's correction."""

    def correct(
        self, places: Sequence[Place | None], records: npt.NDArray[Any], evaluated: Evaluated
    ) -> Mapping[str, npt.NDArray[np.float64]]: ...


def _intervals(
    places: Sequence[Place | None],
    pooled: npt.NDArray[np.bool_],
    results: npt.NDArray[Any],
    status: npt.NDArray[np.str_],
    fidelity: str,
    weights: Mapping[str, npt.NDArray[np.float64]] | None,
) -> dict[str, object]:
    """p10 and p90 of each estimate of latency, and the evidence behind it."""
    bounds: dict[str, list[float | None]] = {column.name: [None] * len(places) for column in BOUNDS}
    evidence: list[str | None] = [None] * len(places)
    inside = is_inside(results["doublings_from_measured"])
    for i, place in enumerate(places):
        if status[i] != "ok" or place is None:
            continue
        found = interval_of(*place, fidelity, bool(pooled[i]), bool(inside[i]))
        if weights is not None:
            found = narrowed(found, weights["ttft_ms"][i], weights["tpot_ms"][i])
        evidence[i] = found.support
        for name, bound in bounds_of(found, results["ttft_ms"][i], results["tpot_ms"][i]).items():
            bounds[name][i] = bound
    columns = {name: pl.Series(values, dtype=pl.Float64).fill_nan(None) for name, values in bounds.items()}
    return {**columns, "evidence": evidence}


def run(
    source: Path,
    target: Path,
    fidelity: str = "fitted",
    anchors: PointCorrector | None = None,
    simulated: PointSimulator | None = None,
) -> int:
    """The verb: exit status 0, or 2 (by `UserError`) where no row could be priced."""
    check_target(target, "OUT")
    frame = read_table(source)
    if target.exists() and target.samefile(source):
        raise UserError("is the table that is read", file=str(target))
    try:
        out = price_points(frame, fidelity, anchors, simulated)
    except UserError as error:
        raise error.located(str(source), None) from None
    if (out["status"] == "invalid").all():
        raise UserError(f"no row could be priced; the first: {out['reason'][0]}", file=str(source))
    tell("points", source, frame, COLUMNS, ALIASES, INPUTS)
    write_table(out, target)
    return 0
