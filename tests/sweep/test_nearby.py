"""Surfaces of measured combinations: their fit, the shipped file, and what both drivers make of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.coefficients import LEAST_SHARE, NEAR_DECODE, NEAR_KNOWN, NEAR_POOLED, NEAR_PROMPT
from kernels.layout import N_PARTS, PART_HOST
from sweep.calibrate.engine import predict
from sweep.calibrate.engine_fit import layout_of
from sweep.calibrate.nearby_fit import Surfaces, coordinates, fit_sections, neutral, products
from sweep.catalog.engine_layer import NEAR, RELATED, TERMS, engines_file, interval
from sweep.catalog.nearby import COLOCATED, PAIRS, POOLS, SURFACES
from sweep.fidelity import coefficients_for
from sweep.intervals import is_inside
from tests.deployments import priced
from tests.sweep.test_engine_layer import points


def test_the_fit_finds_the_surface_that_made_its_data():
    asked = points()
    layout = layout_of(asked)
    offsets = np.zeros((len(layout.names), len(TERMS)))
    truth = neutral(asked, COLOCATED)
    truth.numbers["decode"][:, :3] = 0.2, 0.1, 0.05
    truth.numbers["prompt"][:, 0] = 0.3
    made = predict(asked, layout, offsets, (truth,))
    measured = replace(asked, figures=made)

    def model(own, tried):
        return predict(own, layout, offsets, (tried,))

    fitted = predict(measured, layout, offsets, fit_sections(measured, model))
    before = predict(measured, layout, offsets)
    for figure in (0, 1):
        missed = np.abs(np.log(fitted / made)[:, figure])
        assert np.median(missed) < 0.25 * np.median(np.abs(np.log(before / made)[:, figure]))


def test_a_combination_that_agrees_with_the_model_keeps_it():
    asked = points()
    layout = layout_of(asked)
    offsets = np.zeros((len(layout.names), len(TERMS)))
    measured = replace(asked, figures=predict(asked, layout, offsets))
    (found,) = fit_sections(measured, lambda own, tried: predict(own, layout, offsets, (tried,)))
    assert max(np.abs(found.numbers[name]).max() for name in SURFACES) < 1e-6


def test_ranges_are_those_of_the_points_and_products_start_with_one():
    asked = points()
    found = neutral(asked, COLOCATED)
    z = coordinates(asked)["decode"]
    assert found.ranges["decode"][:, 0].min() == z.min()
    assert products(z).shape == (len(z), len(PAIRS))
    assert (products(z)[:, 0] == 1.0).all()


def test_every_measured_combination_has_surfaces_and_no_other():
    combinations = {name for section in engines_file()["nearby"].values() for name in section}
    assert combinations == set(engines_file()["measured"])
    table = coefficients_for("fitted")
    known = (table[..., NEAR_DECODE, NEAR_KNOWN] > 0.0).sum()
    assert known == len(engines_file()["nearby"][COLOCATED])
    pooled = (table[..., NEAR_DECODE + NEAR_POOLED, NEAR_KNOWN] > 0.0).sum()
    assert pooled == len(engines_file()["nearby"][POOLS])
    assert (coefficients_for("roofline")[..., NEAR_PROMPT, NEAR_KNOWN] == 0.0).all()


def test_no_part_but_the_hosts_may_vanish():
    shares = coefficients_for("fitted")[..., LEAST_SHARE, :N_PARTS]
    assert (shares[..., PART_HOST] == 0.0).all()
    assert (np.delete(shares, PART_HOST, axis=-1) > 0.05).all()
    assert (shares <= 1.0).all()


def test_sections_write_only_combinations_that_they_know():
    asked = points()
    surfaces = neutral(asked, POOLS)
    table = np.zeros((2, *coefficients_for("fitted").shape[-2:]))
    surfaces.write(table, np.array([asked.combination[0], "nobody|nowhere|none"]))
    assert table[0, NEAR_DECODE + NEAR_POOLED, NEAR_KNOWN] == 1.0
    assert (table[1] == 0.0).all()
    assert isinstance(surfaces, Surfaces)


def test_doublings_tell_how_far_from_measurements_and_the_interval_widens_there():
    where = {"model": "qwen3_32b", "hardware": "h100_sxm", "engine": "vllm"}
    near, far = priced({**where, "concurrency": 64}, {**where, "isl": 30_000, "concurrency": 1, "tp": 8})[
        "doublings_from_measured"
    ]
    assert near < far
    assert is_inside(near)
    assert not is_inside(far)
    assert not is_inside(np.nan)
    known, outside = (interval("qwen3_32b", "h100_sxm", "vllm", inside=x) for x in (True, False))
    assert (known.support, outside.support) == (NEAR, RELATED)
    assert outside.tpot_p90 / outside.tpot_p10 > known.tpot_p90 / known.tpot_p10


def test_a_combination_that_was_never_measured_has_no_distance():
    found = priced({"model": "phi_4", "hardware": "h100_sxm", "engine": "vllm"})
    assert np.isnan(found["doublings_from_measured"][0])
    assert found["tpot_ms"][0] > 0.0
