"""How a price book is made from quotes: the rule, so that anyone can make one from their own.

    python -m sweep.catalog.price_rule QUOTES.csv on_demand 2026-11-30 > conf/price/on_demand.yaml

QUOTES.csv has the columns gpu, provider, tier, usd_per_gpu_hour, date (YYYY-MM or YYYY-MM-DD) and notes.

1. A quote counts if its accelerator is in the catalogue, its tier and provider belong to the book, and its notes do
   not call it low trust or no quote.
2. Each provider counts once per accelerator: its newest quote, of several on that date the lowest (its largest
   instance).
   RunPod prices that a page calls spot equal the Community list prices and count as those.
3. The price is the median over the providers quoted within 6 months before the book's date; where there is none,
   over those within 6 months before the newest quote there is (the entry's dates say so).
4. A variant bridged in pairs costs what its card costs.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from sweep.catalog.hardware import hardware_names, resolve_hardware
from sweep.errors import UserError

WINDOW = timedelta(days=183)
HYPERSCALERS = ("AWS", "Azure", "GCP")
MARKETPLACES = ("RunPod Community", "RunPod community", "Vast.ai")
DISTRUSTED = ("low trust", "not a quote", "low end")
"""Phrases in a quote's notes that rule it out; "low end" marks the edge of a market range."""


@dataclass(frozen=True)
class Quote:
    """What one provider asked for one GPU for one hour on one day."""

    hardware: str
    provider: str
    tier: str
    usd_per_gpu_hour: float
    day: date
    dated: str
    """The date as the source gives it: a month where it names no day."""


@dataclass(frozen=True)
class BookEntry:
    """Price of one accelerator in one book, with what stands behind it."""

    usd_per_gpu_hour: float
    low: float
    high: float
    providers: tuple[str, ...]
    since: str
    until: str


Rule = Callable[[Quote], bool]


@dataclass(frozen=True)
class BookKind:
    """What a book is of: words for its file, and which quotes it takes."""

    tier: str
    about: str
    takes: Rule


def _on_demand(quote: Quote) -> bool:
    return quote.tier.startswith("on-demand")


def _tier_is(tier: str) -> Rule:
    return lambda quote: quote.tier == tier


def _of(providers: Iterable[str]) -> Rule:
    names = tuple(providers)
    return lambda quote: quote.provider.startswith(names)


_MODEL = "SemiAnalysis cost model as the InferenceX application ships it"

BOOKS: dict[str, BookKind] = {
    "on_demand": BookKind(
        "on-demand", "List prices of clouds and marketplaces, median over providers.", _on_demand
    ),
    "hyperscaler": BookKind(
        "on-demand, hyperscaler",
        "List prices of AWS, Azure and GCP, median over providers.",
        lambda q: _on_demand(q) and _of(HYPERSCALERS)(q),
    ),
    "neocloud": BookKind(
        "on-demand, neocloud",
        "List prices of GPU clouds that are neither hyperscalers nor marketplaces, median over providers.",
        lambda q: _on_demand(q) and not _of((*HYPERSCALERS, *MARKETPLACES))(q),
    ),
    "marketplace": BookKind(
        "on-demand, marketplace",
        "Prices of hosts on marketplaces, median over marketplaces.",
        lambda q: _on_demand(q) and _of(MARKETPLACES)(q),
    ),
    "rental_3y": BookKind("3-year rental", f"{_MODEL}: renting for three years.", _tier_is("3-year rental")),
    "tco_hyperscaler": BookKind(
        "total cost of ownership, hyperscaler",
        f"{_MODEL}: owning, at a hyperscaler's cost of capital and power.",
        _tier_is("total cost of ownership, hyperscaler"),
    ),
    "tco_neocloud": BookKind(
        "total cost of ownership, neocloud",
        f"{_MODEL}: owning, at a neocloud's cost of capital and power.",
        _tier_is("total cost of ownership, neocloud"),
    ),
    "lease_2025": BookKind(
        "lease", "The $2 per hour that DeepSeek assumes for its figures of 2025.", _tier_is("lease")
    ),
}


def read_quotes(file: Path) -> list[Quote]:
    """Usable quotes in `file`; accelerators outside the catalogue are left out."""
    with file.open(encoding="utf-8", newline="") as rows:
        return [q for row in csv.DictReader(rows) if (q := _quote(row)) is not None]


def make_book(quotes: Iterable[Quote], rule: Rule, day: date) -> dict[str, BookEntry]:
    """The book of `day` by accelerator name, sorted."""
    by_hardware: dict[str, list[Quote]] = {}
    for quote in quotes:
        if rule(quote) and quote.day <= day:
            by_hardware.setdefault(quote.hardware, []).append(quote)
    return {name: _entry(by_hardware[name], day) for name in sorted(by_hardware)}


def book_text(name: str, quotes: Iterable[Quote], day: date) -> str:
    """The YAML file of book `name`: every accelerator of the catalogue, null where no quote counts."""
    kind = BOOKS[name]
    entries = make_book(quotes, kind.takes, day)
    lines = [
        f"# {kind.about}",
        "# Made from quotes by the rule in sweep/catalog/price_rule.py; null: no usable quote of this tier.",
        f"name: {name}",
        f"tier: {json.dumps(kind.tier)}",
        f'date: "{day}"',
        "book:",
    ]
    for hardware in hardware_names():
        entry = entries.get(hardware.removesuffix("_pairwise_nvlink"), entries.get(hardware))
        lines.append(f"  {hardware}: {'null' if entry is None else _entry_text(entry)}")
    return "\n".join(lines) + "\n"


def _quote(row: dict[str, str]) -> Quote | None:
    if any(phrase in row["notes"].casefold() for phrase in DISTRUSTED) or row["provider"].startswith(
        "median of"
    ):
        return None
    try:
        hardware = resolve_hardware(row["gpu"]).name
    except UserError:
        return None
    provider, tier = row["provider"], row["tier"]
    if provider == "RunPod" and tier.startswith("spot (as the page"):
        provider, tier = "RunPod Community", "on-demand"
    day = row["date"] if row["date"].count("-") == 2 else f"{row['date']}-01"
    return Quote(
        hardware, provider, tier, float(row["usd_per_gpu_hour"]), date.fromisoformat(day), row["date"]
    )


def _entry(quotes: list[Quote], day: date) -> BookEntry:
    newest = max(q.day for q in quotes)
    start = (day if newest >= day - WINDOW else newest) - WINDOW
    latest: dict[str, Quote] = {}
    for quote in sorted(quotes, key=lambda q: (q.day, -q.usd_per_gpu_hour)):
        if quote.day >= start:
            latest[quote.provider] = quote
    prices = [q.usd_per_gpu_hour for q in latest.values()]
    return BookEntry(
        usd_per_gpu_hour=round(statistics.median(prices), 4),
        low=min(prices),
        high=max(prices),
        providers=tuple(sorted(latest)),
        since=min(latest.values(), key=lambda q: q.day).dated,
        until=max(latest.values(), key=lambda q: q.day).dated,
    )


def _entry_text(entry: BookEntry) -> str:
    """One entry as a YAML flow mapping."""
    figures = f"usd_per_gpu_hour: {entry.usd_per_gpu_hour:g}, low: {entry.low:g}, high: {entry.high:g}"
    return f'{{{figures}, since: "{entry.since}", until: "{entry.until}", providers: {json.dumps(entry.providers)}}}'


if __name__ == "__main__":
    _file, _name, _day = sys.argv[1:]
    sys.stdout.write(book_text(_name, read_quotes(Path(_file)), date.fromisoformat(_day)))
