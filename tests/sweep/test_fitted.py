"""The shipped coefficients: complete, bounded, with their sources."""

import numpy as np
import pytest

from kernels import coefficients as k
from sweep.calibrate.fit import COLUMNS as FIT_COLUMNS
from sweep.calibrate.fit import bounds
from sweep.catalog.fitted import COLUMNS, OPERATORS, OPS, RELATED, load_fitted, operator_class
from sweep.catalog.hardware import hardware_names
from sweep.errors import UserError
from sweep.fields.engine import ENGINES

FITTED = load_fitted(hardware_names())


def test_every_accelerator_and_engine_has_every_operator():
    assert FITTED.coefficients.shape == (len(hardware_names()), len(ENGINES), k.N_OPS, k.N_COEF)
    assert np.isfinite(FITTED.coefficients).all()
    assert set(FITTED.sources) == {(h, e, op) for h in hardware_names() for e in ENGINES for op in OPERATORS}


def test_every_coefficient_is_within_its_physical_bounds():
    for op in OPERATORS:
        _, low, high = bounds(op)
        rows = FITTED.coefficients[:, :, OPS[op], : len(low)]
        scaled = [
            i for i, name in enumerate(COLUMNS[operator_class(op)]) if name in ("wave_tiles", "item_us")
        ]
        within = (rows >= low) & (rows <= high)
        within[..., scaled] = rows[..., scaled] >= 0.0
        assert within.all(), op


def test_fit_and_files_agree_on_the_columns():
    assert {name: len(columns) for name, columns in FIT_COLUMNS.items()} == {
        name: len(columns) for name, columns in COLUMNS.items()
    }


def test_every_operator_says_who_stands_in_for_it():
    assert set(RELATED) == set(OPERATORS)


def test_a_measured_row_is_its_own_source():
    source = FITTED.sources["h100_sxm", "vllm", "gemm_bf16"]
    assert (source.hardware, source.engine, source.op) == ("h100_sxm", "vllm", "gemm_bf16")
    assert not source.inherited
    assert source.error < 0.1


def test_an_accelerator_without_tables_inherits_with_a_wider_error():
    own = FITTED.sources["h100_sxm", "vllm", "gemm_bf16"]
    heir = FITTED.sources["h20", "vllm", "gemm_bf16"]
    assert heir.inherited
    assert heir.hardware == "h100_sxm"
    assert heir.error > own.error


def test_engines_without_tables_take_the_kernels_they_share():
    assert FITTED.sources["mi355x", "atom", "gemm_mxfp4"].engine == "vllm"
    assert FITTED.sources["h200_sxm", "vllm", "prefill_mla"].engine == "sglang"


def test_attention_never_measured_on_a_gpu_is_transferred_and_says_so():
    source = FITTED.sources["mi300x", "vllm", "decode_gqa"]
    assert source.inherited
    assert source.hardware == "h100_sxm"


def test_whole_machine_counts_scale_with_the_machine():
    wide = FITTED.coefficients[hardware_names().index("h100_sxm"), 0, k.OP_GEMM_BF16, k.GEMM_WAVE_TILES]
    narrow = FITTED.coefficients[hardware_names().index("h20"), 0, k.OP_GEMM_BF16, k.GEMM_WAVE_TILES]
    assert narrow == pytest.approx(wide * 78 / 132)


def test_unknown_accelerator_is_a_users_mistake():
    with pytest.raises(UserError):
        load_fitted(("h1000",))
