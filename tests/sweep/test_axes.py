"""Axes and grids: mixed-radix decoding, ordering, packing."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweep.axes import Grid, group_axis, product_axis, rank, scalar_axis, with_column
from sweep.fields import record_dtype
from sweep.schema import field_by_key


def a_grid(*radices: int) -> Grid:
    fields = [f for f in field_by_key().values() if f.column and f.kind == "int"]
    axes = tuple(scalar_axis(field, list(range(1, n + 1))) for field, n in zip(fields, radices, strict=False))
    return Grid("test", np.zeros(len(record_dtype().names or ())), axes, ("h100_sxm",), {})


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_rows_enumerate_the_product_with_the_last_axis_fastest(radices: list[int]) -> None:
    grid = a_grid(*radices)
    codes = np.column_stack(grid.codes(0, grid.n_rows))
    assert codes.tolist() == [list(c) for c in product(*(range(n) for n in radices))]


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.data())
def test_codes_of_a_block_are_a_slice_of_the_codes_of_the_grid(
    radices: list[int], data: st.DataObject
) -> None:
    grid = a_grid(*radices)
    start = data.draw(st.integers(0, grid.n_rows))
    stop = data.draw(st.integers(start, grid.n_rows))
    whole = np.column_stack(grid.codes(0, grid.n_rows))
    assert np.array_equal(np.column_stack(grid.codes(start, stop)), whole[start:stop])


def test_packed_tables_give_back_each_axis() -> None:
    grid = a_grid(3, 2, 4)
    packed = grid.packed()
    names = record_dtype().names or ()
    for i, axis in enumerate(grid.axes):
        fields = packed.axis_fields[packed.axis_field_offsets[i] : packed.axis_field_offsets[i + 1]]
        table = packed.axis_values[packed.axis_value_offsets[i] : packed.axis_value_offsets[i + 1]]
        assert tuple(names[f] for f in fields) == axis.columns
        assert np.array_equal(table.reshape(axis.radix, -1), axis.table)


def test_a_group_axis_holds_only_the_columns_on_which_choices_differ() -> None:
    choices = [{"a": 1.0, "b": np.nan, "c": np.nan}, {"a": 1.0, "b": np.nan, "c": 2.0}]
    axis = group_axis("precision", ("x", "y"), choices)
    assert axis.columns == ("c",)
    assert axis.labels[0].values == ("x", "y")


def test_an_axis_of_pairs_varies_its_second_fastest() -> None:
    first = with_column(group_axis("hardware", ("h", "i"), [{}, {}]), "hbm_gib", [80.0, 141.0])
    second = with_column(group_axis("price", ("p", "q", "r"), [{}, {}, {}]), "utilization", [0.1, 0.2, 0.3])
    pair = product_axis(first, second, {"usd_per_gpu_hour": np.arange(6.0)})
    assert pair.columns == ("hbm_gib", "utilization", "usd_per_gpu_hour")
    assert pair.table[4].tolist() == [141.0, 0.2, 4.0]
    assert [label.values[4] for label in pair.labels] == ["i", "q"]


def test_axis_order_does_not_follow_the_command_line() -> None:
    keys = [
        "workload.concurrency",
        "workload.isl",
        "parallelism",
        "engine.max_num_batched_tokens",
        "hardware",
    ]
    keys += ["model", "slo", "workload", "precision", "engine", "parallelism.tp", "price"]
    ordered = sorted(keys, key=rank)
    backwards = keys[::-1]
    assert ordered == sorted(backwards, key=rank)
    assert ordered[:6] == ["model", "hardware", "price", "precision", "engine", "parallelism"]
    assert ordered[-1] == "workload.concurrency"
    assert ordered.index("engine.max_num_batched_tokens") < ordered.index("workload")
