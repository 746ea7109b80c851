"""The page of accelerators and prices says what the catalogue says."""

from sweep.catalog.hardware import hardware_names
from sweep.catalog.hardware_page import page
from sweep.paths import conf_dir


def test_the_page_in_the_docs_is_made_from_the_catalogue():
    written = conf_dir().parent / "docs" / "hardware.md"
    assert written.read_text(encoding="utf-8") == page()


def test_every_accelerator_is_on_the_page():
    text = page()
    assert all(f"| {name} |" in text for name in hardware_names())
