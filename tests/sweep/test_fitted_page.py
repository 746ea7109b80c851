"""The page of operator errors says what the fitted files say."""

from sweep.catalog.fitted import fitted_file
from sweep.catalog.fitted_page import page
from sweep.catalog.hardware import hardware_names
from sweep.paths import conf_dir


def test_the_page_in_the_docs_is_made_from_the_files():
    written = conf_dir().parent / "docs" / "operator_errors.md"
    assert written.read_text(encoding="utf-8") == page()


def test_every_measured_accelerator_has_its_table():
    text = page()
    assert all(f"## {name}\n" in text for name in hardware_names() if fitted_file(name))
