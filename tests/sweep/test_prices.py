"""Price books: made by their rule from dated quotes, null where nobody quoted."""

import csv
from datetime import date

import pytest

from sweep.catalog.hardware import hardware_names, resolve_hardware
from sweep.catalog.price_rule import BOOKS, Quote, book_text, make_book, read_quotes
from sweep.catalog.prices import DEFAULT_BOOK, book_names, price_of, usd_in_table
from sweep.catalog.yaml_file import read_yaml
from sweep.errors import UserError
from sweep.paths import conf_dir

DAY = date(2026, 11, 30)


def quote(provider, usd, day, *, hardware="h100_sxm", tier="on-demand"):
    return Quote(hardware, provider, tier, usd, date.fromisoformat(day), day)


def book(*quotes):
    return make_book(quotes, BOOKS["on_demand"].takes, DAY)["h100_sxm"]


def test_the_books_are_those_of_the_rule():
    assert set(book_names()) == set(BOOKS)
    assert DEFAULT_BOOK in book_names()


@pytest.mark.parametrize("name", book_names())
def test_every_book_has_a_date_a_tier_and_an_entry_or_null_for_every_accelerator(name):
    content = read_yaml(conf_dir() / "price" / f"{name}.yaml")
    date.fromisoformat(content["date"])
    assert content["name"] == name
    assert content["tier"] == BOOKS[name].tier
    assert tuple(content["book"]) == hardware_names()


@pytest.mark.parametrize("name", book_names())
def test_a_price_lies_between_its_lowest_and_highest_quote(name):
    facts = [price_of(name, h) for h in hardware_names()]
    assert any(f.usd_per_gpu_hour for f in facts)
    for fact in facts:
        if fact.usd_per_gpu_hour is None:
            assert (fact.low, fact.high, fact.provider) == (None, None, "")
        else:
            assert 0 < fact.low <= fact.usd_per_gpu_hour <= fact.high
            assert fact.provider
            assert fact.date <= "2026-11-30"


def test_a_provider_counts_once_with_its_newest_and_then_lowest_quote():
    entry = book(
        quote("Lambda", 9.0, "2026-09-01"),
        quote("Lambda", 4.0, "2026-10-01"),
        quote("Lambda", 3.0, "2026-10-01"),
    )
    assert (entry.usd_per_gpu_hour, entry.providers) == (3.0, ("Lambda",))


def test_old_quotes_count_only_where_there_is_no_new_one():
    old, older, new = (
        quote("A", 1.0, "2026-02-01"),
        quote("B", 2.0, "2024-01-01"),
        quote("C", 5.0, "2026-11-01"),
    )
    assert book(old, older, new).usd_per_gpu_hour == 5.0
    assert book(old, older).usd_per_gpu_hour == 1.0
    assert book(older).until == "2024-01-01"


def test_quotes_after_the_book_and_of_another_tier_do_not_count():
    entry = book(
        quote("A", 1.0, "2026-12-01"),
        quote("B", 2.0, "2026-11-01", tier="spot"),
        quote("C", 3.0, "2026-11-01"),
    )
    assert entry.providers == ("C",)


def test_the_same_chip_differs_several_fold_between_providers():
    fact = price_of("on_demand", "h100_sxm")
    assert fact.high / fact.low > 4


def test_a_table_entry_may_be_a_mapping_a_number_or_null():
    table = {"a": {"usd_per_gpu_hour": 2}, "b": 3.5, "c": None}
    assert [usd_in_table(table, n) for n in ("a", "b", "c", "d")] == [2.0, 3.5, None, None]
    assert usd_in_table(None, "a") is None


def test_an_unknown_book_names_the_nearest():
    with pytest.raises(UserError, match="nearest: on_demand"):
        price_of("on_demnd", "h100_sxm")
    with pytest.raises(UserError, match="not in the catalogue"):
        price_of("on_demand", "h100")


@pytest.mark.measured
@pytest.mark.parametrize("name", book_names())
def test_the_shipped_book_is_what_the_rule_makes_of_the_quotes(shared, name):
    quotes = read_quotes(shared / "measured" / "gpu_prices.csv")
    assert (conf_dir() / "price" / f"{name}.yaml").read_text(encoding="utf-8") == book_text(name, quotes, DAY)


@pytest.mark.measured
def test_low_trust_rows_planning_constants_and_ranges_are_left_out(shared):
    quotes = read_quotes(shared / "measured" / "gpu_prices.csv")
    assert len(quotes) > 90
    assert not [q for q in quotes if q.tier in ("planning constant", "hyperscaler", "specialty", "long-tail")]
    assert 10.0775 not in {q.usd_per_gpu_hour for q in quotes}  # the AWS figure that contradicts the others


@pytest.mark.measured
def test_facility_power_is_the_published_one(shared):
    with (shared / "measured" / "gpu_power.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    for row in rows:
        entry = resolve_hardware(row["gpu"])
        assert entry.fields["facility_kw_per_gpu"] == float(row["all_in_kw_per_gpu"])
    published = {resolve_hardware(row["gpu"]).name for row in rows}
    assert not [n for n in hardware_names() if n not in published and _power(n) is not None]


def _power(name):
    return resolve_hardware(name).fields["facility_kw_per_gpu"]
