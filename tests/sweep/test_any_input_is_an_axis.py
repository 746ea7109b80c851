"""Any input can be swept: each over two values, all in one Hydra command line, each evaluated as a grid of its own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.layout import RESULT_COLUMNS
from sweep.axes import Axis, Grid
from sweep.evaluate import Evaluator
from sweep.fidelity import coefficients_for
from sweep.fields import encode
from sweep.fields.spec import Field
from sweep.hydra_sweeper import compose_grid
from sweep.schema import ALL_FIELDS

SWEPT = [f for f in ALL_FIELDS if f.scope != "run" and f.key != "model.path"]


def two_values(field: Field, folder: Path) -> tuple[Any, Any]:
    if field.kind == "bool":
        return False, True
    if field.kind == "choice":
        return field.choices[0], field.choices[1]
    if field.kind in ("text", "path"):
        for name in ("one", "two"):
            (folder / f"{name}.json").write_text(json.dumps({"1": 1.0, "64": 0.8 if name == "one" else 0.7}))
        return str(folder / "one.json"), str(folder / "two.json")
    low = field.default if field.default is not None else max(field.low or 0, 1)
    high = low * 2 if low else 1
    if field.high is not None and high > field.high:
        low, high = field.high / 2, field.high
    return (int(low), int(high)) if field.kind == "int" else (float(low), float(high))


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    folder = tmp_path_factory.mktemp("curves")
    return {f.key: two_values(f, folder) for f in SWEPT}


@pytest.fixture(scope="module")
def grid(values: dict[str, tuple[Any, Any]]) -> Grid:
    lines = [f"{key}={','.join(_written(v) for v in pair)}" for key, pair in values.items()]
    return compose_grid(["model=llama_3_1_8b", "hardware=h100_sxm", *lines])


def _written(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"'{value}'"
        if isinstance(value, str)
        else str(value)
    )


def axis_of(grid: Grid, key: str) -> Axis:
    return next(axis for axis in grid.axes if axis.name == key)


@pytest.mark.parametrize("field", SWEPT, ids=lambda f: f.key)
def test_two_values_of_an_input_make_an_axis_with_its_column(
    field: Field, grid: Grid, values: dict[str, tuple[Any, Any]]
) -> None:
    axis = axis_of(grid, field.key)
    label = next(x for x in axis.labels if x.field == field)
    assert label.values == values[field.key]
    if field.column:
        column = axis.columns.index(field.name)
        assert axis.table[:, column].tolist() == [encode(field, v) for v in values[field.key]]


def test_every_axis_alone_evaluates_through_the_grid_s_kernel(grid: Grid) -> None:
    fitted = coefficients_for("fitted")
    base = compose_grid(["model=qwen3_30b_a3b", "hardware=h100_sxm", "parallelism.tp=4"])
    index = RESULT_COLUMNS.index("reason")
    for field in SWEPT:
        alone = dataclasses.replace(base, axes=(axis_of(grid, field.key),))
        block = Evaluator(alone, fitted).block(0, 2)
        assert np.isfinite(block[:, index]).all(), field.key
