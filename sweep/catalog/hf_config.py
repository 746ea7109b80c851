"""A Hugging Face config.json as values of the `model.*` fields.

The architecture comes from the family's readers (`hf_families`), the stored formats from the
quantisation configuration (`hf_quant`). What cannot be priced is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.catalog.hf_families import FAMILIES, SAME_TYPE, STRUCTURAL_KEYS, Family
from sweep.catalog.hf_quant import Module, kv_format, stored_formats
from sweep.catalog.hf_read import Config, Keys, read_json
from sweep.catalog.hf_shape import DENSE, FULL, LINEAR, MOE, NONE, WINDOW, Shape, trunk
from sweep.errors import UserError, nearest

TEXT_PARTS = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True)
class Architecture:
    """Field values by short name (`hidden_size`, ...), and what the reader left out."""

    fields: dict[str, object]
    notes: tuple[str, ...] = field(default=())


def architecture_of(path: str | Path) -> Architecture:
    """The architecture in a config.json (a file, or the folder that holds it).

    An `hf_quant_config.json` beside it says the formats where config.json does not. Raises `UserError`
    for a file that cannot be read and for an architecture that cannot be priced.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / "config.json"
    config = read_json(file)
    beside = file.with_name(file.name.removesuffix("config.json") + "hf_quant_config.json")
    quantization = read_json(beside) if beside != file and beside.is_file() else None
    try:
        found = architecture_from(config, quantization)
    except UserError as error:
        raise UserError(error.message, file=str(file)) from None
    name = file.parent.name if file.name == "config.json" else file.stem.removesuffix("_config")
    return Architecture({"name": name or "config", "source": str(path)} | found.fields, found.notes)


def architecture_from(config: Config, quantization: Config | None = None) -> Architecture:
    """The architecture that `config` describes; `quantization` is a separate quantisation file's content."""
    text, notes = _text_part(config)
    family = _family(text, config)
    keys = Keys(text, family.defaults)
    shape = Shape()
    trunk(keys, shape)
    for read in family.readers:
        read(keys, shape)
    _count_layers(shape)
    shape.fields["mlp_matrices"] = family.mlp_matrices
    shape.fields["tied_embeddings"] = _tied(text, config, family)
    shape.fields["n_mtp_layers"] = keys.count(
        "num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", default=0
    )
    shape.fields["other_params"] = float(shape.other_params + _small_params(keys, shape, family))
    encoder = encoder_params(config)
    shape.fields["encoder_params"] = float(encoder)
    unknown = keys.unread(STRUCTURAL_KEYS)
    if unknown:
        raise UserError(
            f"{_type_of(text, config)} with this setting is not modelled",
            field=unknown[0],
            value=text[unknown[0]],
        )
    own = text.get("quantization_config") or config.get("quantization_config")
    q = own if isinstance(own, dict) and _says_how(own) else quantization
    base = keys.text("dtype", "torch_dtype") or str(
        config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    )
    formats = stored_formats(q, base, _modules(shape, family))
    if quantization and formats["checkpoint_kv"] == "bfloat16":  # the separate file alone may say it
        formats["checkpoint_kv"] = kv_format(quantization)
    return Architecture({"model_family": family.label} | shape.fields | formats, tuple(notes))


def _says_how(q: Mapping[str, Any]) -> bool:
    return bool(q.get("quant_method") or q.get("quant_algo"))


def _text_part(config: Config) -> tuple[Config, list[str]]:
    """The language model's part, and a note where encoders beside it are left out."""
    for name in TEXT_PARTS:
        part = config.get(name)
        if isinstance(part, dict):
            return part, ["text part only: the encoders beside the language model are left out"]
    return config, []


def encoder_params(config: Config) -> int:
    """About how many parameters the vision encoder has: its transformer layers and the projection to the text.

    Four square projections per layer, an MLP of two matrices (three where its activation is SiLU: Pixtral,
    Qwen2.5-VL). 0 where the configuration has no vision part or does not give its shape.
    """
    vision, text = config.get("vision_config"), _text_part(config)[0]
    if not isinstance(vision, dict):
        return 0
    keys = Keys(vision, {})
    layers = keys.count("num_hidden_layers", "depth", "vt_num_hidden_layers", default=0)
    hidden = keys.count("hidden_size", "embed_dim", "vt_hidden_size", default=0)
    width = keys.count("intermediate_size", "vt_intermediate_size", default=4 * hidden)
    matrices = 3 if keys.text("hidden_act") == "silu" else 2
    out = Keys(text, {}).count("hidden_size", default=hidden)
    return layers * (4 * hidden * hidden + matrices * hidden * width) + (hidden * out if layers else 0)


def _type_of(text: Config, config: Config) -> str:
    for part in (text, config):
        if isinstance(part.get("model_type"), str) and part["model_type"]:
            return str(part["model_type"])
    return "unknown"


def _family(text: Config, config: Config) -> Family:
    """The family of this type; a `UserError` that names what is not modelled."""
    name = _type_of(text, config)
    name = SAME_TYPE.get(name, name)
    if name in FAMILIES:
        return FAMILIES[name]
    listed = text.get("architectures") or config.get("architectures") or []
    architecture = f" ({listed[0]})" if isinstance(listed, list) and listed else ""
    raise UserError(
        f"this architecture{architecture} is not modelled",
        field="model_type",
        value=name,
        near=nearest(name, FAMILIES),
    )


def _tied(text: Config, config: Config, family: Family) -> bool:
    for part in (text, config):
        if isinstance(part.get("tie_word_embeddings"), bool):
            return bool(part["tie_word_embeddings"])
    return family.tied


def _count_layers(shape: Shape) -> None:
    """Layer counts from the blocks. A layer is an attention with its MLP, as engines count KV layers."""
    mixers = [b for b in shape.blocks if b.attention != NONE]
    mlps = shape.count(mlp=DENSE) + shape.count(mlp=MOE)
    if mlps > len(mixers):
        raise UserError("more MLPs than attention layers is not modelled", field="num_hidden_layers")
    counts: dict[str, object] = {
        "n_layers": len(mixers),
        "n_window_layers": shape.count(attention=WINDOW),
        "n_linear_layers": shape.count(attention=LINEAR),
        "n_moe_layers": shape.count(mlp=MOE),
        "n_mlp_free_layers": len(mixers) - mlps,
    }
    shape.fields |= counts
    if not shape.count(mlp=DENSE):
        shape.fields["ffn_dim"] = 0


def _small_params(keys: Keys, shape: Shape, family: Family) -> int:
    """Norms, biases and sinks."""
    hidden, heads, kv = shape.number("hidden_size"), shape.number("n_heads"), shape.number("n_kv_heads")
    qk, v = shape.number("head_dim"), shape.number("v_head_dim")
    softmax_layers = shape.count(attention=FULL) + shape.count(attention=WINDOW)
    per_norm = hidden * (2 if family.layer_norm else 1)
    total = int(family.norms * per_norm * len(shape.blocks)) + per_norm
    qkv_width = heads * qk + kv * (qk + v)
    has_bias = (
        keys.flag("attention_bias") if family.attention_bias == "config" else bool(family.attention_bias)
    )
    if has_bias and not shape.number("kv_lora_rank"):
        total += softmax_layers * (qkv_width + (0 if family.attention_bias == "qkv" else hidden))
    if family.qk_norm == "head" or (family.label == "glm" and keys.flag("use_qk_norm")):
        total += softmax_layers * 2 * qk
    elif family.qk_norm == "width":
        total += softmax_layers * (heads + kv) * qk
    if family.attention_sinks:
        total += softmax_layers * heads
    if family.mlp_bias:
        total += shape.count(mlp=DENSE) * (shape.number("ffn_dim") * (family.mlp_matrices - 1) + hidden)
    if family.expert_bias:  # gpt-oss: gate and up, down, and the router
        per_expert = 2 * shape.number("moe_ffn_dim") + hidden + 1
        total += shape.count(mlp=MOE) * shape.number("n_experts") * per_expert
    if family.head_bias:
        total += shape.number("vocab_size")
    return total


def _modules(shape: Shape, family: Family) -> Iterator[Module]:
    """Every weight matrix, named from `layers.` on as quantisation lists do."""
    n = family.names
    for i, block in enumerate(shape.blocks):
        at = f"layers.{i}."
        for name, params in _attention_modules(shape, block.attention).items():
            where = n.linear if block.attention == LINEAR else n.attention
            yield Module("attn", f"{at}{where}.{name}", params)
        hidden = shape.number("hidden_size")
        if block.mlp == DENSE:
            for name in _mlp_names(family, n.mlp):
                yield Module("mlp", f"{at}{n.mlp}.{name}", hidden * shape.number("ffn_dim"))
        if block.mlp == MOE:
            width = shape.number("moe_hidden_dim") or hidden
            size = shape.number("n_experts") * width * shape.number("moe_ffn_dim")
            for name in _mlp_names(family, n.experts):
                yield Module("experts", f"{at}{n.experts}.0.{name}", size)
            for name in _mlp_names(family, n.shared):
                yield Module("shared", f"{at}{n.shared}.{name}", hidden * shape.number("shared_ffn_dim"))
            yield Module("router", f"{at}{n.router}", hidden * shape.number("n_experts"))
    vocab = shape.number("vocab_size") * shape.number("hidden_size")
    yield Module("embed", "embed_tokens", vocab)
    yield Module("head", "lm_head", vocab)


def _mlp_names(family: Family, where: str) -> tuple[str, ...]:
    if where.endswith("block_sparse_moe.experts"):
        return ("w1", "w2", "w3")
    return ("gate_proj", "up_proj", "down_proj") if family.mlp_matrices == 3 else ("up_proj", "down_proj")


def _attention_modules(shape: Shape, kind: str) -> dict[str, float]:
    """Names and sizes of the projections of one layer of this kind."""
    if kind == NONE:
        return {}
    if kind == LINEAR:
        return _linear_modules(shape)
    return _latent_modules(shape) if shape.number("kv_lora_rank") else _grouped_modules(shape, kind)


def _linear_modules(shape: Shape) -> dict[str, float]:
    hidden = float(shape.number("hidden_size"))
    k = shape.number("linear_k_heads") * shape.number("linear_k_dim")
    v = shape.number("linear_v_heads") * shape.number("linear_v_dim")
    if shape.number("n_mlp_free_layers"):  # Mamba-2 makes everything in one projection
        return {"in_proj": hidden * 2 * (k + v), "out_proj": hidden * v}
    return {"in_proj_qkv": hidden * (2 * k + v), "in_proj_z": hidden * v, "out_proj": hidden * v}


def _latent_modules(shape: Shape) -> dict[str, float]:
    hidden, heads = float(shape.number("hidden_size")), shape.number("n_heads")
    rank, kv_rank = shape.number("q_lora_rank"), shape.number("kv_lora_rank")
    q_width, v_dim = heads * shape.number("head_dim"), shape.number("v_head_dim")
    query = {"q_proj": hidden * q_width}
    if rank:
        query = {"q_a_proj": hidden * rank, "q_b_proj": float(rank * q_width)}
    share = shape.number("n_index_layers") / len(shape.blocks)
    index_params = (rank or hidden) * shape.number("index_heads") + hidden
    return query | {
        "kv_a_proj_with_mqa": hidden * (kv_rank + shape.number("qk_rope_dim")),
        "kv_b_proj": float(kv_rank * heads * (shape.number("qk_nope_dim") + v_dim)),
        "o_proj": heads * v_dim * hidden,
        "indexer.wq_b": share * shape.number("index_head_dim") * index_params,
    }


def _grouped_modules(shape: Shape, kind: str) -> dict[str, float]:
    hidden, heads, kv = (
        float(shape.number("hidden_size")),
        shape.number("n_heads"),
        shape.number("n_kv_heads"),
    )
    qk, v = shape.number("head_dim"), shape.number("v_head_dim")
    if kind == WINDOW:
        kv = shape.number("window_n_kv_heads") or kv
        own = shape.number("window_head_dim")
        qk, v = own or qk, own or v
    gate = 2 if shape.fields.get("attn_output_gate") else 1
    key_is_value = kind == FULL and shape.fields.get("k_is_v")
    return {
        "q_proj": hidden * heads * qk * gate,
        "k_proj": hidden * kv * qk,
        "v_proj": 0.0 if key_is_value else hidden * kv * v,
        "o_proj": hidden * heads * v,
    }
