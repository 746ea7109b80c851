"""Accelerator, node and rack (group `hardware`)."""

from __future__ import annotations

from sweep.fields.columns import ENERGY, EVERYTHING, FIT, SPEED
from sweep.fields.spec import Field, Seed

_Q = "Which accelerator?"
FAMILIES = ("ampere", "ada", "hopper", "blackwell", "blackwell_rtx", "cdna3", "cdna4", "other")
TOPOLOGIES = ("switch", "mesh", "pcie", "pairwise")


def _figure(
    key: str,
    doc: str,
    unit: str,
    *,
    auto: str = "unknown: null in the catalogue",
    seeds: tuple[Seed, ...] = (),
    moves: tuple[str, ...] = (*SPEED, "reason"),
    regime: bool = False,
    zero: bool = False,
) -> Field:
    """A figure of the datasheet; `zero`: it may be 0."""
    return Field(
        key=f"hardware.{key}",
        doc=doc,
        kind="float",
        unit=unit,
        low=0,
        low_open=not zero,
        auto=auto,
        question=_Q,
        seeds=seeds,
        moves=moves,
        regime=regime,
    )


FIELDS = (
    Field(
        key="hardware.name",
        doc="Accelerator: a name of the catalogue or a usual spelling (gfx942, gfx950 too).",
        kind="text",
        default="",
        question=_Q,
        column=False,
        seeds=(Seed("inferasim", "--gpu-arch"),),
        moves=EVERYTHING,
        regime=True,
    ),
    Field(
        key="hardware.family",
        doc="Architecture family; a GPU without measured tables inherits from its relatives.",
        kind="choice",
        choices=FAMILIES,
        default="other",
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    Field(
        key="hardware.inherits",
        doc="Accelerator whose measured efficiencies this one takes where it has none of its own; empty: none.",
        kind="text",
        default="",
        question=_Q,
        column=False,
        moves=SPEED,
    ),
    Field(
        key="hardware.source",
        doc="Where the accelerator's figures come from. Moves nothing: provenance.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    _figure(
        "hbm_gib",
        "Memory of one GPU as its driver reports it (an 80 GB H100 has 79.19 GiB).",
        "GiB",
        seeds=(Seed("inferasim", "--hbm-capacity-gb", zero=None),),
        moves=(*FIT, *SPEED),
        regime=True,
    ),
    _figure(
        "hbm_marketed_gb",
        "Memory of one GPU as it is sold. Moves nothing: for show.",
        "GB",
        moves=(),
        zero=True,
    ),
    _figure("hbm_gb_s", "Peak memory bandwidth of one GPU.", "GB/s"),
    _figure("tflops_fp32", "Dense peak for float32 GEMM (TF32 where engines use it).", "TFLOP/s"),
    _figure("tflops_bf16", "Dense peak for 16-bit GEMM.", "TFLOP/s"),
    _figure("tflops_fp8", "Dense peak for fp8 GEMM; null where there is no fp8 math.", "TFLOP/s"),
    _figure("tflops_int8", "Dense peak for int8 GEMM; null where there is none.", "TOP/s"),
    _figure("tflops_fp4", "Dense peak for fp4 GEMM; null where there is no fp4 math.", "TFLOP/s"),
    _figure(
        "sm_count",
        "Streaming multiprocessors (compute units): scratch of the sampler's kernels.",
        "",
        moves=(*FIT, *SPEED),
    ),
    _figure(
        "l2_mib",
        "Last-level cache. Moves nothing yet: fitted efficiencies contain it.",
        "MiB",
        moves=(),
        zero=True,
    ),
    _figure(
        "clock_mhz", "Clock that the compute peaks stand for; matters where gpu_clock_mhz is given.", "MHz"
    ),
    _figure(
        "gpu_clock_mhz",
        "Compute clock to assume: scales the compute peaks, not the memory.",
        "MHz",
        auto="the clock of the peaks",
        seeds=(Seed("inferasim", "--gpu-clock-mhz", zero=None),),
    ),
    Field(
        key="hardware.topology",
        doc=(
            "How GPUs of one scale-up domain are joined: switch, full mesh of links, host PCIe, or NVLink bridges "
            "in pairs with host PCIe between pairs."
        ),
        kind="choice",
        choices=TOPOLOGIES,
        default="switch",
        question=_Q,
        moves=SPEED,
    ),
    _figure("domain_gpus", "GPUs in one scale-up domain (HGX 8, NVL72 72, a PCIe server 8).", ""),
    _figure("node_gpus", "GPUs in one node (host); a rack-scale domain spans nodes.", ""),
    _figure(
        "link_gb_s",
        "Scale-up bandwidth of one GPU, one direction: the sum over its links (a pair in a mesh has "
        "link_gb_s / (domain_gpus - 1); pairs of a pairwise topology talk over host_link_gb_s).",
        "GB/s",
    ),
    _figure("link_latency_us", "Latency of one scale-up hop.", "us", zero=True),
    Field(
        key="hardware.multicast",
        doc="Whether the switch reduces in the network (NVLS).",
        kind="bool",
        default=False,
        question=_Q,
        moves=(*FIT, *SPEED),
    ),
    _figure("nic_gb_s", "Scale-out (NIC) bandwidth per GPU, one direction.", "GB/s"),
    _figure("nic_latency_us", "Latency of one scale-out hop.", "us", zero=True),
    _figure(
        "host_link_gb_s", "Host link of one GPU, one direction (PCIe 5 x16: 64; NVLink-C2C: 450).", "GB/s"
    ),
    _figure(
        "host_memory_gib_per_gpu",
        "Host memory per GPU in the usual server: a bound of the KV offload tier.",
        "GiB",
        moves=("held_tokens_total", *SPEED),
        zero=True,
    ),
    _figure("tdp_w", "Thermal design power of one GPU.", "W", moves=ENERGY, zero=True),
    _figure(
        "facility_kw_per_gpu",
        "All-in facility power per GPU: server, network, cooling.",
        "kW",
        auto="not published: 1.5 x TDP is used and said",
        moves=ENERGY,
    ),
)
