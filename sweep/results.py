"""The result table: each column's name, unit, type and meaning, declared once.

Frames, the report, the plots and the docs read this; the kernel's columns (`kernels.layout.RESULT_COLUMNS`)
must all be here, which a test checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernels.layout import BOUND_NAMES
from kernels.reasons import TEXT as REASONS
from sweep.catalog.engine_layer import FAR, NEAR, RELATED

ColumnKind = Literal["float", "count", "bool", "choice"]


@dataclass(frozen=True)
class Column:
    """One output column. `choices` are the words of a choice, in the order of the kernel's codes."""

    name: str
    unit: str
    doc: str
    kind: ColumnKind = "float"
    choices: tuple[str, ...] = ()
    title: str = ""
    """Short name for axes and table heads, where the column has one."""


ROW = Column("row", "", "Row number in the grid: the last axis varies fastest.", "count")
FEASIBLE = Column(
    "feasible", "", "Whether the deployment is legal and fits; the other figures then exist.", "bool"
)
MEETS_SLO = Column(
    "meets_slo", "", "Feasible, and every limit of the SLO is met by the mean over requests.", "bool"
)

KERNEL_COLUMNS = (
    Column("reason", "", "Why there is no answer; empty where there is one.", "choice", REASONS),
    Column(
        "gpus",
        "",
        "GPUs of one replica: tp x attention_dp x pp x cp, all pools together.",
        "count",
        title="GPUs",
    ),
    Column(
        "over_ceiling",
        "",
        "Concurrency is above what fits: requests queue and TTFT contains the wait.",
        "bool",
    ),
    Column("saturated", "", "The offered rate is above what the deployment can serve.", "bool"),
    Column(
        "bound",
        "",
        "What binds the decode step, or capacity where memory limits the batch.",
        "choice",
        BOUND_NAMES,
        title="bound by",
    ),
    Column("weights_gib_per_gpu", "GiB", "Weights on the fullest GPU.", title="weights"),
    Column("weights_attention_gib_per_gpu", "GiB", "Attention projections among them."),
    Column("weights_mlp_gib_per_gpu", "GiB", "Dense MLPs among them."),
    Column("weights_experts_gib_per_gpu", "GiB", "Routed experts among them."),
    Column(
        "weights_other_gib_per_gpu",
        "GiB",
        "Embedding, LM head, router, shared experts and the rest among them.",
    ),
    Column("activation_gib_per_gpu", "GiB", "Peak activations of a step of the whole token budget."),
    Column("reserve_gib_per_gpu", "GiB", "Graphs, communication buffers and driver context."),
    Column("kv_pool_gib_per_gpu", "GiB", "What is left for the KV cache."),
    Column("kv_bytes_per_token_per_gpu", "B", "KV cache of one token on one GPU."),
    Column("kv_capacity_tokens", "tokens", "KV cache of one engine (one DP rank), as it prints it.", "count"),
    Column(
        "kv_capacity_tokens_total",
        "tokens",
        "KV cache of the whole deployment.",
        "count",
        title="KV capacity",
    ),
    Column("held_tokens_total", "tokens", "Tokens that stay cached, the offload tier included.", "count"),
    Column(
        "max_concurrency",
        "requests",
        "Requests of the longest length that fit at once, whole deployment.",
        title="requests that fit",
    ),
    Column("min_memory_fraction", "", "Smallest gpu_memory_utilization at which one request fits."),
    Column("ttft_ms", "ms", "Time to first token, mean over requests, wait included.", title="TTFT"),
    Column("tpot_ms", "ms", "Time per output token, first excluded, mean over requests.", title="TPOT"),
    Column("itl_ms", "ms", "Gap between two tokens of one request, as its client sees it.", title="ITL"),
    Column("e2e_ms", "ms", "Whole request, mean over requests.", title="E2E latency"),
    Column(
        "output_tok_s_per_gpu",
        "tok/s/GPU",
        "Output tokens per second over all GPUs paid for.",
        title="output throughput",
    ),
    Column(
        "total_tok_s_per_gpu",
        "tok/s/GPU",
        "Prompt and output tokens per second over all GPUs paid for.",
        title="total throughput",
    ),
    Column(
        "tok_s_per_user",
        "tok/s",
        "Interactivity: output tokens per second that one user sees.",
        title="tokens/s/user",
    ),
    Column("requests_per_s", "1/s", "Requests per second of the whole deployment.", title="requests"),
    Column("resident", "requests", "Requests in the engine at once, mean; the others wait."),
    Column("step_ms", "ms", "One decode step at the operating point."),
    Column("step_gemm_ms", "ms", "GEMM part of that step."),
    Column("step_attention_ms", "ms", "Attention part."),
    Column("step_moe_ms", "ms", "Experts' part."),
    Column("step_tp_comm_ms", "ms", "Exposed all-reduce of tensor parallelism."),
    Column("step_ep_comm_ms", "ms", "Exposed all-to-all of expert parallelism."),
    Column("step_pp_comm_ms", "ms", "Exposed hops between pipeline stages."),
    Column("step_host_ms", "ms", "Launch and scheduling by the host."),
    Column("step_other_ms", "ms", "Norms, sampling and the rest."),
    Column("mixed_step_ms", "ms", "One step that prefills and decodes under full load."),
    Column("mixed_share", "", "Share of decode time spent in such steps.", title="share of mixed steps"),
    Column("tpot_rise", "", "Rise of TPOT over pure decode, as a fraction."),
    Column("prefill_ms", "ms", "Prefill of one prompt by itself.", title="prefill of one prompt"),
    Column("kv_transfer_ms", "ms", "Transfer of one request's KV cache between pools."),
    Column(
        "doublings_from_measured",
        "",
        "Doublings of sequences, tokens or parallelism outside what was measured of this architecture, accelerator and "
        "engine: 0 inside, empty where they were never measured together.",
        title="doublings from what was measured",
    ),
    Column(
        "usd_per_m_input",
        "$/M tokens",
        "All cost of the GPUs that prefill over input tokens.",
        title="cost of input",
    ),
    Column(
        "usd_per_m_output",
        "$/M tokens",
        "All cost of the GPUs that decode over output tokens.",
        title="cost of output",
    ),
    Column("usd_per_m_total", "$/M tokens", "All cost over input and output tokens.", title="cost"),
    Column(
        "joules_per_output_token", "J", "Facility energy per output token.", title="energy per output token"
    ),
    Column(
        "output_tok_s_per_mw",
        "tok/s/MW",
        "Output tokens per second per MW of facility power.",
        title="output per megawatt",
    ),
    Column(
        "prefill_tok_s_per_prefill_gpu", "tok/s/GPU", "Prompt tokens per second over the GPUs that prefill."
    ),
    Column("decode_tok_s_per_decode_gpu", "tok/s/GPU", "Output tokens per second over the GPUs that decode."),
)
"""What the kernel computes, in the order of the results; `reason` becomes `feasible` and a word."""

BOUNDS = (
    Column(
        "ttft_ms_p10", "ms", "TTFT that one measurement in ten undercuts: of the estimate, not of requests."
    ),
    Column("ttft_ms_p90", "ms", "TTFT that one measurement in ten exceeds."),
    Column(
        "tpot_ms_p10", "ms", "TPOT that one measurement in ten undercuts: of the estimate, not of requests."
    ),
    Column("tpot_ms_p90", "ms", "TPOT that one measurement in ten exceeds."),
)
"""The interval of the estimate, from held-out errors of the calibration; none under the roofline."""
LOWER_BOUND = "lower bound"
EVIDENCE_WORDS = (NEAR, RELATED, FAR, LOWER_BOUND)
EVIDENCE = Column(
    "evidence",
    "",
    "How near measurements stand: this model, accelerator and engine; its family and engine; neither; a lower bound only.",
    "choice",
    EVIDENCE_WORDS,
)

BY_NAME = {c.name: c for c in (ROW, FEASIBLE, MEETS_SLO, *KERNEL_COLUMNS, *BOUNDS, EVIDENCE)}


def title(name: str) -> str:
    """A column as a plot's axis names it: title and unit."""
    column = BY_NAME[name]
    return f"{column.title or name}{f' ({column.unit})' if column.unit else ''}"
