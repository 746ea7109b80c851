"""The benchmark to run where a GPU is: an engine's own server and client, described well enough to be read back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.anchors.readers import MARK
from sweep.errors import UserError

REQUESTS_PER_CLIENT = 10
MODULE = "-m"
ENGINES = ("vllm", "sglang", "trtllm", "atom")


@dataclass(frozen=True)
class Benchmark:
    """What to measure: `checkpoint` served by `engine`, and the deployment as columns of `servesweep points`."""

    engine: str
    checkpoint: str
    deployment: Mapping[str, Any]
    result_file: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Further inputs that set the regime, by short name."""

    def column(self, name: str, otherwise: Any) -> Any:
        value = self.deployment.get(name)
        return otherwise if value is None else value

    @property
    def mean_lengths(self) -> tuple[int, int]:
        """Mean prompt and output: the nominal lengths are the longest."""
        mean = 0.5 * (1.0 + float(self.column("length_range", 1.0)))
        return round(mean * self.deployment["isl"]), round(mean * self.deployment["osl"])

    @property
    def metadata(self) -> list[str]:
        """The deployment as key=value, for the client to write into its result (whose `backend` is a protocol)."""
        described = {**self.deployment, **self.inputs, "engine": self.engine, "backend": None}
        return [f"{MARK}=1", *(f"{k}={v}" for k, v in described.items() if v is not None)]


def commands(benchmark: Benchmark) -> list[list[str]]:
    """Server and client, as argument lists. Raises UserError for an engine without a benchmark of its own."""
    if benchmark.engine not in SERVERS:
        raise UserError(
            "has no benchmark here", field="engine", value=benchmark.engine, allowed=", ".join(ENGINES)
        )
    server, client = SERVERS[benchmark.engine], CLIENTS[benchmark.engine]
    return [server(benchmark), client(benchmark)]


def as_text(command: list[str]) -> str:
    """A command as a shell reads it, one option a line."""
    lines = [""]
    for word in command:
        if word.startswith("-") and word != MODULE:
            lines.append(" ")
        lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines).strip()


def _options(pairs: Mapping[str, Any]) -> list[str]:
    """--name value for what is given; a switch for True."""
    words: list[str] = []
    for name, value in pairs.items():
        if value is not None and value is not False:
            words += [name] if value is True else [name, str(value)]
    return words


def _above_one(value: Any) -> Any:
    return value if value is not None and value > 1 else None


def _vllm_server(b: Benchmark) -> list[str]:
    d = b.deployment
    return [
        *("vllm", "serve", b.checkpoint, "--no-enable-prefix-caching"),
        *_options(
            {
                "--tensor-parallel-size": b.column("tp", 1),
                "--quantization": "fp8"
                if "fp8" in (d.get("linear_dtype"), b.inputs.get("weight_dtype"))
                else None,
                "--pipeline-parallel-size": _above_one(d.get("pp")),
                "--data-parallel-size": _above_one(d.get("attention_dp")),
                "--enable-expert-parallel": _above_one(d.get("moe_ep")) is not None,
                "--kv-cache-dtype": d.get("kv_cache_dtype"),
                "--max-num-batched-tokens": d.get("max_num_batched_tokens"),
                "--max-num-seqs": d.get("max_num_seqs"),
                "--max-model-len": d.get("max_model_len"),
                "--gpu-memory-utilization": d.get("gpu_memory_utilization"),
            }
        ),
    ]


def _sglang_server(b: Benchmark) -> list[str]:
    d = b.deployment
    ranks = _above_one(d.get("attention_dp"))
    return [
        *("python", "-m", "sglang.launch_server", "--model-path", b.checkpoint, "--disable-radix-cache"),
        *_options(
            {
                "--tp-size": b.column("tp", 1) * (ranks or 1),
                "--pp-size": _above_one(d.get("pp")),
                "--dp-size": ranks,
                "--enable-dp-attention": ranks is not None,
                "--ep-size": _above_one(d.get("moe_ep")),
                "--kv-cache-dtype": "fp8_e4m3" if d.get("kv_cache_dtype") == "fp8" else None,
                "--chunked-prefill-size": d.get("max_num_batched_tokens"),
                "--max-running-requests": d.get("max_num_seqs"),
                "--context-length": d.get("max_model_len"),
                "--mem-fraction-static": d.get("gpu_memory_utilization"),
            }
        ),
    ]


def _trtllm_server(b: Benchmark) -> list[str]:
    d = b.deployment
    return [
        *("trtllm-serve", b.checkpoint),
        *_options(
            {
                "--tp_size": b.column("tp", 1),
                "--pp_size": _above_one(d.get("pp")),
                "--ep_size": _above_one(d.get("moe_ep")),
                "--max_num_tokens": d.get("max_num_batched_tokens"),
                "--max_batch_size": d.get("max_num_seqs"),
                "--max_seq_len": d.get("max_model_len"),
                "--kv_cache_free_gpu_memory_fraction": d.get("gpu_memory_utilization"),
            }
        ),
    ]


def _atom_server(b: Benchmark) -> list[str]:
    options = {"-tp": b.column("tp", 1), "--kv_cache_dtype": b.deployment.get("kv_cache_dtype")}
    return ["python", "-m", "atom.entrypoints.openai_server", "--model", b.checkpoint, *_options(options)]


def _load(b: Benchmark) -> dict[str, Any]:
    """Clients in flight and requests in all; a rate where that is the load."""
    rate, in_flight = b.deployment.get("request_rate"), b.deployment.get("concurrency")
    prompts = b.column("num_prompts", REQUESTS_PER_CLIENT * (in_flight or 100))
    return {"--max-concurrency": in_flight, "--request-rate": rate or "inf", "--num-prompts": prompts}


def _openai_client(program: list[str], b: Benchmark) -> list[str]:
    """The client of vLLM and those that descend from it: lengths uniform in mean x (1 +- ratio)."""
    isl, osl = b.mean_lengths
    low = float(b.column("length_range", 1.0))
    return [
        *program,
        *_options(
            {
                "--model": b.checkpoint,
                "--dataset-name": "random",
                "--random-input-len": isl,
                "--random-output-len": osl,
                "--random-range-ratio": f"{(1.0 - low) / (1.0 + low):.4g}",
                "--ignore-eos": True,
                **_load(b),
                "--save-result": True,
                "--result-filename": b.result_file,
            }
        ),
        *("--metadata", *b.metadata),
    ]


def _vllm_client(b: Benchmark) -> list[str]:
    return _openai_client(["vllm", "bench", "serve"], b)


def _trtllm_client(b: Benchmark) -> list[str]:
    return _openai_client(
        ["python", "-m", "tensorrt_llm.serve.scripts.benchmark_serving", "--backend", "openai"], b
    )


def _atom_client(b: Benchmark) -> list[str]:
    return _openai_client(["python", "-m", "atom.benchmarks.benchmark_serving", "--backend", "vllm"], b)


def _sglang_client(b: Benchmark) -> list[str]:
    """Lengths uniform in [ratio, 1] x nominal."""
    return [
        *("python", "-m", "sglang.bench_serving", "--backend", "sglang"),
        *_options(
            {
                "--model": b.checkpoint,
                "--dataset-name": "random",
                "--random-input-len": b.deployment["isl"],
                "--random-output-len": b.deployment["osl"],
                "--random-range-ratio": b.column("length_range", 1.0),
                **_load(b),
                "--output-file": b.result_file,
                "--tag": ",".join(b.metadata),
            }
        ),
    ]


SERVERS = {"vllm": _vllm_server, "sglang": _sglang_server, "trtllm": _trtllm_server, "atom": _atom_server}
CLIENTS = {"vllm": _vllm_client, "sglang": _sglang_client, "trtllm": _trtllm_client, "atom": _atom_client}
