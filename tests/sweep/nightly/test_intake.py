"""What is kept of a log adds up in any order and any batches."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.nightly import intake as module
from sweep.nightly.days import start_ns
from sweep.nightly.intake import Intake, Tally
from sweep.nightly.sketch import bin_of, quantile
from sweep.traces.batch import Batch
from sweep.traces.summary import HOUR_NS

DAY = date(2026, 3, 4)
START = start_ns(DAY)


def batch(arrival_ns: np.ndarray, isl: np.ndarray, osl: np.ndarray, models: list[str]) -> Batch:
    n = len(arrival_ns)
    return Batch(
        np.arange(n), arrival_ns, isl.astype(np.int32), osl.astype(np.int32), model=pl.Series(models)
    )


def some_requests(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrival = START + np.sort(rng.integers(-HOUR_NS, 25 * HOUR_NS, n))
    return arrival, rng.integers(1, 9000, n), rng.integers(1, 900, n), rng.choice(["a", "b"], n)


def taken(order: np.ndarray, cuts: list[int]) -> Intake:
    arrival, isl, osl, model = some_requests()
    found = Intake(DAY, 7)
    for rows in np.split(order, sorted(cuts)):
        found.add(batch(arrival[rows], isl[rows], osl[rows], list(model[rows])))
    return found


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 499), max_size=6))
def test_neither_the_order_nor_the_batches_matter(random, cuts) -> None:
    plain = taken(np.arange(500), [])
    order = np.arange(500)
    random.shuffle(order)
    other = taken(order, cuts)
    names = {code: other.models.names.index(name) for code, name in enumerate(plain.models.names)}
    for one, two in (
        (plain.hours, other.hours), (plain.windows, other.windows), (plain.lengths, other.lengths)
    ):  # fmt: skip
        renamed = one.frame().with_columns(
            pl.col("model").replace_strict(names).cast(two.frame()["model"].dtype)
        )
        assert renamed.sort(one.keys).equals(two.frame())
    hour = START // HOUR_NS + 3
    for code, to in names.items():
        assert plain.requests_of(code, hour).equals(other.requests_of(to, hour))


def test_sums_of_an_hour_are_those_of_its_requests() -> None:
    arrival, isl, osl, model = some_requests()
    hours = taken(np.arange(500), []).hours.frame()
    row = hours.row(
        by_predicate=(pl.col("model") == 0) & (pl.col("hour") == START // HOUR_NS + 5), named=True
    )
    first = model[0]
    mine = (model == first) & (arrival // HOUR_NS == START // HOUR_NS + 5)
    assert row["requests"] == mine.sum()
    assert row["isl"] == isl[mine].sum()
    assert row["ln_osl"] / 1e6 == pytest.approx(np.log(osl[mine]).sum(), rel=1e-5)
    assert row["ln_isl2"] / 1e6 == pytest.approx((np.log(isl[mine]) ** 2).sum(), rel=1e-3)


def test_requests_of_other_days_are_left_out_of_the_night() -> None:
    found = taken(np.arange(500), [])
    assert found.windows.frame()["window"].min() >= START // 10**10
    assert found.hours.frame()["hour"].max() < START // HOUR_NS + 24


def test_without_a_date_the_night_is_the_day_of_the_latest_request() -> None:
    found = Intake(None, 7)
    for day in range(3):
        at = START + day * 24 * HOUR_NS + np.arange(50) * 10**9
        found.add(batch(at, np.full(50, 10), np.full(50, 10), ["a"] * 50))
    assert found.night == date(2026, 3, 6)
    assert found.windows.frame()["requests"].sum() == 50
    assert found.hours.frame()["requests"].to_list() == [50, 50, 50]


def test_beyond_what_may_be_kept_the_busiest_hour_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 1000)
    found = Intake(DAY, 1)
    for hour in range(24):
        n = 400 if hour == 9 else 90
        at = START + hour * HOUR_NS + np.arange(n) * 10**9
        found.add(batch(at, np.full(n, 10), np.full(n, 10), ["a"] * n))
    assert found.requests_of(0, START // HOUR_NS + 9).height == 400
    assert found._n_kept <= 1000


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_quantiles_of_the_sketch_are_within_a_percent(lengths: list[int], share: float) -> None:
    frame = pl.DataFrame({"isl": lengths}).with_columns(bin=bin_of("isl"))
    counted = frame.group_by("bin").len().sort("bin")
    found = quantile(counted["bin"].to_numpy(), counted["len"].to_numpy(), share)
    exact = float(np.quantile(lengths, share, method="lower"))
    assert found == pytest.approx(exact, rel=0.0101)


def test_a_tally_adds_up_what_it_compacts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPACT_ROWS", 50)
    tally = Tally(("hour",), ("requests",))
    for k in range(200):
        tally.add(pl.DataFrame({"hour": [k % 7], "requests": [k]}))
    assert tally.frame()["requests"].sum() == sum(range(200))
    assert len(tally.parts) < 100
