"""A pool as `trtllm-serve`, with the options that only its configuration file takes."""

from __future__ import annotations

from typing import Any

from kernels.units import GIB
from sweep.errors import UserError
from sweep.export import refusals
from sweep.export.command import CHECKPOINT, Command, nested
from sweep.export.deployment import Deployment, Pool
from sweep.export.documented import documented

KV_DTYPES = {"fp8": "fp8", "nvfp4": "nvfp4"}
TRANSFERS = {"nixl": "NIXL"}


def server(d: Deployment, pool: Pool) -> Command:
    """The command of one worker. Raises UserError for what TensorRT-LLM has no setting for."""
    refusals.several_nodes("trtllm", pool)
    refusals.unmapped("trtllm", d, offload=True)
    command = Command(("trtllm-serve", CHECKPOINT), documented("trtllm").serve)
    command.add("--host", "0.0.0.0")
    command.add("--port", 8000)
    command.add("--backend", "pytorch")
    command.add("--tp_size", pool.group)
    if pool.pp > 1:
        command.add("--pp_size", pool.pp)
    if d.is_moe:
        command.add("--ep_size", pool.moe_ep)
    command.add("--max_seq_len", pool.max_model_len)
    command.add("--max_num_tokens", pool.token_budget)
    if pool.max_seqs:
        command.add("--max_batch_size", pool.max_seqs)
    command.add("--kv_cache_free_gpu_memory_fraction", pool.memory_fraction)
    if d.chunked_prefill:
        command.add("--enable_chunked_prefill")
    command.add("--extra_llm_api_options", config_file(pool))
    return command


def config_file(pool: Pool) -> str:
    """Name of the configuration file of a pool."""
    return f"{pool.role}-options.yaml"


def config(d: Deployment, pool: Pool) -> dict[str, Any]:
    """The options of a pool's configuration file. Raises UserError for what TensorRT-LLM has no setting for."""
    options: dict[str, Any] = {"kv_cache_config.enable_block_reuse": d.prefix_caching}
    if pool.attention_dp > 1:
        if pool.tp > 1:
            raise refusals.no_counterpart(
                "trtllm", "parallelism.tp", pool.tp, (f"1 (with attention_dp={pool.group})",)
            )
        options["enable_attention_dp"] = True
    if d.is_moe:
        options |= {"moe_tensor_parallel_size": pool.moe_tp, "moe_expert_parallel_size": pool.moe_ep}
    if not d.formats.kv_is_16_bit:
        options["kv_cache_config.dtype"] = refusals.kv_word("trtllm", d, KV_DTYPES)
    if d.block_size:
        options["kv_cache_config.tokens_per_block"] = d.block_size
    if d.kv_offload_gib_per_gpu:
        options["kv_cache_config.host_cache_size"] = int(d.kv_offload_gib_per_gpu * GIB)
    if d.graph_mode == "piecewise":
        raise refusals.no_counterpart("trtllm", "engine.cudagraph_mode", d.graph_mode, ("none", "full"))
    if d.graph_mode == "none":
        options["cuda_graph_config"] = None
    if d.draft_tokens:
        if d.draft:
            raise UserError(
                "only drafting layers of the checkpoint are exported for trtllm",
                field="--draft",
                value=d.draft,
            )
        refusals.needs_drafting_layers("trtllm", d)
        options |= {
            "speculative_config.decoding_type": "MTP",
            "speculative_config.num_nextn_predict_layers": d.draft_tokens,
        }
    if d.split:
        options |= _transfer(d, pool)
    return nested(options, documented("trtllm").config)


def _transfer(d: Deployment, pool: Pool) -> dict[str, Any]:
    if d.transfer_backend not in TRANSFERS:
        raise refusals.no_counterpart("trtllm", "disagg.transfer_backend", d.transfer_backend, TRANSFERS)
    options = {
        "cache_transceiver_config.backend": TRANSFERS[d.transfer_backend],
        "cache_transceiver_config.max_tokens_in_buffer": pool.max_model_len,
    }
    if pool.role == "prefill":
        options["disable_overlap_scheduler"] = True
    return options


def router(d: Deployment, urls: dict[str, list[str]]) -> Command:
    """The orchestrator in front of split pools; `router_config` is its file."""
    return Command(("trtllm-serve", "disaggregated", "-c", ROUTER_FILE), {})


ROUTER_FILE = "router.yaml"


def router_config(urls: dict[str, list[str]]) -> dict[str, Any]:
    """The orchestrator's file: where the servers of both pools listen."""
    hosts = {role: [url.removeprefix("http://") for url in found] for role, found in urls.items()}
    return {
        "hostname": "0.0.0.0",
        "port": 8000,
        "backend": "pytorch",
        "context_servers": {"num_instances": len(hosts["prefill"]), "urls": hosts["prefill"]},
        "generation_servers": {"num_instances": len(hosts["decode"]), "urls": hosts["decode"]},
    }
