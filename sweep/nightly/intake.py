"""One night's traffic from its log, read once, batch by batch: what is kept adds up in any order.

Kept are sums per model and hour, arrivals per model and ten seconds, counts of lengths, and the night's requests
themselves (18 bytes each) up to a stated number, so that the busiest hour can be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import polars as pl

from sweep.nightly.days import DAY_NS, day_of, start_ns
from sweep.nightly.sketch import bin_of, micro_log
from sweep.traces.batch import Batch, ModelCodes
from sweep.traces.summary import HOUR_NS

WINDOW_S = 10
MOST_KEPT = 2**24
"""Requests of the night that are kept at once; beyond it each model's quieter hours are let go (302 MB)."""
COMPACT_ROWS = 500_000
SUMS = ("requests", "isl", "osl", "ln_isl", "ln_osl", "ln_isl2", "ln_osl2", "ln_both")


def _sums() -> list[pl.Expr]:
    """Whole numbers only: a float's last digit would depend on the size of the batches."""
    x, y = micro_log("isl"), micro_log("osl")
    square = 1000  # keeps the sum of squares of 10^9 requests in 64 bits
    return [
        pl.len().cast(pl.Int64).alias("requests"),
        pl.col("isl").cast(pl.Int64).sum(),
        pl.col("osl").cast(pl.Int64).sum(),
        x.sum().alias("ln_isl"),
        y.sum().alias("ln_osl"),
        ((x // square) ** 2).sum().alias("ln_isl2"),
        ((y // square) ** 2).sum().alias("ln_osl2"),
        ((x // square) * (y // square)).sum().alias("ln_both"),
    ]


@dataclass
class Tally:
    """A table that grows by batches and is summed up again before it gets long."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    parts: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0

    def add(self, part: pl.DataFrame) -> None:
        self.parts.append(part)
        self.rows += part.height
        if self.rows > COMPACT_ROWS and len(self.parts) > 8:
            self.parts = [self.frame()]
            self.rows = self.parts[0].height // 2

    def frame(self) -> pl.DataFrame:
        """One row per key, in order."""
        if not self.parts:
            return pl.DataFrame(schema=dict.fromkeys((*self.keys, *self.values), pl.Int64))
        return pl.concat(self.parts).group_by(self.keys).agg(pl.col(self.values).sum()).sort(self.keys)


class Intake:
    """A sink of `sweep.traces.reader.stream`. Without a `night` it is the day of the log's latest request."""

    def __init__(self, night: date | None, lookback_days: int) -> None:
        self.n = 0
        self.first_ns, self.last_ns = 2**63 - 1, -1
        self.lookback_ns = lookback_days * DAY_NS
        self.given = night
        self.models = ModelCodes()
        self.hours = Tally(("model", "hour"), SUMS)
        self._begin_night()

    def _begin_night(self) -> None:
        """Forget what is only wanted of one night."""
        self.windows = Tally(("model", "window"), ("requests",))
        self.lengths = Tally(("model", "hour", "role", "bin"), ("requests",))
        self._kept: list[pl.DataFrame] = []
        self._n_kept = 0
        self._gone: pl.DataFrame | None = None

    @property
    def night(self) -> date:
        """The night, or the best guess so far."""
        return self.given or day_of(max(self.last_ns, 0))

    def add(self, batch: Batch) -> None:
        """Take one batch."""
        if not len(batch):
            return
        self.n += len(batch)
        before = self.night
        self.first_ns = min(self.first_ns, int(batch.arrival_ns.min()))
        self.last_ns = max(self.last_ns, int(batch.arrival_ns.max()))
        if self.night > before:
            self._begin_night()
        codes = self.models.coded(
            pl.Series([""]).new_from_index(0, len(batch)) if batch.model is None else batch.model
        )
        start = start_ns(self.night)
        frame = pl.DataFrame(
            {"model": codes, "arrival": batch.arrival_ns, "isl": batch.isl, "osl": batch.osl}
        ).filter((pl.col("arrival") >= start - self.lookback_ns) & (pl.col("arrival") < start + DAY_NS))
        frame = frame.with_columns(hour=pl.col("arrival") // HOUR_NS)
        self.hours.add(frame.group_by("model", "hour").agg(_sums()).select("model", "hour", *SUMS))
        self._add_night(frame.filter(pl.col("arrival") >= start))

    def _add_night(self, frame: pl.DataFrame) -> None:
        """What is only wanted of the night itself."""
        if frame.is_empty():
            return
        window = (pl.col("arrival") // (WINDOW_S * 10**9)).alias("window")
        self.windows.add(frame.group_by("model", window).agg(requests=pl.len().cast(pl.Int64)))
        for role, name in enumerate(("isl", "osl")):
            counted = frame.group_by("model", "hour", bin=bin_of(name)).agg(requests=pl.len().cast(pl.Int64))
            self.lengths.add(
                counted.select("model", "hour", pl.lit(role, pl.Int64).alias("role"), "bin", "requests")
            )
        if self._gone is not None:
            frame = frame.join(self._gone, on=("model", "hour"), how="anti", maintain_order="left")
        self._kept.append(frame.drop("hour"))
        self._n_kept += frame.height
        if self._n_kept > MOST_KEPT:
            self._let_go()

    def _let_go(self) -> None:
        """Keep the busiest hours so far, half of what may be kept; the others are never taken again."""
        start = start_ns(self.night)
        night = self.hours.frame().filter(pl.col("hour") >= start // HOUR_NS)
        ranked = night.sort("requests", "hour", descending=(True, False))
        ranked = ranked.with_columns(rank=pl.int_range(pl.len()).over("model")).sort("rank", "model")
        stays = (pl.col("rank") == 0) | (pl.col("requests").cum_sum() <= MOST_KEPT // 2)
        self._gone = ranked.filter(~stays).select("model", "hour")
        hour = (pl.col("arrival") // HOUR_NS).alias("hour")
        held = pl.concat(self._kept).with_columns(hour)
        held = held.join(self._gone, on=("model", "hour"), how="anti", maintain_order="left").drop("hour")
        self._kept, self._n_kept = [held], held.height

    def requests_of(self, model: int, hour: int) -> pl.DataFrame:
        """The requests of a model in an hour (since 1970) in order of arrival; empty where they were let go."""
        start = hour * HOUR_NS
        of_hour = (
            (pl.col("model") == model) & (pl.col("arrival") >= start) & (pl.col("arrival") < start + HOUR_NS)
        )
        parts = [part.filter(of_hour) for part in self._kept]
        if not parts:
            return pl.DataFrame(schema={"arrival": pl.Int64, "isl": pl.Int32, "osl": pl.Int32})
        return pl.concat(parts).drop("model").sort("arrival", "isl", "osl")

    def minutes(self) -> pl.DataFrame:
        """Per model and hour of the night: requests/s in the busiest minute, and the dispersion within minutes.

        Dispersion = variance over mean of the arrivals in ten seconds, pooled over minutes, so that the rate's slow
        changes do not count: 6/5 (sum n^2 - sum over minutes of S^2 / 6) / sum n; 1 for Poisson, 1/shape for gamma gaps.
        """
        per_minute = 60 // WINDOW_S
        windows = self.windows.frame().with_columns(minute=pl.col("window") // per_minute)
        n = pl.col("requests")
        minutes = windows.group_by("model", "minute").agg(total=n.sum(), squares=(n**2).sum())
        within = (pl.col("squares").sum() - (pl.col("total") ** 2).sum() / per_minute) / (per_minute - 1)
        return (
            minutes.group_by("model", hour=pl.col("minute") // 60)
            .agg(minute=pl.col("total").max() / 60.0, dispersion=within * per_minute / pl.col("total").sum())
            .sort("model", "hour")
        )
