"""The streaming frontier equals the definition, whatever the blocks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweep.frontier import Points, Running, Summary, cheapest, cheapest_n, pareto, ranks

COORDINATE = st.integers(0, 6).map(float)
"""Few values, so that ties and equal points are common."""
POINT = st.tuples(st.integers(0, 2), COORDINATE, COORDINATE)


def points_of(rows: list[tuple[int, float, float]]) -> Points:
    group, x, y = (np.array([r[i] for r in rows], dtype=float) for i in range(3))
    return Points(np.arange(len(rows), dtype=np.int64), group.astype(np.int64), x, y)


def dominates(a: tuple[int, float, float], b: tuple[int, float, float]) -> bool:
    return a[0] == b[0] and a[1] <= b[1] and a[2] <= b[2] and (a[1] < b[1] or a[2] < b[2])


def brute_force(rows: list[tuple[int, float, float]]) -> list[int]:
    """Indices that nothing dominates; of equal rows the first."""
    return [
        i
        for i, row in enumerate(rows)
        if row not in rows[:i] and not any(dominates(other, row) for other in rows)
    ]


@given(st.lists(POINT, max_size=40))
def test_the_frontier_is_exactly_what_nothing_dominates(rows: list[tuple[int, float, float]]) -> None:
    assert pareto(points_of(rows)).row.tolist() == brute_force(rows)


@given(st.lists(POINT, max_size=40))
def test_the_frontier_of_a_frontier_is_itself(rows: list[tuple[int, float, float]]) -> None:
    once = pareto(points_of(rows))
    assert pareto(once).row.tolist() == once.row.tolist()


@given(st.lists(POINT, max_size=40), st.randoms(use_true_random=False), st.integers(1, 8))
def test_blocks_in_any_order_give_the_same_frontier(rows, random, size) -> None:  # type: ignore[no-untyped-def]
    whole = points_of(rows)
    starts = list(range(0, len(rows), size))
    random.shuffle(starts)
    merged = Points.none()
    best = Points.none()
    for start in starts:
        block = whole.take((whole.row >= start) & (whole.row < start + size))
        merged = pareto(merged.joined(pareto(block)))
        best = cheapest(best.joined(cheapest(block)))
    assert merged.row.tolist() == pareto(whole).row.tolist()
    assert best.row.tolist() == cheapest(whole).row.tolist()


@given(st.lists(POINT, min_size=1, max_size=40))
def test_the_cheapest_row_of_each_group_is_found(rows: list[tuple[int, float, float]]) -> None:
    expected = {
        min((y, i) for i, (g, _, y) in enumerate(rows) if g == group)[1] for group in {r[0] for r in rows}
    }
    assert set(cheapest(points_of(rows)).row.tolist()) == expected


@given(st.lists(POINT, max_size=40), st.integers(1, 5))
def test_the_n_cheapest_rows_of_each_group_are_found(rows: list[tuple[int, float, float]], n: int) -> None:
    expected = {
        i
        for group in {r[0] for r in rows}
        for _, i in sorted((y, i) for i, (g, _, y) in enumerate(rows) if g == group)[:n]
    }
    found = cheapest_n(points_of(rows), n)
    assert set(found.row.tolist()) == expected
    assert ranks(found).max(initial=0) < n


def summary_of(points: Points, n_top: int) -> Summary:
    return Summary(
        (pareto(points), pareto(points)),
        cheapest(points),
        {"": points.row.size},
        points.row.size,
        0,
        cheapest_n(points, n_top),
        n_top,
    )


@given(st.lists(POINT, max_size=60), st.randoms(use_true_random=False), st.integers(1, 8), st.integers(1, 4))
def test_a_running_summary_equals_that_of_all_rows(rows, random, size, n_top) -> None:  # type: ignore[no-untyped-def]
    whole = points_of(rows)
    starts = list(range(0, len(rows), size))
    random.shuffle(starts)
    running = Running()
    for start in starts:
        running.add(summary_of(whole.take((whole.row >= start) & (whole.row < start + size)), n_top))
    total, expected = running.total(), summary_of(whole, n_top)
    assert total.rows.tolist() == expected.rows.tolist()
    assert total.frontiers[0].row.tolist() == brute_force(rows)
    assert total.reasons.get("", 0) == len(rows)


def test_a_frontier_of_all_rows_is_sorted_a_logarithm_of_times(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Where every row is on the frontier, a summary that took each block in turn would sort n^2 / block rows."""
    n, block = 2**14, 2**6
    falling = np.arange(n, dtype=float)
    whole = Points(np.arange(n, dtype=np.int64), np.zeros(n, np.int64), falling, -falling)
    joined = 0
    plain = Points.joined

    def counted(self: Points, other: Points) -> Points:
        nonlocal joined
        joined += self.row.size + other.row.size
        return plain(self, other)

    running = Running()
    summaries = [summary_of(whole.take((whole.row // block) == i), 0) for i in range(n // block)]
    monkeypatch.setattr(Points, "joined", counted)
    for summary in summaries:
        running.add(summary)
    assert running.total().frontiers[0].row.size == n
    assert joined <= 2.5 * n * np.log2(n / block)
