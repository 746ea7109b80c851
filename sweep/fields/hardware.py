"""Accelerator, node and rack (group `hardware`)."""

from __future__ import annotations

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
) -> Field:
    return Field(
        key=f"hardware.{key}", doc=doc, kind="float", unit=unit, low=0, auto=auto, question=_Q, seeds=seeds
    )


FIELDS = (
    Field(
        key="hardware.name",
        doc="Accelerator as results show it.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="hardware.family",
        doc="Architecture family; a GPU without measured tables inherits from its relatives.",
        kind="choice",
        choices=FAMILIES,
        default="other",
        question=_Q,
    ),
    Field(
        key="hardware.inherits",
        doc="Accelerator whose measured efficiencies this one takes where it has none of its own; empty: none.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="hardware.source",
        doc="Where the accelerator's figures come from.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    _figure("hbm_gib", "Memory of one GPU as its driver reports it (an 80 GB H100 has 79.19 GiB).", "GiB"),
    _figure("hbm_marketed_gb", "Memory of one GPU as it is sold.", "GB"),
    _figure("hbm_gb_s", "Peak memory bandwidth of one GPU.", "GB/s"),
    _figure("tflops_fp32", "Dense peak for float32 GEMM (TF32 where engines use it).", "TFLOP/s"),
    _figure("tflops_bf16", "Dense peak for 16-bit GEMM.", "TFLOP/s"),
    _figure("tflops_fp8", "Dense peak for fp8 GEMM; null where there is no fp8 math.", "TFLOP/s"),
    _figure("tflops_int8", "Dense peak for int8 GEMM; null where there is none.", "TOP/s"),
    _figure("tflops_fp4", "Dense peak for fp4 GEMM; null where there is no fp4 math.", "TFLOP/s"),
    _figure("sm_count", "Streaming multiprocessors (compute units).", ""),
    _figure("l2_mib", "Last-level cache.", "MiB"),
    _figure("clock_mhz", "Boost clock that the compute peaks stand for.", "MHz"),
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
    ),
    _figure("domain_gpus", "GPUs in one scale-up domain (HGX 8, NVL72 72, a PCIe server 8).", ""),
    _figure("node_gpus", "GPUs in one node (host); a rack-scale domain spans nodes.", ""),
    _figure(
        "link_gb_s",
        "Scale-up bandwidth of one GPU, one direction: the sum over its links (a pair in a mesh has "
        "link_gb_s / (domain_gpus - 1); pairs of a pairwise topology talk over host_link_gb_s).",
        "GB/s",
    ),
    _figure("link_latency_us", "Latency of one scale-up hop.", "us"),
    Field(
        key="hardware.multicast",
        doc="Whether the switch reduces in the network (NVLS).",
        kind="bool",
        default=False,
        question=_Q,
    ),
    _figure("nic_gb_s", "Scale-out (NIC) bandwidth per GPU, one direction.", "GB/s"),
    _figure("nic_latency_us", "Latency of one scale-out hop.", "us"),
    _figure(
        "host_link_gb_s", "Host link of one GPU, one direction (PCIe 5 x16: 64; NVLink-C2C: 450).", "GB/s"
    ),
    _figure("host_memory_gib_per_gpu", "Host memory per GPU in the usual server.", "GiB"),
    _figure("tdp_w", "Thermal design power of one GPU.", "W"),
    _figure(
        "facility_kw_per_gpu",
        "All-in facility power per GPU: server, network, cooling.",
        "kW",
        auto="not published: 1.5 x TDP is used and said",
    ),
)
