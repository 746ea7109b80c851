"""One colour and marker per accelerator, the same in every plot of a run, safe for colour-blind eyes.

Colours: Okabe and Ito's palette, then Paul Tol's "muted" scheme; the marker tells apart what colours cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#332288",
    "#882255",
    "#999933",
    "#44AA99",
    "#AA4499",
    "#000000",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "d")
SYMBOLS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "star",
    "triangle-left",
    "triangle-right",
    "hexagon",
    "diamond-tall",
)
OTHER = "#BBBBBB"


def styles(accelerators: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Colour and marker number of each accelerator, in the order given; past the palette, grey."""
    return {
        name: (COLOURS[i] if i < len(COLOURS) else OTHER, i % len(MARKERS))
        for i, name in enumerate(accelerators)
    }
