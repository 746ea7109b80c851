"""What the accelerators stand in, where it differs from their usual server or rack (group `cluster`)."""

from __future__ import annotations

from sweep.fields.columns import SPEED
from sweep.fields.hardware import TOPOLOGIES
from sweep.fields.spec import Field

_Q = "What do the GPUs stand in?"

FIELDS = (
    Field(
        key="cluster.name",
        doc="Cluster as results show it. Moves nothing: a label.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="cluster.gpus_available",
        doc="GPUs there are; deployments that need more are infeasible.",
        kind="int",
        low=1,
        unit="GPUs",
        auto="no limit",
        question=_Q,
        moves=("reason",),
    ),
    Field(
        key="cluster.scale_up_gpus",
        doc="GPUs of one scale-up domain: they reach each other without a NIC.",
        kind="int",
        low=1,
        unit="GPUs",
        auto="the accelerator's usual domain (hardware.domain_gpus)",
        question=_Q,
        moves=(*SPEED, "reason"),
    ),
    Field(
        key="cluster.interconnect",
        doc="How the GPUs of one domain are joined; pcie uses host_link_gb_s.",
        kind="choice",
        choices=TOPOLOGIES,
        auto="as the accelerator usually is (hardware.topology)",
        question=_Q,
        moves=(*SPEED, "reason"),
    ),
)
