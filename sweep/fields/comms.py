"""Collectives and communication (group `comms`)."""

from __future__ import annotations

from sweep.fields.columns import SPEED
from sweep.fields.spec import Field, Seed

_Q = "What does communication cost?"
ALL_REDUCE_ALGORITHMS = ("auto", "ring", "one_shot", "two_shot", "hierarchical")
ALL_TO_ALL_ALGORITHMS = ("auto", "direct", "single_shot", "hierarchical")
COMM_MODELS = ("explicit", "builtin")

FIELDS = (
    Field(
        key="comms.comm_model",
        doc="explicit: priced collective by collective, overlap knobs apply; builtin: folded into layer time at full training-scale cost, no breakdown, no overlap.",
        kind="choice",
        choices=COMM_MODELS,
        default="explicit",
        question=_Q,
        seeds=(Seed("inferasim", "--comm-model"),),
        moves=SPEED,
    ),
    Field(
        key="comms.tp_allreduce_algo",
        doc="All-reduce algorithm of tensor parallelism.",
        kind="choice",
        choices=ALL_REDUCE_ALGORITHMS,
        default="auto",
        question=_Q,
        seeds=(Seed("inferasim", "--tp-allreduce-algo"),),
        moves=SPEED,
    ),
    Field(
        key="comms.ep_a2a_algo",
        doc="All-to-all algorithm of expert dispatch and combine.",
        kind="choice",
        choices=ALL_TO_ALL_ALGORITHMS,
        default="auto",
        question=_Q,
        seeds=(Seed("inferasim", "--ep-a2a-algo"),),
        moves=SPEED,
    ),
    Field(
        key="comms.prefill_comm_overlap",
        doc="Share of collective time hidden behind compute in steps with prefill, limited by the compute there is.",
        kind="float",
        default=0.0,
        low=0,
        high=1,
        question=_Q,
        seeds=(Seed("inferasim", "--prefill-comm-overlap"),),
        moves=SPEED,
        regime=True,
    ),
    Field(
        key="comms.decode_comm_overlap",
        doc="Share of collective time hidden behind compute in decode steps, limited by the compute there is.",
        kind="float",
        default=0.0,
        low=0,
        high=1,
        question=_Q,
        seeds=(Seed("inferasim", "--decode-comm-overlap"),),
        moves=SPEED,
        regime=True,
    ),
    Field(
        key="comms.tp_allreduce_efficiency",
        doc="Multiplier on all-reduce time; below 1 = a fused or overlapped speed-up.",
        kind="float",
        default=1.0,
        low=0,
        low_open=True,
        question=_Q,
        seeds=(Seed("inferasim", "--tp-allreduce-efficiency"),),
        moves=SPEED,
    ),
    Field(
        key="comms.ep_a2a_efficiency",
        doc="Multiplier on all-to-all time.",
        kind="float",
        default=1.0,
        low=0,
        low_open=True,
        question=_Q,
        seeds=(Seed("inferasim", "--ep-a2a-efficiency"),),
        moves=SPEED,
    ),
    Field(
        key="comms.quick_reduce",
        doc="Large all-reduces go over the links quantised (QuickReduce, INT4). auto: as the engine's measured stacks run it, "
        "with its measured kernel; true where none was measured: 0.6 x all-reduce time.",
        kind="bool",
        default=None,
        auto="on under vllm, sglang and atom on MI350X and MI355X, else off",
        question=_Q,
        seeds=(Seed("inferasim", "--quick-reduce"),),
        moves=SPEED,
    ),
    Field(
        key="comms.fuse_rmsnorm_allreduce",
        doc="All-reduce fused with the norm after it: 0.8 x all-reduce time.",
        kind="bool",
        default=False,
        question=_Q,
        seeds=(Seed("inferasim", "--fuse-rmsnorm-allreduce"),),
        moves=SPEED,
    ),
    Field(
        key="comms.enable_deepep",
        doc="Asynchronous expert all-to-all: hides 65 % of it.",
        kind="bool",
        default=False,
        question=_Q,
        seeds=(Seed("inferasim", "--enable-deepep"),),
        moves=SPEED,
    ),
    Field(
        key="comms.sync_free_stage",
        doc="SyncFree MoE stage: 1/2/3 hide 75/80/85 % of the all-to-all; any stage turns DeepEP on.",
        kind="int",
        default=0,
        low=0,
        high=3,
        question=_Q,
        seeds=(Seed("inferasim", "--sync-free-stage"),),
        moves=SPEED,
    ),
)
