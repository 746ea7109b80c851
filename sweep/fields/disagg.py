"""Separate prefill and decode pools (group `disagg`)."""

from __future__ import annotations

from sweep.fields.columns import EVERYTHING, SPEED
from sweep.fields.spec import Field, Seed

_Q = "Are prefill and decode split?"
TRANSFER_BACKENDS = ("nixl", "mooncake", "mori")


def _pool(pool: str, name: str, doc: str, flag: str = "") -> Field:
    seeds = (Seed("inferasim", flag),) if flag else ()
    return Field(
        key=f"disagg.{pool}_{name}",
        doc=doc,
        kind="int",
        low=1,
        auto=f"the shared {name}",
        question=_Q,
        seeds=seeds,
        moves=EVERYTHING,
    )


def _shape(pool: str) -> tuple[Field, ...]:
    return (
        _pool(pool, "tp", f"Tensor-parallel width of a {pool} worker.", f"--{pool}-tp"),
        _pool(pool, "pp", f"Pipeline stages of a {pool} worker.", f"--{pool}-pp"),
        _pool(pool, "attention_dp", f"Attention-DP ranks of a {pool} worker.", f"--{pool}-attention-dp"),
        _pool(pool, "moe_ep", f"Expert-parallel width of a {pool} worker.", f"--{pool}-ep"),
        _pool(pool, "moe_tp", f"Tensor-parallel width inside an expert of a {pool} worker."),
    )


FIELDS = (
    Field(
        key="disagg.disaggregate",
        doc="Whether prefill and decode run in pools of their own.",
        kind="bool",
        default=False,
        question=_Q,
        seeds=(Seed("inferasim", "--disaggregate"),),
        moves=EVERYTHING,
    ),
    *_shape("prefill"),
    *_shape("decode"),
    Field(
        key="disagg.prefill_replicas",
        doc="Prefill workers.",
        kind="int",
        default=1,
        low=1,
        question=_Q,
        seeds=(Seed("inferasim", "--prefill-replicas"),),
        moves=(*SPEED, "gpus"),
    ),
    Field(
        key="disagg.decode_replicas",
        doc="Decode workers.",
        kind="int",
        default=1,
        low=1,
        question=_Q,
        seeds=(Seed("inferasim", "--decode-replicas"),),
        moves=(*SPEED, "gpus"),
    ),
    Field(
        key="disagg.prefill_batch_size",
        doc="Most requests in one prefill step of a worker's DP rank.",
        kind="int",
        low=1,
        auto="what the token budget holds",
        question=_Q,
        moves=(*SPEED, "gpus"),
    ),
    Field(
        key="disagg.decode_batch_size",
        doc="Most sequences that decode at once in a worker's DP rank.",
        kind="int",
        low=1,
        auto="what memory holds",
        question=_Q,
        moves=(*SPEED, "gpus"),
    ),
    Field(
        key="disagg.transfer_backend",
        doc="KV-transfer engine: sets bandwidth and latency (nixl 400 GB/s 5 us, mooncake 200 GB/s 10 us, mori 300 GB/s 7 us).",
        kind="choice",
        choices=TRANSFER_BACKENDS,
        auto="the fabric: 0.7 x NIC bandwidth of the narrower pool",
        question=_Q,
        seeds=(Seed("inferasim", "--transfer-backend"),),
        moves=(*SPEED, "kv_transfer_ms"),
    ),
    Field(
        key="disagg.kv_transfer_bw_gbps",
        doc="KV-transfer bandwidth per rank pair.",
        kind="float",
        low=0,
        low_open=True,
        unit="GB/s",
        auto="the backend's",
        question=_Q,
        seeds=(Seed("inferasim", "--kv-transfer-bw-gbps", zero=None),),
        moves=(*SPEED, "kv_transfer_ms"),
    ),
    Field(
        key="disagg.kv_transfer_latency_us",
        doc="KV-transfer latency.",
        kind="float",
        low=0,
        unit="us",
        auto="the backend's",
        question=_Q,
        seeds=(Seed("inferasim", "--kv-transfer-latency-us", zero=None),),
        moves=(*SPEED, "kv_transfer_ms"),
    ),
)
