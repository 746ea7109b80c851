"""A pool as `vllm serve`."""

from __future__ import annotations

from typing import Any

from sweep.errors import UserError
from sweep.export import refusals
from sweep.export.command import CHECKPOINT, Command
from sweep.export.deployment import Deployment, Pool
from sweep.export.documented import documented

KV_DTYPES = {"fp8": "fp8"}
CONNECTORS = {"nixl": "NixlConnector"}


def server(d: Deployment, pool: Pool) -> Command:
    """The command of one worker. Raises UserError for what vLLM has no setting for."""
    refusals.several_nodes("vllm", pool)
    refusals.unmapped("vllm", d, offload=False)
    command = Command(("vllm", "serve", CHECKPOINT), documented("vllm").serve)
    command.add("--host", "0.0.0.0")
    command.add("--port", 8000)
    _shape(command, d, pool)
    command.add("--max-model-len", pool.max_model_len)
    command.add("--gpu-memory-utilization", pool.memory_fraction)
    command.add("--max-num-batched-tokens", pool.token_budget)
    if pool.max_seqs:
        command.add("--max-num-seqs", pool.max_seqs)
    if d.block_size:
        command.add("--block-size", d.block_size)
    if not d.formats.kv_is_16_bit:
        command.add("--kv-cache-dtype", refusals.kv_word("vllm", d, KV_DTYPES))
    if d.formats.quantised_while_loading("vllm"):
        command.add("--quantization", "fp8")
    command.add("--enable-prefix-caching" if d.prefix_caching else "--no-enable-prefix-caching")
    if not d.chunked_prefill:
        command.add("--no-enable-chunked-prefill")
    if d.graph_mode == "none":
        command.add("--enforce-eager")
    elif d.graph_mode == "piecewise":
        command.add("--compilation-config", {"cudagraph_mode": "PIECEWISE"})
    if d.draft_tokens:
        command.add("--speculative-config", _speculation(d))
    if d.split:
        command.add("--kv-transfer-config", _transfer(d))
    return command


def router(d: Deployment, urls: dict[str, list[str]]) -> Command:
    """The proxy in front of split pools: the one of vLLM's documentation, which is in its repository, not in its package."""
    program = ["python", "tests/v1/kv_connector/nixl_integration/toy_proxy_server.py", "--port", "8000"]
    for role, name in (("prefill", "prefiller"), ("decode", "decoder")):
        hosts = [url.removeprefix("http://").partition(":") for url in urls[role]]
        program += [
            f"--{name}-hosts",
            *(h for h, _, _ in hosts),
            f"--{name}-ports",
            *(p for _, _, p in hosts),
        ]
    return Command(tuple(program), {})


def _shape(command: Command, d: Deployment, pool: Pool) -> None:
    command.add("--tensor-parallel-size", pool.tp)
    if pool.pp > 1:
        command.add("--pipeline-parallel-size", pool.pp)
    if pool.attention_dp > 1:
        command.add("--data-parallel-size", pool.attention_dp)
    if not d.is_moe or pool.moe_ep == 1:
        return
    if pool.moe_ep != pool.group:
        raise UserError(
            "vllm spreads experts over all tensor x data parallel ranks, or slices each",
            field="parallelism.moe_ep",
            value=pool.moe_ep,
            allowed=f"1, {pool.group}",
        )
    command.add("--enable-expert-parallel")


def _speculation(d: Deployment) -> dict[str, Any]:
    tokens = {"num_speculative_tokens": d.draft_tokens}
    if d.draft:
        method = {"method": "eagle3"} if "eagle3" in d.draft.lower() else {}
        return {**method, "model": d.draft, **tokens}
    refusals.needs_drafting_layers("vllm", d)
    return {"method": "mtp", **tokens}


def _transfer(d: Deployment) -> dict[str, str]:
    if d.transfer_backend not in CONNECTORS:
        raise refusals.no_counterpart("vllm", "disagg.transfer_backend", d.transfer_backend, CONNECTORS)
    return {
        "kv_connector": CONNECTORS[d.transfer_backend],
        "kv_role": "kv_both",
        "kv_load_failure_policy": "fail",
    }
