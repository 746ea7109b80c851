"""Grids: the same numbers as records one by one, wherever a block starts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kernels.grid import decode_row, evaluate_rows
from kernels.layout import DERIVED, REPLAY, RESULT
from kernels.priced import PRICED
from sweep.evaluation import evaluate
from sweep.fields import record_dtype
from tests.kernels.deployments import MOE, record, roofline

AXES = {"tp": [1.0, 2.0, 3.0, 4.0], "isl": [512.0, 4096.0], "concurrency": [1.0, 7.0, 64.0]}


def rows(base, start, stop):
    names = record_dtype().names
    fields = np.array([names.index(n) for n in AXES], np.int64)
    lengths = [len(v) for v in AXES.values()]
    values = np.array(list(itertools.chain.from_iterable(AXES.values())))
    inputs = base.copy()
    results = np.zeros(stop - start, RESULT)
    evaluate_rows(
        inputs,
        inputs.view(np.float64).reshape(-1),
        np.zeros(1, DERIVED),
        np.zeros(2, record_dtype()),
        np.zeros(2, DERIVED),
        np.zeros(2, PRICED),
        np.zeros(1, REPLAY),
        np.arange(len(AXES) + 1),
        fields,
        np.concatenate([[0], np.cumsum(lengths)]),
        values,
        np.array(lengths),
        np.array([True, True, False]),
        np.array([True, False, False]),
        roofline(),
        start,
        stop,
        results,
        results.view(np.float64).reshape(stop - start, -1),
    )
    return results


@pytest.mark.parametrize("model", [{}, MOE])
def test_rows_equal_records_one_by_one(model):
    base = record(**model, usd_per_gpu_hour=2.5)
    combinations = list(itertools.product(*AXES.values()))
    records = np.repeat(base, len(combinations))
    for i, values in enumerate(combinations):
        for name, value in zip(AXES, values, strict=True):
            records[name][i] = value
    expected = evaluate(records, roofline()).results
    got = rows(base, 0, len(combinations))
    np.testing.assert_array_equal(got.view(np.float64), expected.view(np.float64))


def test_a_block_may_start_anywhere():
    whole = rows(record(), 0, 24)
    np.testing.assert_array_equal(rows(record(), 5, 17).view(np.float64), whole[5:17].view(np.float64))


def test_the_last_axis_varies_fastest():
    digits = np.zeros(3, np.int64)
    decode_row(7, np.array([4, 2, 3]), digits)
    assert digits.tolist() == [1, 0, 1]
