"""How far a measurement carries: the figures behind `sweep.anchors.laws`, from tables with measured rows.

    python -m sweep.anchors.reach TABLE...

pairs rows that share model, accelerator, engine, formats and client, and prints, by how far their loads, shapes or lengths
are apart, what share of one row's log error the other has, and the scatter that remains after the correction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from sweep.anchors.laws import TPOT_REACH, TTFT_REACH, Floats, remaining_width
from sweep.points import price_points
from sweep.table_io import read_table

REGIME = ("model", "hardware", "backend", "precision", "linear_dtype", "expert_dtype", "client")
SHAPE = ("tp", "attention_dp", "moe_ep")
PARTNERS = 12
"""Other rows of its regime that a row is paired with, drawn at random."""
LEAST_ROWS, LEAST_PAIRS = 4, 30
EDGES = (0.0, 0.1, 1.1, 2.1, 3.1, 5.1)
WEIGHTS = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows: distances in doublings, and ln(measured / model) of the row and of its partner, by latency."""

    load: Floats
    shape: Floats
    lengths: Floats
    errors: dict[str, tuple[Floats, Floats]]


def pairs_of(frame: pl.DataFrame, seed: int = 0) -> Pairs:
    """Pairs within the regimes of a table that has measured and predicted latencies."""
    rng = np.random.default_rng(seed)
    index: list[tuple[int, int]] = []
    numbered = frame.with_row_index("row")
    for _, group in numbered.group_by([c for c in REGIME if c in frame.columns], maintain_order=True):
        rows = group["row"].to_list()
        if len(rows) >= LEAST_ROWS:
            drawn = ((row, int(other)) for row in rows for other in rng.permutation(rows)[:PARTNERS])
            index += [(row, other) for row, other in drawn if row != other]
    first, second = np.array(index).T
    doublings = {
        c: np.log2(np.maximum(1.0, _numbers(frame, c))) for c in (*SHAPE, "isl", "osl", "concurrency")
    }
    apart = {c: np.abs(values[first] - values[second]) for c, values in doublings.items()}
    errors = {
        n: np.log(_numbers(frame, f"measured_{n}") / _numbers(frame, n)) for n in ("ttft_ms", "tpot_ms")
    }
    return Pairs(
        load=apart["concurrency"],
        shape=sum((apart[c] for c in SHAPE), np.zeros(first.size)),
        lengths=apart["isl"] + apart["osl"],
        errors={name: (values[first], values[second]) for name, values in errors.items()},
    )


def _numbers(frame: pl.DataFrame, column: str) -> Floats:
    return frame[column].cast(pl.Float64).fill_null(1.0).to_numpy()


def shares(pairs: Pairs) -> Iterator[str]:
    """Lines: by distance, the share of the partner's error that leaves the least of the row's own."""
    alike = {
        "load": (pairs.shape == 0) & (pairs.lengths == 0),
        "shape": (pairs.lengths == 0) & (pairs.load <= 1.0),
        "lengths": (pairs.shape == 0) & (pairs.load <= 1.0),
    }
    for kind, others in alike.items():
        apart: Floats = getattr(pairs, kind)
        for low, high in zip(EDGES, (*EDGES[1:], np.inf), strict=True):
            chosen = others & (apart >= low) & (apart < high)
            if chosen.sum() >= LEAST_PAIRS:
                found = ", ".join(
                    f"{name} {_share(*(e[chosen] for e in both)):.2f}" for name, both in pairs.errors.items()
                )
                yield f"{kind} {low:.1f} to {high:.1f} doublings apart, {chosen.sum()} pairs: {found}"


def _share(own: Floats, other: Floats) -> float:
    return float(WEIGHTS[int(np.argmin([np.median(np.abs(own - w * other)) for w in WEIGHTS]))])


def widths(pairs: Pairs) -> Iterator[str]:
    """Lines: by weight, the p10 to p90 width of log errors after the correction over that before, and the law's."""
    for name, reach in (("ttft_ms", TTFT_REACH), ("tpot_ms", TPOT_REACH)):
        weight = np.exp2(
            -(pairs.load / reach.load + pairs.shape / reach.shape + pairs.lengths / reach.lengths)
        )
        own, other = pairs.errors[name]
        for low in np.arange(0.1, 1.0, 0.15):
            chosen = (weight >= low) & (weight < low + 0.15)
            if chosen.sum() >= LEAST_PAIRS:
                before, after = own[chosen], (own - weight * other)[chosen]
                ratio = np.ptp(np.quantile(after, [0.1, 0.9])) / np.ptp(np.quantile(before, [0.1, 0.9]))
                law = float(remaining_width(weight[chosen].mean()))
                yield f"{name} weight {low:.2f} to {low + 0.15:.2f}, {chosen.sum()} pairs: width {ratio:.2f}, law {law:.2f}"


def main(argv: Sequence[str]) -> int:
    tables = [read_table(Path(name)) for name in argv]
    priced = [table.hstack(price_points(table).select("ttft_ms", "tpot_ms", "status")) for table in tables]
    frame = pl.concat(priced, how="diagonal_relaxed").filter(
        (pl.col("status") == "ok") & (pl.col("mode") == "agg")
    )
    pairs = pairs_of(frame)
    for line in (*shares(pairs), *widths(pairs)):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
