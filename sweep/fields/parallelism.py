"""Parallel shape (group `parallelism`).

One definition of the GPU count: gpus = tp * attention_dp * pp * cp per replica; the expert grid
covers the same GPUs: moe_tp * moe_ep = tp * attention_dp.
"""

from __future__ import annotations

from sweep.fields.spec import Field, Seed

_Q = "How is it sharded?"


def _degree(
    key: str, doc: str, default: int | None = 1, *, auto: str = "", seeds: tuple[Seed, ...] = ()
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
    )


FIELDS = (
    _degree("tp", "Tensor-parallel width of attention.", seeds=(Seed("inferasim", "INFERASIM_TP"),)),
    _degree("pp", "Pipeline stages.", seeds=(Seed("inferasim", "INFERASIM_PP"),)),
    _degree("cp", "Context-parallel width.", seeds=(Seed("inferasim", "INFERASIM_CP"),)),
    _degree("attention_dp", "Data-parallel attention ranks; each sees its own sequences."),
    _degree(
        "moe_ep",
        "Expert-parallel width.",
        None,
        auto="tp * attention_dp / moe_tp when moe_tp is given; else the whole group under attention DP, else 1",
        seeds=(Seed("inferasim", "INFERASIM_EP"),),
    ),
    _degree("moe_tp", "Tensor-parallel width inside an expert.", None, auto="tp * attention_dp / moe_ep"),
)
