"""One picture of a trace: its rate over time, its lengths, its gaps, and its prefix reuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import UserError
from sweep.files import write_atomic
from sweep.png import png_bytes
from sweep.traces.requests import Requests
from sweep.traces.summary import Summary, spread_ties

TRACE, FITTED = "#1f5fa8", "#d9772b"


def draw(path: Path, title: str, requests: Requests, summary: Summary, synthetic: Requests | None) -> None:
    """Write a PNG; `synthetic` is the fitted workload beside the trace. Raises UserError where it cannot be written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), dpi=130, layout="constrained")
    axes = figure.subplots(2, 2)
    figure.suptitle(title, fontsize=12)
    _rates(axes[0][0], requests, summary)
    _lengths(axes[0][1], requests, synthetic)
    _gaps(axes[1][0], requests, summary, synthetic)
    _reuse(axes[1][1], requests, summary)
    for axis in axes.flat:
        axis.grid(True, color="#e4e4e4", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # results/, where no name is given
        write_atomic(path, png_bytes(figure))
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _rates(axis: Any, requests: Requests, summary: Summary) -> None:
    arrival_s = requests.arrival_ns[: requests.n_open] / 1e9
    span = max(float(arrival_s[-1] - arrival_s[0]), 1.0)
    unit, scale = (
        ("hours", 3600.0) if span > 3 * 3600 else ("minutes", 60.0) if span > 180 else ("seconds", 1.0)
    )
    number, edges = np.histogram(arrival_s - arrival_s[0], bins=np.linspace(0.0, span, 121))
    axis.step(edges[:-1] / scale, number / np.diff(edges), where="post", color=TRACE, linewidth=1.0)
    axis.axhline(summary.rate_per_s, color="#777777", linewidth=0.9, linestyle="--")
    axis.annotate(f"mean {summary.rate_per_s:.3g}/s", (0.01, summary.rate_per_s), xycoords=("axes fraction", "data"),
                  va="bottom", fontsize=8, color="#555555", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    axis.set(
        xlabel=f"{unit} since the first request",
        ylabel="requests/s",
        title="Arrivals",
        ylim=(0, None),
        xlim=(0, span / scale),
    )


def _lengths(axis: Any, requests: Requests, synthetic: Requests | None) -> None:
    for name, style in (("isl", "-"), ("osl", "--")):
        label = {"isl": "prompt", "osl": "output"}[name]
        _share_below(axis, getattr(requests, name), TRACE, style, f"{label}, trace")
        if synthetic is not None:
            _share_below(axis, getattr(synthetic, name), FITTED, style, f"{label}, fitted lognormal")
    axis.set(
        xscale="log",
        xlabel="tokens",
        ylabel="share of requests at most as long",
        title="Lengths",
        ylim=(0, 1),
    )
    axis.legend(fontsize=8, frameon=False, loc="upper left")


def _share_below(axis: Any, values: Any, colour: str, style: str, label: str) -> None:
    share = np.linspace(0.0, 1.0, 801)
    axis.plot(np.quantile(values, share), share, color=colour, linestyle=style, linewidth=1.2, label=label)


def _gaps(axis: Any, requests: Requests, summary: Summary, synthetic: Requests | None) -> None:
    arrival_ns = requests.arrival_ns[: requests.n_open]
    gap_s = np.diff(spread_ties(arrival_ns, round(summary.clock_step_s * 1e9))) / 1e9
    _share_above(axis, gap_s, TRACE, "-", f"trace (cv {summary.gap_cv:.2f})")
    if synthetic is not None:
        _share_above(axis, np.diff(synthetic.arrival_ns) / 1e9, FITTED, "-", "fitted gamma")
    if summary.rate_per_s > 0 and len(gap_s):
        longest = max(float(gap_s.max()), 1e-9)
        grid = np.linspace(0.0, longest, 200)
        axis.plot(
            grid,
            np.exp(-grid * summary.rate_per_s),
            color="#999999",
            linestyle=":",
            label="Poisson of this rate",
        )
        axis.set(xlim=(0, longest))
    axis.set(
        yscale="log",
        xlabel="gap between arrivals, s",
        ylabel="share of gaps at least as long",
        title="Burstiness",
    )
    axis.set_ylim(0.5 / max(len(gap_s), 2), 1.2)
    axis.legend(fontsize=8, frameon=False)


def _share_above(axis: Any, values: Any, colour: str, style: str, label: str) -> None:
    share = 1.0 - np.concatenate([np.linspace(0.0, 0.99, 400), 1.0 - np.geomspace(1e-2, 1e-7, 200)])
    axis.plot(np.quantile(values, 1.0 - share) if len(values) else [], share if len(values) else [], color=colour,
              linestyle=style, linewidth=1.2, label=label)  # fmt: skip


def _reuse(axis: Any, requests: Requests, summary: Summary) -> None:
    found = summary.reuse
    if found is None:
        axis.set_title("Prefix reuse")
        axis.text(
            0.5,
            0.5,
            "the trace does not identify its tokens",
            ha="center",
            transform=axis.transAxes,
            color="#777777",
        )
        axis.set(xticks=[], yticks=[])
        return
    axis.plot(found.cache_blocks * found.block_tokens, found.cache_hit_rate, color=TRACE, linewidth=1.4)
    axis.axhline(found.hit_rate, color="#777777", linewidth=0.9, linestyle="--")
    axis.annotate(f"unlimited cache: {found.hit_rate:.1%}", (0.02, found.hit_rate), xycoords=("axes fraction", "data"),
                  va="bottom", fontsize=8, color="#555555", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    axis.set(
        xscale="log",
        xlabel="KV tokens of an LRU prefix cache",
        ylabel="share of prompt tokens found",
        title="Prefix reuse",
    )
    axis.set_ylim(0, max(found.hit_rate * 1.15, 1e-3))
