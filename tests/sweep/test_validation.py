"""Scoring against measured tables: the right figures, per slice, and tables that hold none refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sweep.anchors.points import point_anchors
from sweep.errors import UserError
from sweep.parity_plot import parity_plot
from sweep.points import price_points
from sweep.validation import figures, score, validate
from sweep.validation_page import BEGIN, END, write_page

ROWS = [
    {
        "id": f"r{c}",
        "model": "llama_3_1_8b",
        "hardware": hw,
        "backend": "vllm",
        "isl": 1024,
        "osl": 256,
        "concurrency": c,
    }
    for hw in ("h100_sxm", "h200_sxm")
    for c in (4, 16, 64)
]


def measured(factor: float) -> pl.DataFrame:
    """A table whose measured figures are the model's own times `factor`."""
    frame = pl.DataFrame(ROWS).with_columns(pl.concat_str("hardware", "id").alias("id"))
    answer = price_points(frame)
    return frame.with_columns(
        (answer["ttft_ms"] * factor).alias("measured_ttft_ms"),
        (answer["tpot_ms"] * factor).alias("measured_tpot_ms"),
    )


def test_an_estimate_twice_too_low_scores_fifty_percent_in_every_slice():
    for figure in figures(measured(2.0), "fitted"):
        scores = score(figure)
        assert scores["median_abs_percent"].to_list() == pytest.approx([50.0] * scores.height)
        assert scores["signed_percent"].to_list() == pytest.approx([-50.0] * scores.height)
        assert {"all", "hardware=h100_sxm", "backend=vllm"} <= set(scores["slice"])


def test_rows_whose_table_does_not_say_are_in_the_slice_of_what_they_were_taken_as():
    rows = measured(1.1).with_columns(
        mode=pl.Series([None, "agg", None, None, "agg", None], dtype=pl.String),
        backend=pl.Series([None] * 6, dtype=pl.String),
        gpu=pl.Series(["x", None, None, None, None, None], dtype=pl.String),
    )
    for figure in figures(rows, "fitted"):
        slices = dict(score(figure).select("slice", "rows").rows())
        assert slices["mode=agg"] == slices["backend=vllm"] == 6
        assert slices["gpu=x"] == 1
        assert not [name for name in slices if "None" in name]


def test_own_figures_lie_inside_their_interval():
    for figure in figures(measured(1.0), "fitted"):
        assert score(figure)["in_interval"].to_list() == [1.0] * score(figure).height


def test_a_table_without_measured_figures_is_refused(tmp_path: Path):
    pl.DataFrame(ROWS).write_csv(tmp_path / "plain.csv")
    with pytest.raises(UserError, match="holds no figure"):
        validate([tmp_path / "plain.csv"])


def test_the_parity_plot_is_written(tmp_path: Path):
    parity_plot(figures(measured(1.3), "fitted"), tmp_path / "parity.png")
    assert (tmp_path / "parity.png").stat().st_size > 10_000


def test_measured_tables_are_scored_whole(shared: Path):
    scores = validate([shared / "measured" / "silicon_dev.csv", shared / "measured" / "amd_dev.csv"])
    whole = scores.filter(pl.col("slice") == "all")
    assert whole["coverage"].min() > 0.98
    tpot = whole.filter(pl.col("figure") == "tpot_ms")
    assert tpot["median_abs_percent"].max() < 15.0


def test_the_short_table_goes_between_the_marks_of_a_file_and_the_page_into_any_other(tmp_path: Path):
    scores = validate_frame(measured(1.1), tmp_path)
    readme, page = tmp_path / "README.md", tmp_path / "page.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_page(scores, readme)
        write_page(scores, page)
    text = readme.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| table |")
    assert text.endswith(f"|\n{END}\nafter\n")
    assert "old" not in text
    assert text.count("| ttft_ms |") == 1
    assert page.read_text().count("| hardware=h100_sxm |") == 2


def validate_frame(frame: pl.DataFrame, folder: Path) -> pl.DataFrame:
    frame.write_csv(folder / "measured.csv")
    return validate([folder / "measured.csv"])


def test_real_runs_are_replayed_within_a_few_percent(shared: Path):
    scores = validate([shared / "measured/vllm_runs"], profiles=shared / "measured/operator_profiles").filter(
        pl.col("slice") == "all"
    )
    errors = dict(zip(scores["figure"], scores["median_abs_percent"], strict=True))
    assert set(errors) == {"simulated_ttft_ms", "simulated_tpot_ms", "simulated_e2e_ms"}
    assert max(errors.values()) < 3.0


def test_a_folder_without_runs_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="holds no run"):
        validate([tmp_path])


def test_anchors_bring_estimates_to_their_own_measurements(tmp_path: Path):
    frame = measured(1.5)
    frame.write_csv(tmp_path / "measured.csv")
    anchors = point_anchors(tmp_path / "measured.csv", "fitted")
    scores = validate([tmp_path / "measured.csv"], anchors=anchors).filter(pl.col("slice") == "all")
    assert scores["median_abs_percent"].to_list() == [0.0, 0.0]
    assert scores["in_interval"].to_list() == [1.0, 1.0]
