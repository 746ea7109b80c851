"""The README's table and picture from a results directory of the main job: `python -m sweep.readme_page DIR` (`make readme`)."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from sweep.files import write_atomic
from sweep.parquet_file import read_parquet
from sweep.plots import pareto_png
from sweep.run import FRONTIER, reopen
from sweep.tables import best_deployments, cell, head

MODELS = ("llama_3_1_8b", "llama_3_1_70b", "deepseek_v3")
START, END = "<!-- table -->", "<!-- end of table -->"
LEFT_OUT = ("row",)


def main(arguments: list[str]) -> int:
    """Rewrite README.md and docs/pareto.png under the working directory."""
    folder = Path(arguments[0])
    grid = reopen(folder).grid
    frame = read_parquet(folder / FRONTIER).filter(pl.col("model").cast(pl.String).is_in(MODELS))
    readme = Path("README.md")
    text = readme.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    table = markdown(best_deployments(frame, grid).drop(LEFT_OUT))
    write_atomic(readme, f"{before}{START}\n\n{table}\n{END}{after}".encode())
    picture = pareto_png(frame, grid)
    assert picture is not None
    write_atomic(Path("docs/pareto.png"), picture)
    return 0


def markdown(table: pl.DataFrame) -> str:
    """A table of deployments as Markdown."""
    rows = ([cell(c, v) for c, v in zip(table.columns, row, strict=True)] for row in table.iter_rows())
    heads = [head(c) for c in table.columns]
    lines = [f"| {' | '.join(words)} |\n" for words in (heads, *rows)]
    return "".join([lines[0], "|---" * table.width + "|\n", *lines[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
