"""What engines cannot be told, refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sweep.errors import UserError
from sweep.export.deployment import Deployment, Pool


def no_counterpart(engine: str, field: str, value: object, allowed: Iterable[str]) -> UserError:
    """A setting that the engine's documented flags cannot say."""
    return UserError(
        f"{engine} has no documented setting for it", field=field, value=value, allowed=", ".join(allowed)
    )


def kv_word(engine: str, d: Deployment, words: Mapping[str, str]) -> str:
    """The engine's word for the KV cache's format. Raises UserError where it has none."""
    if d.formats.kv not in words:
        raise no_counterpart(engine, "precision.kv_cache_dtype", d.formats.kv, ("bfloat16", *words))
    return words[d.formats.kv]


def needs_drafting_layers(engine: str, d: Deployment) -> None:
    """Speculation without a draft model: the checkpoint itself must have layers that draft."""
    if not d.model.fields["n_mtp_layers"]:
        raise UserError(
            f"{d.model.name} has no layers that draft tokens: {engine} needs a draft model (--draft CHECKPOINT)",
            field="speculation.speculative_num_tokens",
            value=d.draft_tokens,
        )


def several_nodes(engine: str, pool: Pool) -> None:
    """A worker that spans nodes, where the start depends on what the cluster launches processes with."""
    if pool.nodes > 1:
        raise UserError(
            f"{engine} is exported on one node only, its {pool.gpus} GPUs span {pool.nodes} (sglang may span several)",
            field="parallelism",
        )


def unmapped(engine: str, d: Deployment, *, offload: bool, attention: Iterable[str] = ()) -> None:
    """Settings given by hand that the engine's flags cannot say."""
    if d.attention_backend and d.attention_backend not in attention:
        raise no_counterpart(engine, "engine.attention_backend", d.attention_backend, ("null", *attention))
    if d.kv_offload_gib_per_gpu and not offload:
        raise no_counterpart(engine, "engine.kv_offload_gib_per_gpu", d.kv_offload_gib_per_gpu, ("0",))
