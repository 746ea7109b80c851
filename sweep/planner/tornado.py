"""tornado.png: how far each input moves the cost of the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sweep.planner.questions import SWING, Swing
from sweep.png import png_bytes

LOWER, HIGHER = "#0072B2", "#D55E00"


def tornado_png(swings: Sequence[Swing], usd_per_hour: float, title: str) -> bytes:
    """The chart as PNG: one bar per input, widest first; a star where another design wins at that end."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = Figure(figsize=(10, 0.5 * len(swings) + 2.0), dpi=110, layout="constrained")
    ax = figure.subplots()
    finite = [x for s in swings for x in (s.low_usd_per_hour, s.high_usd_per_hour) if math.isfinite(x)]
    edge = max([2.0 * usd_per_hour, *finite]) * 1.05
    for y, swing in enumerate(reversed(swings)):
        ends = (
            (swing.low_usd_per_hour, swing.low_winner, LOWER, "-"),
            (swing.high_usd_per_hour, swing.high_winner, HIGHER, "+"),
        )
        for usd, winner, colour, sign in ends:
            to = usd if math.isfinite(usd) else edge
            ax.barh(y, to - usd_per_hour, left=usd_per_hour, color=colour, height=0.6)
            if not math.isfinite(usd):
                ax.annotate("misses the SLO", (to, y), va="center", ha="right", fontsize=9, color="white")
            elif winner:
                ax.annotate(
                    f"* {sign}",
                    (to, y),
                    va="center",
                    ha="left" if to >= usd_per_hour else "right",
                    fontsize=11,
                )
    ax.set_yticks(range(len(swings)), [s.name for s in reversed(swings)])
    ax.axvline(usd_per_hour, color="black", linewidth=1)
    ax.set_xlabel("$/h of the answer's design, sized again (fractional replicas)")
    ax.set_title(title, fontsize=11, loc="left")
    ax.margins(x=0.08)
    handles = [
        Patch(color=LOWER, label=f"input {-SWING:+.0%}"),
        Patch(color=HIGHER, label=f"input {SWING:+.0%}"),
        Line2D([], [], color="black", marker="*", linestyle="none", label="another design wins"),
    ]
    ax.legend(handles=handles, frameon=False, loc="lower right")
    return png_bytes(figure)
