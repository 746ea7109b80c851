"""The page docs/hardware.md, made from the catalogue: `python -m sweep.catalog.hardware_page > docs/hardware.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from sweep.catalog.hardware import hardware, hardware_names, inherits_from
from sweep.catalog.prices import book_names, price_of

INTRO = """# Accelerators and prices

Made from `conf/hardware` and `conf/price` by `python -m sweep.catalog.hardware_page`. The source of every figure is the
comment on its line in `conf/hardware/<name>.yaml`; figures that nobody publishes are `-`, with the reason in that file.

- Peaks are dense (datasheets often print them with sparsity, twice as high), for fp8 with fp32 accumulation.
- Memory is what the driver offers to a process, in GiB (an "80 GB" H100 has 79.19); the marketed size stands beside it.
- Links are one direction: the sum over all links of a GPU. A pair of GPUs in a mesh has one link of it; GPUs of a
  `pairwise` server talk to all but their partner over PCIe.
- Latencies of one hop come from measured small all-reduces; the NIC's 3 us is an estimate.
- An accelerator without measured operator tables takes the efficiencies of the one under "as".
- Names are found by their usual spellings too: "NVIDIA H100 80GB HBM3", "A100-SXM4-80GB", "RTXPRO6000", "gfx950".

Your own accelerator: a file in `conf/hardware` with the same keys, or single figures on the command line
(`hardware=h100_sxm hardware.hbm_gb_s=5000`). Another server or rack: `cluster=pcie4`, `cluster.scale_up_gpus=16`.
"""
PRICES = """## Prices, $ per GPU-hour

Each book is made from dated quotes by one rule (`sweep/catalog/price_rule.py`): each provider counts once with its newest
quote, the price is the median over the providers of the last six months, or of the six months before the newest quote
where there is none that young (marked `*`). Low-trust quotes, planning constants and market ranges do not count. `-`: no
quote. In brackets: lowest to highest quote, providers, newest quote. The same chip differs several fold between
providers: `price.usd_per_gpu_hour=...` sets your own.
"""
FRESH = "2026-05-31"
"""Quotes older than this are marked: six months before the books' date."""


def page() -> str:
    """The whole page as Markdown."""
    entries = [hardware(name).fields for name in hardware_names()]
    compute = _table(
        "name|GiB (marketed GB)|HBM GB/s|bf16|fp8|int8|fp4 TFLOP/s|SMs|L2 MiB|TDP W|facility kW|as",
        (
            (
                f["name"],
                f"{_figure(f['hbm_gib'])} ({_figure(f['hbm_marketed_gb'])})",
                *(
                    _figure(f[k])
                    for k in ("hbm_gb_s", "tflops_bf16", "tflops_fp8", "tflops_int8", "tflops_fp4")
                ),
                *(_figure(f[k]) for k in ("sm_count", "l2_mib", "tdp_w", "facility_kw_per_gpu")),
                inherits_from(f["name"]) or "",
            )
            for f in entries
        ),
    )
    links = _table(
        "name|topology|domain|node|link GB/s|hop us|in-switch sum|NIC GB/s|host GB/s|host GiB",
        (
            (
                f["name"],
                f["topology"],
                *(_figure(f[k]) for k in ("domain_gpus", "node_gpus", "link_gb_s", "link_latency_us")),
                "yes" if f["multicast"] else "",
                *(_figure(f[k]) for k in ("nic_gb_s", "host_link_gb_s", "host_memory_gib_per_gpu")),
            )
            for f in entries
        ),
    )
    priced = [n for n in hardware_names() if any(price_of(b, n).usd_per_gpu_hour for b in book_names())]
    prices = _table(
        "|".join(["name", *book_names()]),
        ((n, *(_price(b, n) for b in book_names())) for n in priced if not n.endswith("_nvlink")),
    )
    return (
        "\n".join(
            [INTRO, "## Compute and memory\n", compute, "## Links and servers\n", links, PRICES, prices]
        ).rstrip("\n")
        + "\n"
    )


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    names = head.split("|")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _figure(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}"


def _price(book: str, name: str) -> str:
    fact = price_of(book, name)
    if fact.usd_per_gpu_hour is None:
        return "-"
    age = "*" if fact.date < FRESH else ""
    providers = fact.provider.count(", ") + 1
    span = f"{fact.low:g} to {fact.high:g}, {providers}, " if providers > 1 else ""
    return f"{fact.usd_per_gpu_hour:.2f}{age} ({span}{fact.date})"


if __name__ == "__main__":
    sys.stdout.write(page())
