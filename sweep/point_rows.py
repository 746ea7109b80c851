"""Rows of a table of deployments as input records of the kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import polars as pl

from sweep.catalog.checkpoints import bits, loaded_checkpoint
from sweep.catalog.hardware import hardware_index, resolve_hardware
from sweep.catalog.models import ModelEntry, resolve_model
from sweep.catalog.prices import DEFAULT_BOOK, price_of
from sweep.errors import UserError
from sweep.fields import FIELDS, by_name
from sweep.fields.check import checked
from sweep.fields.dtype_names import canonical
from sweep.fields.workload import ENDLESS_PROMPTS, LOADS
from sweep.records import default_records, set_values
from sweep.table_io import need
from sweep.versions import encode_version

ALIASES = {
    "gpu": "hardware",
    "gpu_mem_gib": "hbm_gib",
    "quantization": "quantization",
    "kv_dtype": "kv_cache_dtype",
    "gpu_mem_util": "gpu_memory_utilization",
    "engine": "backend",
    "engine_version": "backend_version",
}
"""Column names of engine logs -> ours."""

LOG_COLUMNS = frozenset(("gpu_mem_util", "kv_dtype"))
"""Names that only tables of engine start-up logs use. Such a table, without a load, asks what engines print."""

ENGINE_ALIASES = {
    "tensorrt-llm": "trtllm",
    "trt-llm": "trtllm",
    "tensorrt_llm": "trtllm",
    "vllm-rocm": "vllm",
}

PLAIN = (
    "isl",
    "osl",
    "concurrency",
    "tp",
    "pp",
    "attention_dp",
    "moe_tp",
    "moe_ep",
    "max_model_len",
    "gpu_memory_utilization",
    "num_prompts",
    "load",
    "length_range",
    "decode_spread",
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "hbm_gib",
    "usd_per_gpu_hour",
    "request_rate",
    "prefix_hit_rate",
)
"""Columns that are fields under their own name."""

POOL = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep", "batch_size")

COLUMNS = (
    *("id", "mode", "model", "hardware", "backend", "backend_version", "client", "ttft_stat", "batch_size"),
    *("precision", "dtype", "quantization", "linear_dtype", "expert_dtype", "kv_cache_dtype"),
    *PLAIN,
    *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("workers", *POOL)),
)
"""What a table may say of a row."""
INPUTS = frozenset(f.key for f in FIELDS) | {name for name, f in by_name().items() if f.group != "slo"}
"""Every input by key and by short name. An SLO's limits share theirs with figures that tables hold."""
MEASURED = ("measured_ttft_ms", "measured_tpot_ms", "measured_output_tok_s_per_gpu")
"""What a table may have measured of a row."""
REQUIRED = ("model", "hardware")

CLIENT_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "inferencex": {"length_range": 0.8},
    "amd_ci": {"length_range": 0.8},
    "vendor_lab": {"length_range": 1.0},
}
"""What a benchmark client does where its row does not say: public InferenceX runs draw lengths from [0.8, 1]."""
DEFAULT_CLIENT = "inferencex"
FIXED_LENGTHS = 1.0
"""`length_range` of a row that states that its client asked for one length: requests that start with a step end with a step.
A client default of 1 does not state it: output lengths of such runs may differ."""

MODES = ("agg", "disagg")
DEFAULTS = {"mode": MODES[0], "backend": "vllm"}
"""What a row is whose table does not say."""
TTFT_STATS = ("mean", "median")
"""What a table's measured TTFT is. The opening burst of a closed loop, a tenth of a usual client's requests and far the slowest,
lifts the mean and leaves the median alone: that is the mean of a loop without an end."""
Place = tuple[str, str, str]
"""Model, accelerator and engine by catalogue name."""


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = str(value).strip()
    return text or None


def _formats(row: Mapping[str, Any], model: ModelEntry, amd: bool) -> dict[str, object]:
    """Number formats that the row asks for; a checkpoint that is quantised already keeps its own on a log's word, and on a
    table's unless that is a narrower one."""
    out: dict[str, object] = {}
    linear, experts = _text(row.get("linear_dtype")), _text(row.get("expert_dtype"))
    if linear is None and experts is None:
        stated = _text(row.get("quantization")) or _text(row.get("precision")) or _text(row.get("dtype"))
        format_ = canonical(stated, amd=amd) if stated else None
        if stated and format_ is None:
            raise UserError("unknown number format", field="precision", value=stated)
        narrower = (
            bool(_text(row.get("precision"))) and format_ is not None and bits(format_) < _stored_bits(model)
        )
        if format_ not in (None, "bfloat16", "float16") and (narrower or not _is_quantized(model)):
            linear = experts = format_
    out["linear_dtype"], out["expert_dtype"] = linear, experts
    kv = _text(row.get("kv_cache_dtype"))
    if kv is not None and kv.lower() not in ("auto",):
        out["kv_cache_dtype"] = "fp8" if kv.lower().startswith("fp8") else kv
    return out


def _is_quantized(model: ModelEntry) -> bool:
    """Whether the checkpoint stores its weights in less than 16 bits, or the model's name says so."""
    stored = (str(model.fields.get(k, "bfloat16")) for k in ("checkpoint_mlp", "checkpoint_experts"))
    return bool(model.precision) or any(s not in ("bfloat16", "float16", "float32") for s in stored)


def _stored_bits(model: ModelEntry) -> int:
    """Bits of most of the checkpoint's weights: the experts', where there are any."""
    return bits(str(model.fields["checkpoint_experts" if model.fields["n_moe_layers"] else "checkpoint_mlp"]))


def _dtype(name: str, value: object, amd: bool) -> str | None:
    """A number format in the registry's spelling; None where the row says nothing."""
    text = _text(value)
    found = checked(by_name()[name], canonical(text, amd=amd) or text) if text else None
    return None if found is None else str(found)


def _pools(row: Mapping[str, Any]) -> dict[str, object]:
    """Fields of a disaggregated row."""
    out: dict[str, object] = {"disaggregate": True}
    for pool in ("prefill", "decode"):
        out[f"{pool}_replicas"] = row.get(f"{pool}_workers")
        for name in POOL:
            out[f"{pool}_{name}"] = row.get(f"{pool}_{name}")
    if row.get("concurrency") is None and row.get("decode_batch_size") is not None:
        counts = [_count(row, f"decode_{k}", 1) for k in ("batch_size", "attention_dp", "workers")]
        out["concurrency"] = math.prod(counts)
    return out


def _figure(values: Mapping[str, Any], name: str, default: float = math.nan) -> float:
    """The field `name` of `values`, `default` where they leave it open. Raises UserError for what the field does not take."""
    value = values.get(name)
    found = None if value is None else checked(by_name()[name], value)
    return default if found is None else float(found)


def _count(row: Mapping[str, Any], column: str, default: int | None = None) -> int:
    """A column that is a count. Raises UserError for anything else."""
    value = default if row.get(column) is None else row[column]
    try:
        return int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UserError("is not a whole number", field=column, value=value) from None


def _client(row: Mapping[str, Any]) -> dict[str, object]:
    """What the benchmark client does, and which of its statistics is asked."""
    client = (_text(row.get("client")) or DEFAULT_CLIENT).lower()
    out: dict[str, Any] = dict(CLIENT_DEFAULTS.get(client, CLIENT_DEFAULTS[DEFAULT_CLIENT]))
    out.update({name: row[name] for name in PLAIN if row.get(name) is not None})
    if _figure(row, "length_range") == FIXED_LENGTHS:
        out.setdefault("decode_spread", 0.0)
    stat = (_text(row.get("ttft_stat")) or TTFT_STATS[0]).lower()
    if stat not in TTFT_STATS:
        raise UserError("not a statistic", field="ttft_stat", value=stat, allowed=", ".join(TTFT_STATS))
    if stat == "median":
        if str(out.get("load", LOADS[0])) != LOADS[0]:
            raise UserError("only of closed loops", field="ttft_stat", value=stat)
        if _figure(out, "num_prompts", ENDLESS_PROMPTS) <= 2.0 * _figure(out, "concurrency", 0.0):
            raise UserError("half of num_prompts are the opening burst", field="ttft_stat", value=stat)
        out["num_prompts"] = ENDLESS_PROMPTS
    return out


def _columns(group: str, fields: Mapping[str, Any]) -> dict[str, object]:
    """The fields of a catalogue entry that kernels read (short names are unique among these only)."""
    known = by_name()
    return {name: value for name, value in fields.items() if name in known and known[name].group == group}


def is_start_up_log(frame: pl.DataFrame) -> bool:
    """Whether a table holds engine start-up logs and no load."""
    return frozenset(frame.columns) >= LOG_COLUMNS and not {"isl", "osl"} & set(frame.columns)


def row_values(row: Mapping[str, Any], *, log: bool = False) -> dict[str, object]:
    """Field values (by short name) that one table row stands for.

    In a start-up log (`log`) an empty max_model_len is the model's own context.

    Raises `UserError` for an unknown model, accelerator, engine or mode.
    """
    model_text = _text(row.get("model"))
    hardware_text = _text(row.get("hardware"))
    if model_text is None or hardware_text is None:
        raise UserError(
            "needs both a model and an accelerator", field="model" if model_text is None else "hardware"
        )
    mode = (_text(row.get("mode")) or DEFAULTS["mode"]).lower()
    if mode not in MODES:
        raise UserError("not a mode", field="mode", value=mode, allowed=", ".join(MODES))
    model = resolve_model(model_text)
    hardware = resolve_hardware(hardware_text)
    backend = (_text(row.get("backend")) or DEFAULTS["backend"]).lower()
    values = {**_columns("model", model.fields), **_columns("hardware", hardware.fields), **model.precision}
    values["hardware_index"] = hardware_index(hardware.name)
    values["engine"] = ENGINE_ALIASES.get(backend, backend)
    values["engine_version"] = encode_version(_text(row.get("backend_version")))
    amd = str(hardware.fields.get("family", "")).startswith("cdna")
    asked = _formats(row, model, amd)
    linear, experts = (asked.pop(name) for name in ("linear_dtype", "expert_dtype"))
    loaded = loaded_checkpoint(
        model, _dtype("linear_dtype", linear, amd), _dtype("expert_dtype", experts, amd)
    )
    values.update(_columns("model", loaded.model.fields))
    values.update(linear_dtype=loaded.linear_dtype, expert_dtype=loaded.expert_dtype, **asked)
    values.update(_client(row))
    if values["hbm_gib"] == hardware.fields["hbm_marketed_gb"]:
        values["hbm_gib"] = hardware.fields["hbm_gib"]
    if log and row.get("max_model_len") is None:
        values["max_model_len"] = model.fields["max_position"]
    if row.get("concurrency") is None and row.get("batch_size") is not None:
        values["concurrency"] = _count(row, "batch_size") * _count(row, "attention_dp", 1)
    if mode == "disagg":
        values.update({k: v for k, v in _pools(row).items() if v is not None})
    if values.get("usd_per_gpu_hour") is None:
        values["usd_per_gpu_hour"] = price_of(DEFAULT_BOOK, hardware.name).usd_per_gpu_hour
    return values


def build_records(frame: pl.DataFrame) -> tuple[npt.NDArray[Any], list[str]]:
    """Input records of a table's rows and, per row, why it is invalid ("" where it is not)."""
    log = is_start_up_log(frame)
    frame = frame.rename({k: v for k, v in ALIASES.items() if k in frame.columns and v not in frame.columns})
    need(frame, REQUIRED)
    records = default_records(frame.height)
    errors: list[str] = []
    for i, row in enumerate(frame.iter_rows(named=True)):
        try:
            set_values(records[i], row_values(row, log=log))
            errors.append("")
        except UserError as error:
            errors.append(error.message)
        except (TypeError, ValueError, OverflowError) as error:
            errors.append(f"impossible value: {error}")
    return records, errors


def place_of(row: Mapping[str, Any]) -> Place:
    """Model, accelerator and engine of a row, by catalogue name."""
    hardware = row.get("hardware", row.get("gpu"))
    engine = (_text(row.get("backend", row.get("engine"))) or DEFAULTS["backend"]).lower()
    return (
        resolve_model(str(row["model"])).name,
        resolve_hardware(str(hardware)).name,
        ENGINE_ALIASES.get(engine, engine),
    )
