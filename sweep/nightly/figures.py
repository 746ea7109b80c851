"""The pictures of a night: traffic and its forecast, the replayed hour, the trend over the nights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl

from sweep.accelerator_style import COLOURS, MARKERS
from sweep.png import png_bytes

SEEN, EXPECTED, LIMIT = "#0072B2", "#D55E00", "#000000"
MOST_MODELS = 8
"""Panels of one picture: the models that cost most; tables hold the others."""
DAYS_SHOWN = 8
PANEL_INCHES = (11.0, 2.7)


def traffic_png(models: Sequence[Mapping[str, Any]], seen: pl.DataFrame, expected: pl.DataFrame) -> bytes:
    """Hourly rates of the last days and of the first days to come; `seen`, `expected`: log_name, hour, rate_per_s."""
    figure, axes = _panels(len(models), 1)
    figure.suptitle("Traffic seen and forecast (means of an hour, UTC)", fontsize=15)
    for one, (ax,) in zip(models, axes, strict=True):
        mine = pl.col("log_name") == one["log_name"]
        before, after = seen.filter(mine).sort("hour"), expected.filter(mine).sort("hour")
        before, after = before.tail(24 * DAYS_SHOWN), after.head(24 * DAYS_SHOWN)
        ax.plot(before["hour"].to_list(), before["rate_per_s"].to_list(), color=SEEN, label="seen")
        ax.plot(
            after["hour"].to_list(),
            after["rate_per_s"].to_list(),
            color=EXPECTED,
            linestyle="--",
            label="forecast",
        )
        if one.get("planned_requests_per_s"):
            ax.axhline(
                one["planned_requests_per_s"],
                color=LIMIT,
                linestyle=":",
                label="planned for: the forecast's peak x burst",
            )
        ax.set_title(title(one), fontsize=13, loc="left", fontweight="bold")
        ax.set_ylabel("requests/s")
        ax.set_ylim(bottom=0.0)
        _dates(ax)
    _legend(figure, axes[0][0])
    return png_bytes(figure)


def replay_png(models: Sequence[Mapping[str, Any]]) -> bytes | None:
    """TTFT and TPOT minute by minute in the replay of each model's busiest hour; None where nothing was replayed."""
    shown = [one for one in models if one.get("replay")]
    if not shown:
        return None
    figure, axes = _panels(len(shown), 2)
    figure.suptitle("The busiest hour replayed on the planned fleet", fontsize=15)
    for one, pair in zip(shown, axes, strict=True):
        minutes = one["replay"]["minutes"]
        for name, ax in zip(("ttft", "tpot"), pair, strict=True):
            ax.plot(
                [m["minute"] for m in minutes], [m[f"{name}_ms"] for m in minutes], color=SEEN, marker="o",
                markersize=3, label=f"p{one['replay']['percentile']:g} of a minute's requests",
            )  # fmt: skip
            whole = one["replay"]["latency_ms"].get(name)
            if whole is not None:
                ax.axhline(
                    whole,
                    color=EXPECTED,
                    linestyle="--",
                    label=f"p{one['replay']['percentile']:g} of all requests",
                )
            limit = one["limits_ms"].get(f"{name}_ms")
            if limit is not None:
                ax.axhline(limit, color=LIMIT, linestyle=":", label="SLO")
            ax.set_ylabel(f"{name.upper()}, ms")
            ax.set_ylim(bottom=0.0)
            ax.set_xlabel("minute of the replay")
        pair[0].set_title(title(one), fontsize=13, loc="left", fontweight="bold")
    _legend(figure, axes[0][0])
    return png_bytes(figure)


def trend_png(history: pl.DataFrame, models: Sequence[Mapping[str, Any]]) -> bytes:
    """GPUs and $/h of every night; large markers are plans that were announced."""
    figure, axes = _panels(2, 1)
    figure.suptitle("Plans night by night (large marker: announced)", fontsize=15)
    for k, one in enumerate(models):
        rows = history.filter((pl.col("log_name") == one["log_name"]) & (pl.col("status") == "planned")).sort(
            "night"
        )
        for column, (ax,) in zip(("gpus", "usd_per_hour"), axes, strict=True):
            style = {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
            ax.plot(rows["night"].to_list(), rows[column].to_list(), markersize=4, label=title(one), **style)
            told = rows.filter("announced")
            ax.plot(told["night"].to_list(), told[column].to_list(), markersize=9, linestyle="none", **style)
    for label, (ax,) in zip(("GPUs", "$ per hour"), axes, strict=True):
        ax.set_ylabel(label)
        ax.set_ylim(0.0, 1.08 * ax.get_ylim()[1])
        last = max(history["night"].to_list())
        first = min(min(history["night"].to_list()), last - timedelta(days=7))
        ax.set_xlim(first - timedelta(days=1), last + timedelta(days=1))
        _dates(ax)
    axes[0][0].yaxis.get_major_locator().set_params(integer=True)
    _legend(figure, axes[0][0])
    return png_bytes(figure)


def title(one: Mapping[str, Any]) -> str:
    """A model as pictures and tables call it: its name in the log, and in the catalogue where that differs."""
    name = one["log_name"] or "(not named)"
    model = one.get("model")
    return name if model in (None, name) else f"{name} ({model})"


def _panels(rows: int, columns: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PANEL_INCHES[0], PANEL_INCHES[1] * rows + 1.0), dpi=100, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, color="#e4e4e4", linewidth=0.6)
        ax.tick_params(labelsize=12)
        ax.xaxis.label.set_size(13)
        ax.yaxis.label.set_size(13)
    return figure, axes


def _dates(ax: Any) -> None:
    """Whole days, named by weekday where there is room."""
    from matplotlib import dates

    first, last = ax.get_xlim()
    every = max(1, math.ceil((last - first) / 7))
    ax.xaxis.set_major_locator(dates.DayLocator(interval=every))  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_formatter(dates.DateFormatter("%a %d %b" if every <= 6 else "%d %b %y"))  # type: ignore[no-untyped-call]


def _legend(figure: Any, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=12, frameon=False)
