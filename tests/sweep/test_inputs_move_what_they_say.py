"""Generated from the registry: every modelled input moves the stated columns in the stated direction, and no other."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kernels.layout import RESULT_COLUMNS
from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for
from sweep.fields import by_key
from sweep.fields.expectations import EXPECTED
from sweep.fields.spec import Expect, Field
from tests.deployments import record_of

SAME = 1e-9
CASES = [(key, i) for key, expected in EXPECTED.items() for i in range(len(expected))]


@cache
def results() -> np.ndarray:
    """Results of all cases, two rows each: at the field's low value and at its high one."""
    rows = []
    for key, i in CASES:
        case = EXPECTED[key][i]
        name = key.rsplit(".", 1)[-1]
        setting = {"usd_per_gpu_hour": 2.0, **dict(case.given)}
        rows += [record_of(**{**setting, name: value}) for value in (case.low, case.high)]
    return evaluate(np.concatenate(rows), coefficients_for("fitted")).results


def both(number: int) -> tuple[np.void, np.void]:
    return results()[2 * number], results()[2 * number + 1]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{key}-{i}" for key, i in CASES])
def test_the_stated_column_moves_in_the_stated_direction(number: int) -> None:
    key, i = CASES[number]
    case = EXPECTED[key][i]
    low, high = (float(row[case.column]) for row in both(number))
    assert np.isfinite(low) and np.isfinite(high), (
        f"no answer: {both(number)[0]['reason']}, {both(number)[1]['reason']}"
    )
    scale = max(abs(low), abs(high), 1e-12)
    step = (high - low) / scale
    holds = {"up": step > SAME, "down": step < -SAME, "change": abs(step) > SAME, "same": abs(step) <= SAME}
    assert holds[case.direction], f"{case.column}: {low} at {case.low}, {high} at {case.high}"


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{key}-{i}" for key, i in CASES])
def test_no_column_moves_that_the_input_does_not_name(number: int) -> None:
    key, _ = CASES[number]
    low, high = both(number)
    moved = {
        c for c in RESULT_COLUMNS if not np.isclose(low[c], high[c], rtol=SAME, atol=1e-12, equal_nan=True)
    }
    assert moved <= set(by_key()[key].moves), sorted(moved - set(by_key()[key].moves))


def modelled(field: Field) -> bool:
    """Inputs of the compatible estimator that kernels read."""
    return field.column and any(s.spec == "inferasim" for s in field.seeds)


def test_every_modelled_input_of_the_compatible_estimator_has_an_expectation() -> None:
    assert [f.key for f in by_key().values() if modelled(f) and f.key not in EXPECTED] == []


def test_an_expected_move_is_named_by_its_input() -> None:
    def unnamed(key: str, case: Expect) -> bool:
        return case.direction != "same" and case.column not in by_key()[key].moves

    assert [(k, c.column) for k, expected in EXPECTED.items() for c in expected if unnamed(k, c)] == []
