"""Speculative decoding (group `speculation`)."""

from __future__ import annotations

from sweep.fields.columns import SPEED
from sweep.fields.spec import Field, Seed

_Q = "Does it speculate?"

FIELDS = (
    Field(
        key="speculation.speculative_num_tokens",
        doc="Draft tokens proposed per verify step; 0 = off.",
        kind="int",
        default=0,
        low=0,
        high=64,
        unit="tokens",
        question=_Q,
        seeds=(Seed("inferasim", "--speculative-num-tokens"),),
        moves=SPEED,
        regime=True,
    ),
    Field(
        key="speculation.speculative_acceptance_rate",
        doc="Chance that a draft token is accepted, given that those before it were.",
        kind="float",
        default=0.0,
        low=0,
        high=1,
        question=_Q,
        seeds=(Seed("inferasim", "--speculative-acceptance-rate"),),
        moves=SPEED,
        regime=True,
    ),
    Field(
        key="speculation.speculative_draft_cost_factor",
        doc="Draft forward per proposed token, as a share of one target decode step of one token.",
        kind="float",
        default=0.0,
        low=0,
        question=_Q,
        seeds=(Seed("inferasim", "--speculative-draft-cost-factor"),),
        moves=SPEED,
    ),
)
