"""Mixture of experts at run time (group `moe`)."""

from __future__ import annotations

from sweep.fields.columns import FIT, SPEED
from sweep.fields.spec import Field, Seed

_Q = "How do experts share the work?"

FIELDS = (
    Field(
        key="moe.ep_load_balance",
        doc="Routing imbalance: token load of the hottest expert rank over the mean; acts inside the roofline, only when moe_ep > 1.",
        kind="float",
        default=1.0,
        low=1,
        question=_Q,
        seeds=(Seed("inferasim", "--ep-load-balance"),),
        moves=SPEED,
        regime=True,
    ),
    Field(
        key="moe.redundant_experts",
        doc="Extra replicated expert slots: they take memory and shrink the imbalance, 1 + (r - 1) E / (E + extra).",
        kind="int",
        default=0,
        low=0,
        question=_Q,
        seeds=(Seed("inferasim", "--redundant-experts"),),
        moves=(*FIT, *SPEED),
    ),
    Field(
        key="moe.moe_routing_skew",
        doc="Zipf exponent of the router's popularity law: how many distinct experts a step touches.",
        kind="float",
        low=0,
        high=5,
        auto="fitted spread of popularity; 0: even routing",
        question=_Q,
        seeds=(Seed("inferasim", "--moe-routing-skew"),),
        moves=SPEED,
    ),
    Field(
        key="moe.router_coverage",
        doc="Measured router coverage: distinct experts reached over what independent routing predicts, as JSON {batch: fraction}.",
        kind="path",
        question=_Q,
        seeds=(Seed("inferasim", "--moe-router-coverage"),),
        moves=SPEED,
        column=False,
        auto="1: independent routing",
    ),
    *(
        Field(
            key=f"moe.coverage_{n}",
            doc=f"Router coverage at {n} tokens per step (set by router_coverage).",
            kind="float",
            default=1.0,
            low=0,
            low_open=True,
            high=1,
            question=_Q,
            moves=SPEED,
        )
        for n in (1, 4, 16, 64, 256, 1024)
    ),
)
