"""A deployment of the closed form whose prefill and decode have pools of their own, request by request.

All ranks of both pools are simulated: a router gives new requests to prefill ranks and finished prompts to decode ranks,
KV caches pass one at a time over each prefill rank's link, and a full decode pool holds prefill back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.auto import default_to
from kernels.des_layout import DECODE, PREFILL
from kernels.disagg import pool_shapes, transfer_us
from kernels.evaluate import LOAD_CLOSED
from kernels.units import NS_PER_US
from sweep.errors import UserError
from sweep.fields import record_dtype
from sweep.simulate.deployment import Deployment, Twin, deployment
from sweep.simulate.world import Instance

FULL_LINK = 1e9
"""Bytes per ns where a transfer takes no time beyond its latency."""


@dataclass(frozen=True)
class SplitDeployment:
    """Both pools of a deployment; `ranks` is 1 because every rank is simulated."""

    record: NDArray[Any]  # (1,) record_dtype: the deployment as asked for
    prefill: Deployment
    decode: Deployment
    coefficients: NDArray[np.float64]
    ranks: float = 1.0

    @property
    def p(self) -> Any:
        return self.record[0]

    @property
    def gpus(self) -> float:
        """GPUs of both pools."""
        p = self.p
        return float(p["prefill_replicas"] * self.prefill.gpus + p["decode_replicas"] * self.decode.gpus)

    def engines(self, copies: int) -> list[Instance]:
        """Every rank of both pools, `copies` times."""
        p = self.p
        pools = (
            (self.prefill, PREFILL, p["prefill_replicas"], p["prefill_batch_size"]),
            (self.decode, DECODE, p["decode_replicas"], p["decode_batch_size"]),
        )
        out = []
        for pool, role, replicas, batch in pools:
            for _ in range(copies * max(1, round(float(replicas) * pool.ranks))):
                one = pool.instance()
                most = int(min(one.settings["max_seqs"], default_to(float(batch), 2.0**40)))
                one.settings |= {"role": role, "max_seqs": most, **self._link()}
                out.append(one)
        return out

    def _link(self) -> dict[str, Any]:
        """Latency and bandwidth of a hand-over, from the closed form's own transfer time."""
        d = self.decode.d
        fixed_us, one_us = (float(transfer_us(n, self.p, d)) for n in (0.0, 1.0))
        n_bytes = max(1, round(float(d["kv_bytes_per_token"])))
        per_token_ns = (one_us - fixed_us) * NS_PER_US
        return {
            "transfer_bytes_per_token": n_bytes,
            "pd_latency": fixed_us * NS_PER_US,
            "pd_bytes_per_ns": n_bytes / per_token_ns if per_token_ns > 0.0 else FULL_LINK,
        }


def split_deployment(record: NDArray[Any], coefficients: NDArray[np.float64]) -> SplitDeployment:
    """Both pools of an input record, shape (1,). Raises UserError where one is illegal or does not fit."""
    own = record.reshape(1).copy()
    if own[0]["load"] != LOAD_CLOSED:
        raise UserError("split pools are simulated under closed loops", field="workload.load")
    shapes = np.zeros(2, record_dtype())
    pool_shapes(own[0], shapes)
    shapes["disaggregate"] = 0.0
    prefill, decode = (deployment(shapes[k : k + 1], coefficients) for k in range(2))
    return SplitDeployment(own, prefill, decode, np.ascontiguousarray(coefficients))


def twin(record: NDArray[Any], coefficients: NDArray[np.float64]) -> Twin:
    """What simulates an input record, shape (1,): one rank, or both pools. Raises UserError where it cannot run."""
    if record.reshape(1)[0]["disaggregate"] > 0:
        return split_deployment(record, coefficients)
    return deployment(record, coefficients)
