"""Fitting operators: known coefficients come back, files are the same every time, sources are read as meant."""

import numpy as np
import polars as pl
import pytest

from kernels.coefficients import OP_GEMM_BF16
from sweep.calibrate.fit import fit_operator, with_row
from sweep.calibrate.operators import fit_all, hardware_record, main, read_source, write_fitted
from sweep.calibrate.samples import Samples, above_roofline, times_us
from sweep.calibrate.silicon import touched_by_power_law, version_key
from sweep.catalog.fitted import COLUMNS
from sweep.errors import UserError

TRUTH = np.array([0.8, 0.85, 3.0, 0.2, 12.0, 300.0, 120.0, 0.0])
RECORD = hardware_record("h200_sxm")


def synthetic(noise=0.0, hardware="h200_sxm"):
    """GEMMs that follow known coefficients, times a seeded scatter."""
    rng = np.random.default_rng(7)
    m = np.repeat([1.0, 8.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0], 49)
    n, k = (
        x.ravel()
        for x in np.meshgrid(
            [256, 512, 1024, 2048, 4096, 8192, 16384.0], [256, 512, 1024, 2048, 4096, 8192, 16384.0]
        )
    )
    shapes = np.column_stack([m, np.tile(n, 11), np.tile(k, 11)])
    samples = Samples(
        hardware, "vllm", "gemm_bf16", shapes, np.ones(len(m)), np.tile(np.arange(49), 11), "synthetic"
    )
    us = times_us(samples, RECORD, with_row("gemm_bf16", TRUTH)) * np.exp(noise * rng.standard_normal(len(m)))
    return Samples(hardware, "vllm", "gemm_bf16", shapes, us, samples.groups, "synthetic")


def test_known_coefficients_come_back():
    fit = fit_operator(synthetic(), RECORD)
    assert fit.errors.median < 1e-3
    assert fit.errors.held_out_median < 1e-3
    np.testing.assert_allclose(fit.coefficients[:3], TRUTH[:3], rtol=0.01)


def test_scatter_shows_in_the_held_out_error():
    fit = fit_operator(synthetic(noise=0.1), RECORD)
    assert 0.05 < fit.errors.held_out_median < 0.09
    np.testing.assert_allclose(fit.coefficients[:2], TRUTH[:2], rtol=0.05)


def test_points_below_the_physical_limit_are_dropped():
    samples = synthetic()
    samples.us[:10] *= 1e-4
    assert len(above_roofline(samples, RECORD)) == len(samples) - 10


def test_few_points_keep_the_shape_of_a_relative():
    few = synthetic().take(np.arange(0, 539, 20))
    relative = TRUTH.copy()
    relative[3:] = [0.3, 15.0, 250.0, 100.0, 0.0]
    fit = fit_operator(few, RECORD, relative)
    assert fit.coefficients[3:] == tuple(relative[3:])


def test_too_few_points_fit_nothing():
    assert fit_operator(synthetic().take(np.arange(10)), RECORD) is None


def test_files_are_the_same_every_time(tmp_path):
    texts = []
    for name in ("first", "second"):
        (file,) = write_fitted(fit_all([synthetic(noise=0.05)]), tmp_path / name)
        texts.append(file.read_bytes())
    assert texts[0] == texts[1]


def test_the_first_of_two_tables_of_one_operator_counts():
    fits = list(fit_all([synthetic(), synthetic(noise=0.3)]))
    assert len(fits) == 1
    assert fits[0].errors.median < 1e-3


def user_csv(folder, **changes):
    samples = synthetic()
    columns = {
        "hardware": ["H200"] * len(samples),
        "engine": ["vllm"] * len(samples),
        "op": ["gemm_bf16"] * len(samples),
        "us": samples.us,
        **dict(zip(("m", "n", "k"), samples.shapes.T, strict=True)),
        "group": samples.groups,
    }
    file = folder / "mine.csv"
    pl.DataFrame({**columns, **changes}).write_csv(file)
    return file


def test_a_users_table_is_fitted_by_the_command(tmp_path, capsys):
    assert main([str(user_csv(tmp_path)), "--out", str(tmp_path / "out")]) == 0
    written = capsys.readouterr().out.strip()
    assert written == str(tmp_path / "out" / "h200_sxm.yaml")
    text = (tmp_path / "out" / "h200_sxm.yaml").read_text()
    assert all(column in text for column in COLUMNS["gemm"])


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"op": "gem_bf16"}, "gemm_bf16"),
        ({"engine": "tgi"}, "vllm"),
        ({"us": -1.0}, "us"),
        ({"hardware": "h2000"}, "h200"),
    ],
)
def test_a_wrong_users_table_is_named(tmp_path, changes, names):
    file = user_csv(tmp_path, **{column: [value] * 539 for column, value in changes.items()})
    with pytest.raises(UserError, match=names):
        list(read_source(file))


def test_a_missing_argument_is_named(tmp_path):
    file = user_csv(tmp_path)
    pl.read_csv(file).drop("k").write_csv(file)
    with pytest.raises(UserError, match="k"):
        list(read_source(file))


def test_a_folder_without_tables_is_named(tmp_path):
    with pytest.raises(UserError, match="operator tables"):
        list(read_source(tmp_path))


def silicon_folder(root):
    """A small table in the layout of the silicon database: milliseconds, one key twice."""
    samples = synthetic()
    folder = root / "h200_sxm" / "gemm" / "vllm" / "0.24.0"
    folder.mkdir(parents=True)
    m, n, k = samples.shapes.astype(int).T
    frame = pl.DataFrame({"gemm_dtype": "bfloat16", "m": m, "n": n, "k": k, "latency": samples.us / 1e3})
    slower = frame.head(1).with_columns(latency=pl.col("latency") * 3.0)
    pl.concat([frame, slower]).write_parquet(folder / "gemm_perf.parquet")
    return root


def test_silicon_tables_are_milliseconds_and_the_faster_of_two_counts(tmp_path):
    (samples,) = read_source(silicon_folder(tmp_path))
    assert (samples.hardware, samples.engine, samples.op) == ("h200_sxm", "vllm", "gemm_bf16")
    assert len(samples) == 539
    expected = times_us(samples, RECORD, with_row("gemm_bf16", TRUTH))
    np.testing.assert_allclose(samples.us, expected, rtol=1e-9)


def test_tables_measured_eagerly_are_left_out(tmp_path):
    root = silicon_folder(tmp_path)
    file = next(root.rglob("*.parquet"))
    pl.read_parquet(file).with_columns(latency=pl.col("latency") + 0.15).write_parquet(file)
    assert list(read_source(root)) == []


def test_tuned_kernel_tables_drop_times_copied_over_token_counts(tmp_path):
    rows = [
        ("mi355x|mi350x (gfx950,256CU)", "fused_moe", t, 4096, 1536, 128, 8, 300.0 + t) for t in range(1, 41)
    ]
    rows += [("mi355x|mi350x (gfx950,256CU)", "fused_moe", t, 4096, 1536, 128, 8, 99.0) for t in (41, 42)]
    names = [
        "hardware",
        "op",
        "M_or_tokens",
        "N_or_model_dim",
        "K_or_inter_dim",
        "batch_or_experts",
        "topk",
        "us",
    ]
    table = pl.DataFrame(rows, schema=names, orient="row")
    file = tmp_path / "tuned.csv"
    table.with_columns(dtype=pl.lit("a=bfloat16 w=bfloat16"), notes=pl.lit("ActivationType.Silu")).write_csv(
        file
    )
    (samples,) = read_source(file)
    assert (samples.hardware, samples.op, len(samples)) == ("mi355x", "moe_bf16", 40)


def test_versions_sort_by_number():
    assert sorted(["0.5.9", "0.5.14", "0.5.10"], key=version_key) == ["0.5.9", "0.5.10", "0.5.14"]


def test_power_law_touches_fewer_experts_than_there_are_pairs():
    tokens = np.array([1.0, 64.0, 4096.0])
    touched = touched_by_power_law(tokens, np.full(3, 8.0), np.full(3, 128.0), 1.01)
    assert np.all(np.diff(touched) > 0.0)
    assert touched[0] <= 8.0
    assert touched[-1] <= 128.0


@pytest.mark.measured
def test_profile_bundles_give_gemm_and_attention(shared):
    found = {
        (samples.hardware, samples.op) for samples in read_source(shared / "measured" / "operator_profiles")
    }
    assert {("rtx_4090", "gemm_bf16"), ("rtx_4090", "decode_gqa"), ("rtx_pro_6000", "moe_bf16")} <= found


@pytest.mark.measured
def test_shipped_instinct_coefficients_regenerate_from_their_table(shared, tmp_path):
    source = shared / "measured" / "amd_gemm_moe.csv"
    fits = fit_all(samples for samples in read_source(source) if samples.op == "gemm_mxfp4")
    (file,) = write_fitted(fits, tmp_path)
    from sweep.catalog.fitted import fitted_file
    from sweep.catalog.yaml_file import read_yaml

    fresh = read_yaml(file)["operators"]["vllm"]["gemm_mxfp4"]
    assert fresh == fitted_file("mi355x")["vllm"]["gemm_mxfp4"]
    assert fresh["error"]["held_out_median"] < 0.1


def test_row_index_of_the_kernel_is_the_files(tmp_path):
    assert with_row("gemm_bf16", TRUTH)[OP_GEMM_BF16, 0] == TRUTH[0]
