"""Benchmark results of engines as anchors: which kind a file is, by what it holds, and its points.

Every reader takes what the file says; `fill` says the rest (a vLLM result does not know its accelerator). Keys that
`servesweep anchor` puts into a benchmark's metadata are columns of `servesweep points` and win over everything else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from sweep.anchors.anchor import DEPLOYMENT, MEASURED, Anchor, anchor, from_dict
from sweep.bounded import read_text
from sweep.errors import UserError
from sweep.fields import by_name

MAX_BYTES = 64 * 1024**2
MAX_POINTS = 100_000
STORE_KEY = "servesweep_anchors"
STORE_VERSION = 1
TABLES = (".csv", ".parquet")
MEASURED_COLUMNS = tuple(f"measured_{name}" for name in MEASURED)
MARK = "servesweep"
"""Metadata key of benchmarks that `servesweep anchor` described in full."""
FORMATS = frozenset(("precision", "linear_dtype", "expert_dtype"))
INPUTS = (
    "weight_dtype",
    "speculative_num_tokens",
    "speculative_acceptance_rate",
    "cudagraph_mode",
    "attention_backend",
)
"""Inputs beside the deployment's columns that set the regime."""

Document = Mapping[str, Any]
Reader = Callable[[Document, str, Document], Iterator[Anchor]]

ALIASES: Mapping[str, str] = {
    "gpu": "hardware",
    "gpu_type": "hardware",
    "engine": "backend",
    "engine_version": "backend_version",
    "version": "backend_version",
    "quantization": "precision",
    "tp_size": "tp",
    "tensor_parallel_size": "tp",
    "pp_size": "pp",
    "pipeline_parallel_size": "pp",
    "ep_size": "moe_ep",
    "data_parallel_size": "attention_dp",
    "kv_dtype": "kv_cache_dtype",
}
"""Names that benchmark files and their users give to columns of a deployment."""
LARGEST = sys.float_info.max
NUMBERS = frozenset(
    name for name in DEPLOYMENT if name in by_name() and by_name()[name].kind in ("int", "float")
) | {"batch_size"}


def read_results(path: Path, fill: Document | None = None) -> list[Anchor]:
    """Measured points of a file: our own store, a table, or a result of vLLM, SGLang, TensorRT-LLM or InferaSim.

    `fill` gives columns of a deployment that the file does not. Raises UserError for a file that is none of these.
    """
    fill = {name: value for name, value in (fill or {}).items() if value is not None}
    if path.suffix.lower() in TABLES:
        return list(_table(path, fill))
    points: list[Anchor] = []
    for document in documents(path):
        points += reader_of(document, str(path))(document, str(path), fill)
        if len(points) > MAX_POINTS:
            raise UserError(f"holds more than {MAX_POINTS:,} points", file=str(path))
    if not points:
        raise UserError("holds no measured point", file=str(path))
    return points


def documents(path: Path) -> list[Document]:
    """Objects of a JSON file, of the list in it, or of its lines."""
    text = read_text(path, MAX_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = [_line(line, i, path) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    found = content if isinstance(content, list) else [content]
    if not found or not all(isinstance(document, dict) for document in found):
        raise UserError("holds no JSON object", file=str(path))
    return found


def _line(line: str, number: int, path: Path) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise UserError("is not JSON", file=str(path), line=number) from None


def reader_of(document: Document, file: str) -> Reader:
    """The reader of a document, by the keys that only its program writes. Raises UserError."""
    for keys, reader in READERS:
        if keys <= document.keys():
            return reader
    raise UserError(
        "is no benchmark result",
        file=file,
        allowed="our own anchors, `vllm bench serve --save-result`, sglang.bench_serving, trtllm-bench --report_json, a table "
        "with measured_ttft_ms and measured_tpot_ms",
    )


def _own(document: Document, file: str, fill: Document) -> Iterator[Anchor]:
    if document[STORE_KEY] != STORE_VERSION:
        raise UserError(
            "is of another version",
            file=file,
            field=STORE_KEY,
            value=document[STORE_KEY],
            allowed=f"{STORE_VERSION}",
        )
    entries = document.get("anchors")
    if not isinstance(entries, list) or len(entries) > MAX_POINTS:
        raise UserError(f"is no list of up to {MAX_POINTS:,} anchors", file=file, field="anchors")
    for entry in entries:
        yield from_dict(entry, file)


def _stated(document: Document) -> dict[str, Any]:
    """Columns of a deployment among a document's own keys: what the metadata of a benchmark said."""
    named = {ALIASES.get(str(k), str(k)): v for k, v in document.items() if isinstance(v, (str, int, float))}
    return {name: _plain(name, value) for name, value in named.items() if name in DEPLOYMENT}


def _plain(name: str, value: Any) -> Any:
    """Metadata is text: numbers become numbers."""
    if name not in NUMBERS or not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def _inputs(document: Document) -> dict[str, Any]:
    """Inputs of the model that metadata may state beside the deployment."""
    return {name: document[name] for name in INPUTS if isinstance(document.get(name), (str, int, float))}


def _known(values: Document) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _formats_unknown(deployment: Document, marked: bool = False) -> bool:
    return not marked and not FORMATS & {name for name, value in deployment.items() if value is not None}


def _offered(document: Document) -> dict[str, Any]:
    """Load of a serving client: requests in flight, else a rate, else all at once."""
    limit, rate = document.get("max_concurrency"), document.get("request_rate")
    prompts = document.get("num_prompts") or document.get("completed")
    known = {"num_prompts": prompts}
    if _positive(limit):
        return known | {"concurrency": int(limit)}
    if _positive(rate):
        return known | {"load": "rate", "request_rate": float(rate), "concurrency": prompts}
    return known | {"concurrency": prompts}


def _mean_lengths(document: Document) -> dict[str, Any]:
    """Mean prompt and output of the requests that completed, as fixed lengths."""
    done = document.get("completed")
    lengths: dict[str, Any] = {}
    for name, total in (("isl", "total_input_tokens"), ("osl", "total_output_tokens")):
        if _positive(done) and done >= 1 and _positive(document.get(total)):
            lengths[name] = max(1, round(document[total] / done))
    return lengths | {"length_range": 1.0}


def _latencies(document: Document) -> dict[str, Any]:
    """Means over requests, else medians."""
    found = {}
    for name in ("ttft_ms", "tpot_ms"):
        value = document.get(f"mean_{name}")
        found[name] = value if value is not None else document.get(f"median_{name}")
    return {name: value for name, value in found.items() if _positive(value)}


def _positive(value: Any) -> TypeGuard[float]:
    """Whether a value is a number above 0 that a float can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 < value <= LARGEST


def _vllm(document: Document, file: str, fill: Document) -> Iterator[Anchor]:
    """`vllm bench serve --save-result`; its `backend` is the client's protocol, the engine is metadata or vLLM."""
    stated = _stated({k: v for k, v in document.items() if k not in ("backend", "request_rate")})
    base = {"model": document.get("model_id"), **_mean_lengths(document), **_offered(document)}
    deployment = {"backend": "vllm", **fill, **_known(base), **stated}
    yield anchor(
        deployment,
        _latencies(document),
        f"{file} (vllm bench serve, {document.get('date', 'no date')})",
        inputs=_inputs(document),
        cached=bool(document.get("prefix_caching") in (True, "true", "on")),
        formats_unknown=_formats_unknown(deployment, MARK in document),
        file=file,
    )


def _sglang(document: Document, file: str, fill: Document) -> Iterator[Anchor]:
    """A line of `sglang.bench_serving --output-file`; its tag holds our metadata, server_info the shape."""
    server = document.get("server_info")
    server = server if isinstance(server, dict) else {}
    tag = dict(pair.split("=", 1) for pair in str(document.get("tag") or "").split(",") if "=" in pair)
    lengths = _mean_lengths(document)
    isl, osl = document.get("random_input_len"), document.get("random_output_len")
    if str(document.get("dataset_name")).startswith("random") and isl and osl:
        ratio = document.get("random_range_ratio")
        lengths = {"isl": isl, "osl": osl}
        lengths["length_range"] = float(ratio) if isinstance(ratio, (int, float)) else 1.0
    of_server = {
        "model": server.get("model_path") or document.get("model"),
        "backend_version": server.get("version"),
        "tp": server.get("tp_size"),
        "pp": server.get("pp_size"),
        "precision": server.get("quantization"),
    }
    base = {**of_server, **lengths, **_offered(document)}
    deployment = {"backend": "sglang", **fill, **_known(base), **_stated(tag)}
    yield anchor(
        deployment,
        _latencies(document),
        f"{file} (sglang.bench_serving)",
        formats_unknown=_formats_unknown(deployment, MARK in tag),
        inputs={**_inputs(document), **_inputs({k: _plain_input(v) for k, v in tag.items()})},
        file=file,
    )


def _plain_input(value: str) -> Any:
    try:
        return float(value)
    except ValueError:
        return value


def _trtllm(document: Document, file: str, fill: Document) -> Iterator[Anchor]:
    """`trtllm-bench throughput --streaming --report_json`: tp_size counts attention DP ranks too where those are on."""
    world, engine = _part(document, "world_info"), _part(document, "engine")
    requests, times = _part(document, "request_info"), _part(document, "streaming_metrics")
    machine = _part(document, "machine")
    in_flight = requests.get("avg_num_concurrent_requests")
    stated = {
        "model": engine.get("model"),
        "hardware": machine.get("name"),
        "backend": "trtllm",
        "backend_version": engine.get("version"),
        "precision": engine.get("quantization"),
        "kv_cache_dtype": engine.get("kv_cache_dtype"),
        "tp": world.get("tp_size"),
        "pp": world.get("pp_size"),
        "moe_ep": world.get("ep_size"),
        "isl": _rounded(requests.get("avg_input_length")),
        "osl": _rounded(requests.get("avg_output_length")),
        "length_range": 1.0,
        "concurrency": _rounded(in_flight),
        "num_prompts": requests.get("num_requests"),
    }
    measured = {"ttft_ms": times.get("avg_ttft_ms"), "tpot_ms": times.get("avg_tpot_ms")}
    deployment = {**fill, **_known(stated)}
    yield anchor(
        deployment,
        {k: v for k, v in measured.items() if _positive(v)},
        f"{file} (trtllm-bench)",
        formats_unknown=_formats_unknown(deployment),
        file=file,
    )


def _part(document: Document, name: str) -> Document:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _rounded(value: Any) -> int | None:
    return max(1, round(value)) if _positive(value) else None


def _artifact(document: Document, file: str, fill: Document) -> Iterator[Anchor]:
    """A warm-up artifact of the compatible estimator: prefill and decode steps of static batches."""
    meta = _part(document, "meta")
    base = {
        "model": meta.get("model"),
        "backend": document.get("backend"),
        "tp": meta.get("benchmark_tp") or meta.get("tp"),
        "pp": meta.get("benchmark_pp") or meta.get("pp"),
        "moe_ep": meta.get("benchmark_ep") or meta.get("ep"),
        "precision": meta.get("weight_dtype") or meta.get("quantization"),
        "kv_cache_dtype": meta.get("kv_cache_dtype"),
        "isl": meta.get("input_len"),
        "osl": meta.get("output_len"),
        "load": "static",
    }
    eager, draft = meta.get("enforce_eager"), meta.get("speculative_num_tokens")
    inputs = {
        "request_overhead_ms": 0.0,
        "cudagraph_mode": None if eager is None else "none" if eager else "full",
        "speculative_num_tokens": draft or None,
    }
    known = _known(base)
    for step in _steps(document, meta, file):
        prompt = {"isl": step["context"]} if _positive(step.get("context")) else {}
        measured = {"ttft_ms": step.get("prefill_ms"), "tpot_ms": step.get("decode_ms")}
        yield anchor(
            {**fill, **known, **prompt, "concurrency": step.get("batch")},
            {k: v for k, v in measured.items() if _positive(v)},
            f"{file} (steps of batch {step.get('batch')})",
            inputs=inputs,
            formats_unknown=_formats_unknown(known),
            cached=bool(meta.get("prefix_caching", False)),
            kernels=str(meta.get("aiter_ops") or ""),
            file=file,
        )


def _steps(document: Document, meta: Document, file: str) -> list[Document]:
    """Measured steps of an artifact: its sweep over batches, decode steps at other contexts, else its one point."""
    steps: list[Document] = []
    for name in ("sweep", "decode_ctx"):
        found = document.get(name) or []
        if (
            not isinstance(found, list)
            or len(found) > MAX_POINTS
            or not all(isinstance(s, dict) for s in found)
        ):
            raise UserError("is no list of steps", file=file, field=name)
        steps += found
    single = _part(_part(document, "measured"), "model")
    if not steps and single:
        steps = [{"batch": meta.get("batch") or 1, **single}]
    return steps


def _table(path: Path, fill: Document) -> Iterator[Anchor]:
    """Rows with measured_ttft_ms and measured_tpot_ms beside the columns of `servesweep points`."""
    from sweep.table_io import read_table, tell

    frame = read_table(path)
    if not set(MEASURED_COLUMNS) & set(frame.columns):
        raise UserError("has neither measured_ttft_ms nor measured_tpot_ms", file=str(path))
    if frame.height > MAX_POINTS:
        raise UserError(f"holds more than {MAX_POINTS:,} points", file=str(path))
    tell("anchor", path, frame, (*DEPLOYMENT, *MEASURED_COLUMNS), ("id", *ALIASES))
    for number, row in enumerate(frame.iter_rows(named=True), 2):
        named = {ALIASES.get(name, name): value for name, value in row.items() if value is not None}
        stated = {name: value for name, value in named.items() if name in DEPLOYMENT}
        measured = {name: row.get(f"measured_{name}") for name in MEASURED}
        label = f"{path.name} {row['id']}" if row.get("id") else f"{path.name} line {number}"
        yield anchor(
            {**fill, **stated},
            {name: value for name, value in measured.items() if _positive(value)},
            label,
            file=f"{path}: line {number}",
        )


READERS: tuple[tuple[frozenset[str], Reader], ...] = (
    (frozenset((STORE_KEY,)), _own),
    (frozenset(("meta", "sweep")), _artifact),
    (frozenset(("meta", "measured")), _artifact),
    (frozenset(("world_info", "request_info")), _trtllm),
    (frozenset(("model_id", "total_output_tokens")), _vllm),
    (frozenset(("completed", "mean_ttft_ms")), _sglang),
)
"""Keys by which a document is known, and its reader; the first that fits."""
