"""A pool as `python -m sglang.launch_server`."""

from __future__ import annotations

import math

from sweep.errors import UserError
from sweep.export import refusals
from sweep.export.command import CHECKPOINT, Command
from sweep.export.deployment import Deployment, Pool
from sweep.export.documented import documented

KV_DTYPES = {"fp8": "fp8_e4m3"}
TRANSFERS = ("nixl", "mooncake")
ATTENTION = ("aiter", "triton")
GIB_IN_GB = 1024**3 / 1e9


def server(d: Deployment, pool: Pool) -> Command:
    """The command of one worker, the same on each of its nodes. Raises UserError for what SGLang has no setting for."""
    refusals.unmapped("sglang", d, offload=True, attention=ATTENTION)
    command = Command(("python", "-m", "sglang.launch_server"), documented("sglang").serve)
    command.add("--model-path", CHECKPOINT)
    command.add("--host", "0.0.0.0")
    command.add("--port", 8000)
    ranks = _shape(command, d, pool)
    command.add("--context-length", pool.max_model_len)
    command.add("--mem-fraction-static", pool.memory_fraction)
    _limits(command, d, pool, ranks)
    if d.block_size:
        command.add("--page-size", d.block_size)
    if not d.formats.kv_is_16_bit:
        command.add("--kv-cache-dtype", refusals.kv_word("sglang", d, KV_DTYPES))
    if d.formats.quantised_while_loading("sglang"):
        command.add("--quantization", "fp8")
    if not d.prefix_caching:
        command.add("--disable-radix-cache")
    if d.attention_backend:
        command.add("--attention-backend", d.attention_backend)
    if d.graph_mode == "piecewise":
        raise refusals.no_counterpart("sglang", "engine.cudagraph_mode", d.graph_mode, ("none", "full"))
    if d.graph_mode == "none":
        command.add("--disable-cuda-graph")
    if d.kv_offload_gib_per_gpu:
        command.add("--enable-hierarchical-cache")
        command.add("--hicache-size", math.ceil(d.kv_offload_gib_per_gpu * GIB_IN_GB))
    if d.draft_tokens:
        _speculation(command, d)
    if d.split:
        _transfer(command, d, pool)
    return command


def router(d: Deployment, urls: dict[str, list[str]]) -> Command:
    """The router in front of split pools."""
    program = ["python", "-m", "sglang_router.launch_router", "--pd-disaggregation"]
    for role in ("prefill", "decode"):
        program += [word for url in urls[role] for word in (f"--{role}", url)]
    return Command((*program, "--host", "0.0.0.0", "--port", "8000"), {})


def _shape(command: Command, d: Deployment, pool: Pool) -> int:
    """Widths; the number of ranks that share the scheduler's limits (SGLang divides them by the DP attention ranks).

    Under DP attention SGLang's TP counts all ranks. Data-parallel ranks of a dense model are whole copies.
    """
    shares = d.is_moe and pool.attention_dp > 1
    command.add("--tp-size", pool.group if shares else pool.tp)
    if pool.pp > 1:
        command.add("--pp-size", pool.pp)
    if pool.attention_dp > 1:
        command.add("--dp-size", pool.attention_dp)
    if shares:
        command.add("--enable-dp-attention")
    if d.is_moe and pool.moe_ep > 1:
        command.add("--ep-size", pool.moe_ep)
    if pool.nodes > 1:
        command.add("--nnodes", pool.nodes)
        command.add("--node-rank", "$NODE_RANK")
        command.add("--dist-init-addr", "$HEAD:5000")
    return pool.attention_dp if shares else 1


def _limits(command: Command, d: Deployment, pool: Pool, ranks: int) -> None:
    if d.chunked_prefill:
        command.add("--chunked-prefill-size", pool.token_budget * ranks)
    else:
        command.add("--chunked-prefill-size", -1)
    command.add("--max-prefill-tokens", max(pool.token_budget, pool.max_model_len))
    if pool.max_seqs:
        command.add("--max-running-requests", pool.max_seqs * ranks)


def _speculation(command: Command, d: Deployment) -> None:
    if not d.draft:
        refusals.needs_drafting_layers("sglang", d)
        algorithm = "NEXTN"
    else:
        words = d.draft.lower()
        algorithm = "EAGLE3" if "eagle3" in words else "EAGLE" if "eagle" in words else "STANDALONE"
    command.add("--speculative-algorithm", algorithm)
    if d.draft:
        command.add("--speculative-draft-model-path", d.draft)
    command.add("--speculative-num-steps", d.draft_tokens)
    command.add("--speculative-eagle-topk", 1)
    command.add("--speculative-num-draft-tokens", d.draft_tokens + 1)


def _transfer(command: Command, d: Deployment, pool: Pool) -> None:
    if d.transfer_backend not in TRANSFERS:
        raise refusals.no_counterpart("sglang", "disagg.transfer_backend", d.transfer_backend, TRANSFERS)
    if pool.nodes > 1:
        raise UserError("split pools are exported on one node a worker", field="parallelism")
    command.add("--disaggregation-mode", pool.role)
    command.add("--disaggregation-transfer-backend", d.transfer_backend)
