"""The shipped accelerators, clusters and price books compose into grids with the right figures."""

import numpy as np
import pytest

from sweep.axes import Grid
from sweep.catalog.hardware import hardware, hardware_names
from sweep.catalog.prices import book_names, price_of
from sweep.fields.hardware import TOPOLOGIES
from sweep.hydra_sweeper import compose_grid
from sweep.paths import conf_dir


def column(grid: Grid, name: str) -> np.ndarray:
    axis = next(a for a in grid.axes if name in a.columns)
    return axis.table[:, axis.columns.index(name)]


def same(values: np.ndarray, expected: list[float | None]) -> bool:
    return np.array_equal(values, np.array(expected, float), equal_nan=True)


@pytest.fixture(scope="module")
def everything() -> Grid:
    return compose_grid([f"hardware={','.join(hardware_names())}"])


@pytest.mark.parametrize("figure", ["hbm_gib", "hbm_gb_s", "tflops_fp8", "link_gb_s", "facility_kw_per_gpu"])
def test_every_accelerator_composes_with_its_figures(everything, figure):
    assert same(column(everything, figure), [hardware(n).fields[figure] for n in hardware_names()])


def test_every_accelerator_has_the_price_of_the_book(everything):
    prices = [price_of("on_demand", n).usd_per_gpu_hour for n in hardware_names()]
    assert same(column(everything, "usd_per_gpu_hour"), prices)


def test_every_book_prices_the_same_accelerator_its_own_way():
    grid = compose_grid(["hardware=h100_sxm", f"price={','.join(book_names())}"])
    prices = [price_of(b, "h100_sxm").usd_per_gpu_hour for b in book_names()]
    assert same(column(grid, "usd_per_gpu_hour"), prices)


def test_cluster_presets_state_domains_and_interconnects():
    names = sorted(p.stem for p in (conf_dir() / "cluster").glob("*.yaml"))
    grid = compose_grid([f"cluster={','.join(names)}"])
    assert names == ["default", "hgx8", "nvl72", "pcie4", "pcie8", "single"]
    switch, pcie = (float(TOPOLOGIES.index(t)) for t in ("switch", "pcie"))
    assert same(column(grid, "scale_up_gpus"), [None, 8, 72, 4, 8, 1])
    assert same(column(grid, "interconnect"), [None, switch, switch, pcie, pcie, None])


def test_usual_spellings_choose_the_accelerator():
    assert compose_grid(["hardware=H100-80GB,RTXPRO6000,gfx950"]).hardware == (
        "h100_sxm",
        "rtx_pro_6000",
        "mi355x",
    )
