"""The engine layer: inheritance of terms, intervals, and a fit that finds what made its data."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.coefficients import HOST_STEP_US, OP_HOST
from sweep.calibrate.engine import Layout, Measured, fit, layout_of, predict, tempered
from sweep.catalog.engine_layer import FAR, NEAR, RELATED, TERMS, engines_file, interval, layer_of
from sweep.catalog.hardware import hardware_index
from sweep.fidelity import coefficients_for
from sweep.fields.engine import ENGINES
from sweep.points import build_records


def test_a_pair_that_was_not_measured_inherits_from_its_engine():
    assert layer_of("ada", "vllm") == engines_file()["layers"]["vllm"]
    assert layer_of("hopper", "vllm") == engines_file()["layers"]["hopper.vllm"]


def test_fitted_coefficients_carry_the_layer_and_the_roofline_does_not():
    h100, vllm = hardware_index("h100_sxm"), ENGINES.index("vllm")
    fitted = coefficients_for("fitted")[h100, vllm, OP_HOST, HOST_STEP_US]
    assert fitted == layer_of("hopper", "vllm")["step_us"]
    assert coefficients_for("roofline")[h100, vllm, OP_HOST, HOST_STEP_US] == 0.0


def test_every_layer_names_every_term_and_is_positive():
    names = {term.name for term in TERMS}
    for layer in engines_file()["layers"].values():
        assert set(layer) == names
        assert min(layer.values()) > 0.0


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


def points_of(layers: dict[str, dict[str, float]]) -> Measured:
    """Points that the model itself makes with given layers."""
    import polars as pl

    rows = [
        {
            "model": model,
            "hardware": "h100_sxm",
            "backend": engine,
            "isl": 1024,
            "osl": 256,
            "concurrency": c,
            "tp": tp,
        }
        for model in ("llama_3_1_8b", "qwen3_32b")
        for engine in ("vllm", "trtllm")
        for tp in (1, 2, 4)
        for c in (4, 32, 128)
    ]
    records, errors = build_records(pl.DataFrame(rows))
    assert not any(errors)
    engines = np.array([str(row["backend"]) for row in rows])
    blank = Measured(
        records,
        np.ones(len(rows)),
        np.ones(len(rows)),
        np.array([f"hopper.{e}" for e in engines]),
        engines,
        np.array([f"{row['model']}|h100_sxm|{row['backend']}" for row in rows]),
        np.zeros(len(rows), bool),
    )
    ttft, tpot = predict(blank, layers)
    return Measured(records, ttft, tpot, blank.pair, engines, blank.combination, blank.pooled)


def test_the_fit_finds_the_layer_that_made_its_data():
    prior = {term.name: term.prior for term in TERMS}
    truth = {"common": prior, "vllm": prior | {"step_us": 900.0}, "trtllm": prior | {"moe_scale": 1.0}}
    points = points_of(truth)
    layout = layout_of(points)
    x = fit(points, layout, 4)
    ttft, tpot = predict(points, layout.layers(x))
    untouched, _ = predict(points, Layout(layout.engines, layout.pairs).layers(np.zeros(layout.size)))
    assert np.median(np.abs(tpot / points.tpot_ms - 1)) < 0.02
    assert (
        np.median(np.abs(ttft / points.ttft_ms - 1))
        < np.median(np.abs(untouched / points.ttft_ms - 1)) + 0.02
    )
    assert layout.layers(x)["hopper.vllm"]["step_us"] > 1.5 * layout.layers(x)["hopper.trtllm"]["step_us"]
