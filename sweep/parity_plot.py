"""The parity plot of `servesweep validate`: predicted against measured, a panel per figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sweep.accelerator_style import MARKERS, styles
from sweep.catalog.hardware import resolve_hardware
from sweep.errors import UserError
from sweep.files import write_atomic
from sweep.plots import scales
from sweep.png import png_bytes
from sweep.validation_figure import Figure

PANELS_ACROSS = 3
PANEL_INCHES = 5.0
NAMES_ACROSS = 6
FEW_POINTS, FEW_POINTS_SIZE, POINT_SIZE = 150, 36, 12
"""Below so many points in a panel they are drawn this large (square points)."""
MARGIN = 1.3
"""Factor between the outermost points and the edge."""
UNITS = {
    "_tok_s_per_gpu": "tokens/s per GPU",
    "_tokens": "tokens",
    "_ms": "ms",
    "_us": "us",
    "_gib": "GiB",
}


def parity_plot(measured: Sequence[Figure], file: Path) -> None:
    """Predicted against measured on equal log axes, one colour and marker per accelerator in all panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    across = min(PANELS_ACROSS, len(measured))
    down = -(-len(measured) // across)
    frames = [_by_accelerator(figure) for figure in measured]
    counts = pl.concat([frame.select("accelerator") for frame in frames])["accelerator"].value_counts()
    style = styles(counts.sort("count", "accelerator", descending=[True, False])["accelerator"].to_list())
    handles = [
        Line2D([], [], color=colour, marker=MARKERS[marker], linestyle="", markersize=8, label=name)
        for name, (colour, marker) in style.items()
    ]
    legend_inches = 0.3 * -(-len(handles) // NAMES_ACROSS)
    height = PANEL_INCHES * down + legend_inches
    canvas, panels = plt.subplots(down, across, figsize=(PANEL_INCHES * across, height), squeeze=False)
    for panel in panels.flat[len(measured) :]:
        panel.set_visible(False)
    for panel, figure, frame in zip(panels.flat, measured, frames, strict=False):
        _draw(panel, figure, frame, style)
    canvas.legend(
        handles=handles, loc="lower center", ncols=min(NAMES_ACROSS, len(handles)), fontsize=12, frameon=False
    )
    canvas.tight_layout(rect=(0, legend_inches / height, 1, 1))
    drawn = png_bytes(canvas, 90)
    plt.close(canvas)
    write_atomic(file, drawn)


def _draw(panel: Any, figure: Figure, frame: pl.DataFrame, style: Mapping[str, tuple[str, int]]) -> None:
    size = FEW_POINTS_SIZE if frame.height < FEW_POINTS else POINT_SIZE
    for name, (colour, marker) in style.items():
        own = frame.filter(pl.col("accelerator") == name)
        panel.scatter(
            own["measured"],
            own["predicted"],
            s=size,
            alpha=0.6,
            color=colour,
            marker=MARKERS[marker],
            linewidth=0,
            zorder=2,
        )
    suffix = next((suffix for suffix in UNITS if figure.name.endswith(suffix)), "")
    unit = f" ({UNITS[suffix]})" if suffix else ""
    panel.set_title(f"{figure.table}: {figure.name}" if figure.table else figure.name, fontsize=13)
    panel.set_xlabel("measured" + unit, fontsize=12)
    panel.set_ylabel("predicted" + unit, fontsize=12)
    panel.tick_params(labelsize=11)
    panel.set_box_aspect(1.0)
    _equal_axes(panel, frame)
    scales(panel)


def _equal_axes(panel: Any, frame: pl.DataFrame) -> None:
    """The same range on both axes, with the line of equality and a factor of two to both sides."""
    values = frame.select(pl.col("measured", "predicted").cast(pl.Float64)).to_numpy()
    values = values[values > 0.0]
    if not values.size:
        return
    ends = [values.min() / MARGIN, values.max() * MARGIN]
    panel.set(xlim=ends, ylim=ends)
    for factor, width in ((1.0, 1.2), (2.0, 0.8), (0.5, 0.8)):
        panel.plot(
            ends,
            [factor * end for end in ends],
            color="black",
            linewidth=width,
            linestyle="-" if factor == 1.0 else ":",
            zorder=1,
        )


def _by_accelerator(figure: Figure) -> pl.DataFrame:
    """Answered rows of a figure with their accelerator's catalogue name, where it has one."""
    column = "hardware" if "hardware" in figure.frame.columns else "gpu"
    frame = figure.frame.filter(pl.col("predicted").is_not_null() & pl.col(column).is_not_null())
    names = {name: _accelerator(name) for name in frame[column].unique().to_list()}
    return frame.with_columns(
        pl.col(column).replace_strict(names, return_dtype=pl.String).alias("accelerator")
    )


def _accelerator(name: str) -> str:
    try:
        return resolve_hardware(name).name
    except UserError:
        return name
