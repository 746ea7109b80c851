"""Composition: Hydra's tree and command line become axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernels.dtypes import NAMES as DTYPES
from sweep.axes import Grid
from sweep.errors import UserError
from sweep.fields import record_dtype
from sweep.hydra_sweeper import compose_grid


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with two tiny models and two price books on top of the shipped tree."""
    for name, layers in (("small_model", 16), ("large_model", 64)):
        _write(tmp_path / "model" / f"{name}.yaml", f"name: {name}\nn_layers: {layers}\n")
    _write(tmp_path / "price" / "book_a.yaml", "name: book_a\nbook: {h100_sxm: 2.0, h200_sxm: 3.0}\n")
    _write(tmp_path / "price" / "book_b.yaml", "name: book_b\nbook: {h200_sxm: 4.0}\n")
    return tmp_path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def composed(tree: Path, *overrides: str) -> Grid:
    given = {o.split("=")[0] for o in overrides}
    defaults = [d for d in ("model=small_model", "price=book_a") if d.split("=")[0] not in given]
    return compose_grid([*defaults, *overrides], config_dirs=[tree])


def rows_of(grid: Grid) -> np.ndarray:
    """Every row's record as the kernel gathers it, by plain loops."""
    names = record_dtype().names or ()
    rows = np.tile(grid.base, (grid.n_rows, 1))
    for axis, codes in zip(grid.axes, grid.codes(0, grid.n_rows), strict=True):
        for j, column in enumerate(axis.columns):
            rows[:, names.index(column)] = axis.table[codes, j]
    return np.ascontiguousarray(rows).view(record_dtype()).reshape(-1)


def test_one_point_has_one_row_with_the_registry_defaults(tree: Path) -> None:
    row = rows_of(composed(tree))[0]
    assert row["n_layers"] == 16
    assert row["tp"] == 1
    assert np.isnan(row["max_num_batched_tokens"])


def test_an_input_that_is_not_swept_is_shown_at_its_own_value(tree: Path) -> None:
    grid = composed(tree, "workload.concurrency=64", "demand.concurrency=7", "workload.isl=900")
    shown = {label.name: set(label.values) for label in grid.labels}
    assert (shown["concurrency"], shown["isl"], shown["tp"]) == ({64}, {900}, {1})


def test_sweeps_multiply_and_nothing_else_changes(tree: Path) -> None:
    grid = composed(
        tree, "hardware=h100_sxm,h200_sxm", "parallelism.tp=1,2,4,8", "workload.concurrency=range(1,513,8)"
    )
    rows = rows_of(grid)
    assert grid.n_rows == len(rows) == 2 * 4 * 64
    assert sorted(set(rows["tp"])) == [1, 2, 4, 8]
    assert rows["concurrency"].max() == 505
    assert len(np.unique(rows["hbm_gib"])) == 2


def test_a_value_set_by_hand_holds_for_every_choice_of_its_group(tree: Path) -> None:
    rows = rows_of(composed(tree, "model=small_model,large_model", "model.n_heads=24"))
    assert sorted(rows["n_layers"]) == [16, 64]
    assert set(rows["n_heads"]) == {24}


def test_a_swept_field_wins_over_the_choices_of_its_group(tree: Path) -> None:
    rows = rows_of(composed(tree, "model=small_model,large_model", "model.n_layers=8,9"))
    assert sorted(rows["n_layers"]) == [8, 8, 9, 9]


def test_one_price_book_joins_the_hardware_axis(tree: Path) -> None:
    rows = rows_of(composed(tree, "hardware=h100_sxm,h200_sxm,l40s"))
    assert rows["usd_per_gpu_hour"].tolist()[:2] == [2.0, 3.0]
    assert np.isnan(rows["usd_per_gpu_hour"][2])


def test_two_price_books_and_two_accelerators_make_an_axis_of_pairs(tree: Path) -> None:
    grid = composed(tree, "hardware=h100_sxm,h200_sxm", "price=book_a,book_b")
    labels = {label.name: label.values for axis in grid.axes for label in axis.labels if axis.radix == 4}
    assert labels["hardware"] == ("h100_sxm", "h100_sxm", "h200_sxm", "h200_sxm")
    prices = rows_of(grid)["usd_per_gpu_hour"]
    assert prices[0] == 2.0 and np.isnan(prices[1]) and prices[2:].tolist() == [3.0, 4.0]


def test_an_explicit_price_wins_over_the_book(tree: Path) -> None:
    assert rows_of(composed(tree, "price.usd_per_gpu_hour=9"))["usd_per_gpu_hour"] == [9.0]
    swept = rows_of(composed(tree, "hardware=h100_sxm,h200_sxm", "price.usd_per_gpu_hour=1,2"))
    assert sorted(swept["usd_per_gpu_hour"]) == [1, 1, 2, 2]


def test_the_hardware_index_follows_the_hardware_axis(tree: Path) -> None:
    grid = composed(tree, "hardware=h100_sxm,h200_sxm,l40s", "engine=vllm,trtllm")
    rows = rows_of(grid)
    assert [grid.hardware[int(i)] for i in sorted(set(rows["hardware_index"]))] == list(grid.hardware)
    assert sorted(set(rows["engine"])) == [0, 2]


def test_an_accelerator_of_ones_own_inherits_efficiencies(tree: Path) -> None:
    _write(tree / "hardware" / "mine.yaml", "name: mine\ninherits: h200_sxm\nhbm_gib: 200\n")
    grid = composed(tree, "hardware=h100_sxm,mine")
    assert grid.hardware == ("h100_sxm", "h200_sxm")
    assert rows_of(grid)["hbm_gib"].tolist()[1] == 200
    _write(tree / "hardware" / "alone.yaml", "name: alone\nhbm_gib: 200\n")
    with pytest.raises(UserError, match=r"alone.*inherits"):
        composed(tree, "hardware=alone")


def test_null_in_a_sweep_is_auto(tree: Path) -> None:
    rows = rows_of(composed(tree, "engine.max_num_batched_tokens=null,2048"))
    assert np.isnan(rows["max_num_batched_tokens"][0]) and rows["max_num_batched_tokens"][1] == 2048


def test_the_order_on_the_command_line_does_not_matter(tree: Path) -> None:
    sweeps = ["workload.concurrency=1,2", "precision=fp8,checkpoint", "model=large_model,small_model"]
    one, two = composed(tree, *sweeps), composed(tree, *reversed(sweeps))
    assert [a.name for a in one.axes] == [a.name for a in two.axes]
    assert np.array_equal(rows_of(one).view(np.float64), rows_of(two).view(np.float64), equal_nan=True)


def test_a_preset_carries_axes_and_the_command_line_narrows_them(tree: Path) -> None:
    grid = composed(tree, "grid=small", "workload.concurrency=7")
    sizes = {a.name: a.radix for a in grid.axes}
    assert sizes["hardware"] == 3 and sizes["parallelism"] == 4
    assert set(rows_of(grid)["concurrency"]) == {7}


def test_other_spellings_of_a_choice_are_understood(tree: Path) -> None:
    assert composed(tree, "hardware=H100-SXM").hardware == ("h100_sxm",)


def test_a_hugging_face_id_is_a_choice_with_the_precision_it_states(tree: Path) -> None:
    grid = composed(tree, "model=RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8,llama_3_1_8b")
    assert grid.labels[0].values == ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "llama_3_1_8b")
    rows = rows_of(grid)
    assert [DTYPES[int(code)] for code in rows["checkpoint_mlp"]] == ["fp8", "bfloat16"]
    assert rows["n_layers"].tolist() == [32, 32]
    assert rows_of(composed(tree, "model=meta-llama/Llama-3.1-8B"))["n_layers"] == [32]


def test_a_config_json_is_a_model(tree: Path) -> None:
    path = tree / "config.json"
    path.write_text(
        """{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 12,
        "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 4096, "vocab_size": 32000,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}"""
    )
    for override in (f"model={path}", f"model.path={path}"):
        row = rows_of(compose_grid([override, "price=book_a"], config_dirs=[tree]))[0]
        assert (row["n_layers"], row["hidden_size"]) == (12, 1024)


def test_a_misspelt_key_in_a_file_is_told_with_the_file(tree: Path) -> None:
    _write(tree / "model" / "broken.yaml", "n_layer: 3\n")
    with pytest.raises(UserError, match=r"conf/model/broken.yaml.*n_layer"):
        composed(tree, "model=broken,small_model")
    with pytest.raises(UserError, match=r"model/broken.*n_layer"):
        composed(tree, "model=broken")


def test_a_wrong_value_in_a_file_is_told_with_the_file(tree: Path) -> None:
    _write(tree / "model" / "broken.yaml", "n_layers: -3\n")
    with pytest.raises(UserError, match=r"conf/model/broken.yaml.*model.n_layers=-3.*>= 1"):
        composed(tree, "model=broken,small_model")


def test_a_choice_that_is_not_given_is_auto_even_where_one_choice_is_called_none(tree: Path) -> None:
    row = rows_of(composed(tree))[0]
    assert np.isnan(row["cudagraph_mode"]) and np.isnan(row["act_quant_dtype"])
    assert rows_of(composed(tree, "engine.cudagraph_mode=none"))[0]["cudagraph_mode"] == 0.0
