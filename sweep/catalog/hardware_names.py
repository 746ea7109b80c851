"""Spellings of accelerators: what clouds, drivers, benchmarks and engine logs call each catalogue entry.

A spelling is compared after `folded`: vendor and form-factor words, punctuation and case do not count.
"""

from __future__ import annotations

import re

ALIASES: dict[str, tuple[str, ...]] = {
    "a10": ("a10 pcie",),
    "a100_pcie_80": ("a100 pcie", "a100 pcie 80"),
    "a100_pcie_80_pairwise_nvlink": ("a100 pcie pairwise nvlink",),
    "a100_sxm_40": ("a100 40", "a100 40gb", "a100 sxm 40gb"),
    "a100_sxm_80": (
        "a100",
        "a100 sxm",
        "a100 80",
        "a100 80gb",
        "a100 nvlink",
        "a100 nvlink 3",
        "sm80",
        "sm_80",
    ),
    "a100_sxm_80_pairwise_nvlink": ("a100 pairwise nvlink",),
    "b200_sxm": ("b200", "b200 nvl8", "sm100", "sm_100"),
    "b300_sxm": ("b300", "b300 nvl8", "b300 nvl16", "sm103", "sm_103"),
    "gh200": ("gh200 96gb", "gh200 480gb"),
    "gb10": ("spark", "gb10 spark"),
    "gb200": ("gb200 nvl72", "gb200 sxm", "gb200 nvl", "gb200 nvl72 slice", "gb200 nvl72 4 slice"),
    "gb300": ("gb300 nvl72", "gb300 sxm", "gb300 nvl", "gb300 nvl72 slice"),
    "h100_nvl": ("h100 nvl 94",),
    "h100_pcie": (
        "h100 pcie 80",
        "h100 pcie nvlink",
        "h100 pcie nvlink bridge",
        "h100 nvlink",
        "h100 pcie pairwise nvlink",
    ),
    "h100_sxm": ("h100", "h100 sxm 80", "h100 nvl8", "h100 80", "sm90", "sm_90"),
    "h100_sxm_pairwise_nvlink": ("h100 pairwise nvlink",),
    "h20": ("h20 sxm", "h20 96", "h20 nvlink"),
    "h200_sxm": ("h200", "h200 141", "h200 nvl8"),
    "h800_sxm": ("h800", "h800 80"),
    "l4": ("l4 pcie",),
    "l40s": ("l40s pcie",),
    "mi300x": ("mi300", "gfx942", "mi300x oam"),
    "mi325x": ("mi325", "mi325x oam"),
    "mi350x": ("mi350", "mi350x oam"),
    "mi355x": ("mi355", "gfx950", "mi355x oam"),
    "rtx_3090": ("3090",),
    "rtx_3090_pairwise_nvlink": ("3090 pairwise nvlink",),
    "rtx_4090": ("4090",),
    "rtx_5090": ("5090",),
    "rtx_a6000": ("a6000",),
    "rtx_a6000_pairwise_nvlink": ("a6000 pairwise nvlink",),
    "rtx_pro_5000_72": ("rtx pro 5000", "pro 5000"),
    "rtx_pro_6000": ("rtx 6000 pro", "pro 6000", "rtx pro 6000 bse", "sm120", "sm_120"),
}
"""Spellings of each entry beside its own name."""

_NOISE = re.compile(
    r"nvidia|\bamd\b|instinct|geforce|tesla|quadro|blackwell|hopper|tensor core|accelerator|superchip|"
    r"\bgrace\b|\bgpus?\b|\bdgx\b|\bhgx\b|edition|server|workstation|hbm\d?e?|gddr\d?x?|\bac\b"
)
_FORM = re.compile(r"sxm\d?")
_MEMORY = re.compile(r"(\d{2,3}) ?gi?b\b")


def folded(text: str) -> str:
    """`text` without case, punctuation, vendor words and memory type: "NVIDIA H100-SXM5 80GB HBM3" = "h100sxm80gb"."""
    return re.sub(r"[^a-z0-9]", "", _FORM.sub("sxm", _NOISE.sub(" ", _spaced(text))))


def split_memory(text: str) -> tuple[str, float | None]:
    """`text` without its memory size, and that size in GB (None where it names none)."""
    spaced = _spaced(text)
    found = _MEMORY.search(spaced)
    return (_MEMORY.sub(" ", spaced), float(found.group(1))) if found else (spaced, None)


def _spaced(text: str) -> str:
    return text.casefold().replace("_", " ").replace("-", " ")
