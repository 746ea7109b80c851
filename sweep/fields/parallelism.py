"""Parallel shape (group `parallelism`).

One definition of the GPU count: gpus = tp * attention_dp * pp * cp per replica; the expert grid
covers the same GPUs: moe_tp * moe_ep = tp * attention_dp.
"""

from __future__ import annotations

from sweep.fields.columns import EVERYTHING, SPEED
from sweep.fields.spec import Field, Seed

_Q = "How is it sharded?"
SCHEDULES = (
    "auto",
    "zerobubble",
    "zerobubble-heuristic",
    "zbv-formatted",
    "zbv-greedy-half",
    "zbv-greedy-min",
    "seaailab-ilp",
    "all",
)
"""Order is that of the tables in `kernels.pipeline`."""


def _degree(
    key: str,
    doc: str,
    default: int | None = 1,
    *,
    auto: str = "",
    seeds: tuple[Seed, ...] = (),
    moves: tuple[str, ...] = EVERYTHING,
    regime: bool = False,
) -> Field:
    return Field(
        key=f"parallelism.{key}",
        doc=doc,
        kind="int",
        default=default,
        low=1,
        auto=auto,
        question=_Q,
        seeds=seeds,
        moves=moves,
        regime=regime,
    )


FIELDS = (
    _degree(
        "tp",
        "Tensor-parallel width of attention. The compatible command line's TP is tp x attention_dp; it is converted.",
        seeds=(Seed("inferasim", "INFERASIM_TP"),),
        regime=True,
    ),
    _degree("pp", "Pipeline stages.", seeds=(Seed("inferasim", "INFERASIM_PP"),), regime=True),
    _degree(
        "cp",
        "Context-parallel width: splits prompt tokens and the KV cache.",
        seeds=(Seed("inferasim", "INFERASIM_CP"),),
    ),
    _degree(
        "attention_dp",
        "Data-parallel attention ranks; each sees its own sequences. As --attention-dp-size it divides the given TP "
        "and adds no GPUs.",
        seeds=(Seed("inferasim", "--attention-dp-size"),),
        regime=True,
    ),
    _degree(
        "moe_ep",
        "Expert-parallel width, inside the tp x attention_dp group.",
        None,
        auto="tp * attention_dp / moe_tp when moe_tp is given; else the whole group under attention DP, else 1",
        seeds=(Seed("inferasim", "INFERASIM_EP"), Seed("inferasim", "--target-ep-size")),
        regime=True,
    ),
    _degree("moe_tp", "Tensor-parallel width inside an expert.", None, auto="tp * attention_dp / moe_ep"),
    _degree(
        "target_nodes",
        "Nodes that one replica is spread over: what crosses nodes pays NICs, and TP may be wider than a node.",
        None,
        auto="as few as hold the replica's GPUs",
        seeds=(
            Seed("inferasim", "--target-nodes", zero=None),
            Seed("inferasim", "--target-num-nodes", zero=None),
        ),
        moves=(*SPEED, "kv_transfer_ms", "reason"),
    ),
    _degree(
        "virtual_stages",
        "Chunks of layers per pipeline rank (interleaving): a shorter bubble for more hops.",
        None,
        auto="1; 2 under a V schedule (zbv-*)",
        seeds=(
            Seed("inferasim", "INFERASIM_VP"),
            Seed("inferasim", "--num-virtual-stages-per-pipeline-rank", zero=None),
        ),
        moves=SPEED,
    ),
    Field(
        key="parallelism.pipeline_schedule",
        doc="Pipeline schedule by its forward-only part, as serving has no backward pass: zbv-* place two chunks per rank "
        "in a V, zero-bubble ones let the next round enter before the last has drained; all takes the best.",
        kind="choice",
        choices=SCHEDULES,
        default="auto",
        question=_Q,
        seeds=(Seed("inferasim", "--pipeline-schedule-algorithm"),),
        moves=SPEED,
    ),
    Field(
        key="parallelism.enable_zero_bubble",
        doc="Whether the next round of micro-batches enters the pipeline before the last has drained; matters where "
        "rounds have a barrier (global_batch_size).",
        kind="bool",
        default=False,
        question=_Q,
        seeds=(Seed("inferasim", "--enable-zero-bubble"),),
        moves=SPEED,
    ),
    _degree(
        "micro_batch_size",
        "Decoding sequences of one micro-batch under pipeline parallelism; fewer micro-batches than stages leave bubbles.",
        None,
        auto="the running sequences over pp: every stage busy",
        seeds=(Seed("inferasim", "--micro-batch-size", zero=None),),
        moves=SPEED,
    ),
    _degree(
        "global_batch_size",
        "Decoding sequences of one pipeline round with a barrier at its end (the pipeline drains).",
        None,
        auto="no barrier: micro-batches follow each other without end",
        seeds=(Seed("inferasim", "--global-batch-size", zero=None),),
        moves=SPEED,
    ),
)
