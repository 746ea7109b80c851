"""Price books: $/GPU-hour by accelerator, with provider, tier and date.

A book is made from quotes by `sweep.catalog.price_rule`; a price is an input with a date, never a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sweep.catalog.hardware import hardware
from sweep.catalog.yaml_file import read_yaml
from sweep.errors import UserError, nearest
from sweep.paths import conf_dir

DEFAULT_BOOK = "on_demand"
MOST_USD = 1e9
"""$/GPU-hour above which a figure is taken for a mistake."""


@dataclass(frozen=True)
class PriceFact:
    """Price of one accelerator in one book; `usd_per_gpu_hour` is None where nothing was quoted."""

    usd_per_gpu_hour: float | None
    date: str
    """Newest quote behind the price; the book's own date where there is none."""
    provider: str
    """Providers whose prices the median is over."""
    tier: str
    low: float | None
    high: float | None
    source: str


@cache
def book_names() -> tuple[str, ...]:
    """Price books, sorted."""
    return tuple(sorted(path.stem for path in (conf_dir() / "price").glob("*.yaml")))


def price_of(book: str, hardware_name: str) -> PriceFact:
    """What `book` says of the accelerator with this catalogue name.

    Raises UserError for a book or an accelerator that does not exist.
    """
    content = _book(book)
    table = content["book"]
    entry = table.get(hardware(hardware_name).name)
    source = f"price book {book} of {content['date']}"
    if entry is None:
        return PriceFact(None, content["date"], "", content["tier"], None, None, f"{source}: no usable quote")
    providers = entry["providers"]
    return PriceFact(
        usd_per_gpu_hour=entry["usd_per_gpu_hour"],
        date=entry["until"],
        provider=", ".join(providers),
        tier=content["tier"],
        low=entry["low"],
        high=entry["high"],
        source=f"{source}: median of {len(providers)}" if len(providers) > 1 else source,
    )


def usd_in_table(table: Mapping[str, Any] | None, hardware_name: str) -> float | None:
    """$/GPU-hour in a book's table, whose entries are a mapping, a bare number, or null. Raises UserError for others."""
    if table is not None and not isinstance(table, Mapping):
        raise UserError("is not a table of accelerators", field="price.book", value=table)
    entry = (table or {}).get(hardware_name)
    value = entry.get("usd_per_gpu_hour") if isinstance(entry, Mapping) else entry
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_USD:
        raise UserError(
            "is no price",
            field=f"price.book.{hardware_name}",
            value=value,
            allowed=f"$/GPU-hour up to {MOST_USD:g}, or null",
        )
    return float(value)


@cache
def _book(name: str) -> dict[str, Any]:
    if name not in book_names():
        raise UserError("is no price book", field="price", value=name, near=nearest(name, book_names()))
    return read_yaml(conf_dir() / "price" / f"{name}.yaml")
