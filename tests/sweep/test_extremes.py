"""Every number that a field accepts, at its limits: a finite answer or a reason, in every kind of deployment."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.layout import RESULT_INDEX
from kernels.reasons import NO_FINITE_ANSWER, OK
from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for
from sweep.fields.check import SMALLEST, checked
from sweep.fields.spec import Field
from sweep.records import set_values
from sweep.schema import ALL_FIELDS
from tests.deployments import evaluated, record_of

NUMBERS = tuple(f for f in ALL_FIELDS if f.column and f.kind in ("int", "float"))
DEPLOYMENTS: tuple[dict[str, object], ...] = (
    {},
    {"model": "deepseek_v3", "hardware": "b200_sxm", "tp": 8, "moe_ep": 8, "linear_dtype": "fp8"},
    {"load": "rate", "request_rate": 4.0},
    {"model": "qwen3_30b_a3b", "disaggregate": True, "prefill_replicas": 1, "decode_replicas": 1, "tp": 2},
)
CANDIDATES = (0, -1, 0.5, 1, 2, 3, 1e6, 2**31, 1e12, 2**40, SMALLEST, 1e300, np.inf, np.nan)


def accepted(field: Field) -> list[object]:
    """The field's own limits, and those candidates that it takes."""
    values: list[object] = []
    for value in (field.low, field.high, *CANDIDATES):
        try:
            values.append(checked(field, value))
        except UserError:
            continue
    return list(dict.fromkeys(values))


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=["dense", "experts", "rate", "pools"])
def test_every_accepted_number_has_a_finite_answer_or_a_reason(deployment: dict[str, object]) -> None:
    given = [(field.name, value) for field in NUMBERS for value in accepted(field)]
    records = np.repeat(record_of(**deployment), len(given))
    for record, (name, value) in zip(records, given, strict=True):
        set_values(record, {name: value})
    results = evaluate(records, coefficients_for("fitted")).results
    table = results.view(np.float64).reshape(len(given), -1)
    assert not np.isinf(table).any()
    ok = results["reason"] == OK
    assert ok.sum() > len(given) / 2
    for column in ("ttft_ms", "tpot_ms", "e2e_ms", "output_tok_s_per_gpu"):
        unknown = ok & ~(table[:, RESULT_INDEX[column]] >= 0.0)
        assert [given[i] for i in np.flatnonzero(unknown)] == []


def test_inputs_that_contradict_each_other_are_a_reason() -> None:
    results = evaluated({"n_linear_layers": 3}).results
    assert results["reason"][0] == NO_FINITE_ANSWER
    assert np.isnan(results["ttft_ms"][0])
    assert results["weights_gib_per_gpu"][0] > 0.0


@pytest.mark.parametrize("value", [1e13, 1e300, 1e-10])
def test_numbers_beyond_any_sense_are_refused(value: float) -> None:
    for field in NUMBERS:
        with pytest.raises(UserError, match=r"out of range|beyond any sense|whole number"):
            checked(field, value)


@pytest.mark.parametrize("key", ["hbm_gib", "hbm_gb_s", "tflops_bf16", "link_gb_s", "nic_gb_s", "clock_mhz"])
def test_a_figure_of_a_datasheet_is_not_zero(key: str) -> None:
    field = next(f for f in NUMBERS if f.key == f"hardware.{key}")
    with pytest.raises(UserError, match="> 0"):
        checked(field, 0)
