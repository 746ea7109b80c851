"""The engine layer: inheritance of terms, losses, intervals, and a fit that finds what made its data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.coefficients import (
    HOST_STEP_US,
    MEMORY_EFFICIENCY,
    OP_GEMM_BF16,
    OP_HOST,
    OVERHEAD_US,
    roofline_coefficients,
)
from sweep.calibrate.engine import predict
from sweep.calibrate.engine_fit import fit, layout_of, tempered
from sweep.calibrate.engine_points import Measured
from sweep.catalog.architecture import architecture, architecture_codes
from sweep.catalog.engine_layer import (
    FAR,
    LEVELS,
    NEAR,
    RELATED,
    TERMS,
    engines_file,
    interval,
    known_architectures,
    layer_of,
    level_keys,
)
from sweep.catalog.hardware import hardware_index
from sweep.catalog.losses import scale_losses
from sweep.catalog.models import model
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.fields.engine import ENGINES
from sweep.point_rows import build_records
from tests.deployments import record_of


def test_a_pair_that_was_not_measured_inherits_from_its_engine_and_a_new_architecture_from_both():
    levels = engines_file()["levels"]
    common, vllm = levels["common"]["common"], levels["engine"]["vllm"]
    assert layer_of("ada", "vllm")["step_us"] == pytest.approx(common["step_us"] * vllm["step_us"])
    pair = levels["pair"]["hopper.vllm"]
    expected = common["step_us"] * vllm["step_us"] * pair["step_us"]
    assert layer_of("hopper", "vllm", "l1-h1")["step_us"] == pytest.approx(expected)


def test_fitted_coefficients_carry_the_layer_and_the_roofline_does_not():
    h100, vllm = hardware_index("h100_sxm"), ENGINES.index("vllm")
    known = known_architectures()
    for label in (known[0], known[-1]):
        fitted = coefficients_for("fitted")[known.index(label), h100, vllm, OP_HOST, HOST_STEP_US]
        assert fitted == pytest.approx(layer_of("hopper", "vllm", label)["step_us"])
    assert coefficients_for("roofline")[0, h100, vllm, OP_HOST, HOST_STEP_US] == 0.0


def test_every_level_names_every_term_and_is_positive():
    names = {term.name for term in TERMS}
    for level in LEVELS:
        for values in engines_file()["levels"][level].values():
            assert set(values) == names
            assert min(values.values()) > 0.0


def test_an_architecture_is_its_numbers_whatever_the_model_is_called():
    assert architecture(model("llama_3_3_70b").fields) == architecture(model("llama_3_1_70b").fields)
    assert architecture(model("llama_3_1_8b").fields) != architecture(model("llama_3_1_70b").fields)
    records = np.concatenate([record_of(model="qwen3_32b"), record_of(model="phi_4")])
    known = ("", architecture(model("qwen3_32b").fields))
    assert architecture_codes(records, known).tolist() == [1, 0]


def test_coefficients_of_a_record_are_those_of_its_architecture():
    table = coefficients_for("fitted")
    known, other = record_of(model="qwen3_32b"), record_of(model="phi_4")
    assert not np.array_equal(coefficients_of(table, known), coefficients_of(table, other))


@given(st.floats(0.0, 3.0))
def test_scaled_losses_never_beat_the_roofline(factor):
    table = coefficients_for("fitted")[0, hardware_index("h100_sxm"), :1].copy()
    before = table[0, OP_GEMM_BF16].copy()
    scale_losses(table, "gemm_bf16", np.array([factor]))
    after = table[0, OP_GEMM_BF16]
    assert after[MEMORY_EFFICIENCY] <= 1.0
    assert 1.0 / after[MEMORY_EFFICIENCY] - 1.0 == pytest.approx(
        factor * (1.0 / before[MEMORY_EFFICIENCY] - 1.0)
    )
    assert after[OVERHEAD_US] == pytest.approx(factor * before[OVERHEAD_US])
    if factor == 0.0:
        assert after[:3].tolist() == roofline_coefficients()[OP_GEMM_BF16, :3].tolist()


def test_intervals_widen_away_from_measurements():
    near = interval("qwen3_32b", "h100_sxm", "vllm")
    related = interval("phi_4", "h100_sxm", "vllm")
    far = interval("phi_4", "l4", "vllm")
    assert (near.support, related.support, far.support) == (NEAR, RELATED, FAR)
    assert far.tpot_p90 / far.tpot_p10 > related.tpot_p90 / related.tpot_p10 > near.tpot_p90 / near.tpot_p10


def test_an_outlier_weighs_less_than_in_squares():
    small, large = tempered(np.array([0.01, 3.0]), 0.15)
    assert small == pytest.approx(0.01, rel=0.01)
    assert large < 0.5


def points() -> Measured:
    """Two models under two engines on an H100, latencies still blank."""
    rows = [
        {
            "model": name,
            "hardware": "h100_sxm",
            "backend": engine,
            "isl": 1024,
            "osl": 256,
            "concurrency": c,
            "tp": tp,
        }
        for name in ("llama_3_1_8b", "qwen3_32b")
        for engine in ("vllm", "trtllm")
        for tp in (1, 2, 4)
        for c in (4, 32, 128)
    ]
    records, errors = build_records(pl.DataFrame(rows))
    assert not any(errors)
    labels = [architecture(model(str(row["model"])).fields) for row in rows]
    engines = np.array([str(row["backend"]) for row in rows])
    keys = np.array([level_keys(a, "hopper", str(e)) for a, e in zip(labels, engines, strict=True)])
    combination = np.array([f"{a}|h100_sxm|{e}" for a, e in zip(labels, engines, strict=True)])
    return Measured(
        records, np.full((len(rows), 3), np.nan), keys, engines, combination, np.zeros(len(rows), bool)
    )


def test_the_fit_finds_the_layer_that_made_its_data():
    asked = points()
    layout = layout_of(asked)
    truth = np.zeros((len(layout.names), len(TERMS)))
    step = [term.name for term in TERMS].index("step_us")
    truth[layout.place[1, "vllm"], step] = np.log(3.0)
    made = predict(asked, layout, truth)
    made[:, 2] = np.nan
    measured = replace(asked, figures=made)
    found = fit(measured, layout)
    tpot, fitted, before = (
        x[:, 1]
        for x in (made, predict(measured, layout, found), predict(measured, layout, np.zeros_like(truth)))
    )
    vllm = asked.engine == "vllm"
    # Pulled towards the prior, a dozen points do not take all of it.
    assert np.median(np.abs(fitted / tpot - 1)[vllm]) < 0.7 * np.median(np.abs(before / tpot - 1)[vllm])
    values = found[layout.rows(asked.keys)].sum(axis=1)[:, step]
    assert values[vllm].min() > values[~vllm].max()


def test_a_key_that_the_fit_never_saw_inherits():
    asked = points()
    layout = layout_of(asked)
    offsets = np.zeros((len(layout.names), len(TERMS)))
    offsets[layout.place[0, "common"]] = 0.1
    stranger = asked.keys.copy()
    stranger[:, 3:] = "never seen"
    assert np.array_equal(
        predict(replace(asked, keys=stranger), layout, offsets),
        predict(asked, layout, offsets),
        equal_nan=True,
    )
