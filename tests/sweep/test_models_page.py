"""The page of models says what the catalogue says."""

from sweep.catalog.models import list_models
from sweep.catalog.models_page import page
from sweep.paths import conf_dir


def test_the_page_in_the_docs_is_made_from_the_catalogue():
    written = conf_dir().parent / "docs" / "models.md"
    assert written.read_text(encoding="utf-8") == page(), (
        "regenerate: python -m sweep.catalog.models_page > docs/models.md"
    )


def test_every_model_is_on_the_page_with_its_cached_bytes_per_token():
    lines = {line.split("|")[1].strip(): line for line in page().splitlines() if line.startswith("| ")}
    assert set(list_models()) <= set(lines)
    assert "| 131,072 |" in lines["llama_3_1_8b"]
    assert "| 70,272 |" in lines["kimi_k2_5"]
