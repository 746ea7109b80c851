"""Money and power (group `price`)."""

from __future__ import annotations

from sweep.fields.columns import MONEY
from sweep.fields.spec import Field, Seed

_Q = "What does it cost?"

FIELDS = (
    Field(
        key="price.name",
        doc="Price book as results show it. Moves nothing: a label.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="price.tier",
        doc="What kind of price the book holds: on-demand, rental, total cost of ownership. Moves nothing: a label.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="price.date",
        doc="Day that the book's prices stand for. Moves nothing: provenance.",
        kind="text",
        default="",
        question=_Q,
        column=False,
    ),
    Field(
        key="price.usd_per_gpu_hour",
        doc="Price of one GPU for one hour.",
        kind="float",
        low=0,
        unit="$/GPU-h",
        auto="the price book's figure for this accelerator; no cost where it has none",
        question=_Q,
        seeds=(Seed("inferasim", "--gpu-cost-per-hour"),),
        moves=MONEY,
    ),
    Field(
        key="price.utilization",
        doc="Share of paid time that carries load; cost divides by it.",
        kind="float",
        default=1.0,
        low=0,
        high=1,
        low_open=True,
        question=_Q,
        moves=MONEY,
    ),
)
