"""Result columns by family, for the `moves` of a field: which answers an input can change."""

from __future__ import annotations

WEIGHTS = (
    "weights_gib_per_gpu",
    "weights_attention_gib_per_gpu",
    "weights_mlp_gib_per_gpu",
    "weights_experts_gib_per_gpu",
    "weights_other_gib_per_gpu",
)
KV = (
    "kv_pool_gib_per_gpu",
    "kv_bytes_per_token_per_gpu",
    "kv_capacity_tokens",
    "kv_capacity_tokens_total",
    "held_tokens_total",
    "max_concurrency",
    "min_memory_fraction",
)
MEMORY = (*WEIGHTS, "activation_gib_per_gpu", "reserve_gib_per_gpu", *KV)
VERDICT = ("reason", "over_ceiling", "saturated", "bound")
STEP = (
    "step_ms",
    "step_gemm_ms",
    "step_attention_ms",
    "step_moe_ms",
    "step_tp_comm_ms",
    "step_ep_comm_ms",
    "step_pp_comm_ms",
    "step_host_ms",
    "step_other_ms",
    "mixed_step_ms",
    "mixed_share",
    "tpot_rise",
    "prefill_ms",
)
LATENCY = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "tok_s_per_user")
THROUGHPUT = (
    "output_tok_s_per_gpu",
    "total_tok_s_per_gpu",
    "requests_per_s",
    "resident",
    "prefill_tok_s_per_prefill_gpu",
    "decode_tok_s_per_decode_gpu",
)
MONEY = ("usd_per_m_input", "usd_per_m_output", "usd_per_m_total")
ENERGY = ("joules_per_output_token", "output_tok_s_per_mw")
COST = (*MONEY, *ENERGY)

SPEED = (*LATENCY, *STEP, *THROUGHPUT, *COST, "over_ceiling", "saturated", "bound", "doublings_from_measured")
"""What a change of step time can reach."""
FIT = (*MEMORY, "reason")
"""What a change of memory can reach at once; through the ceiling of concurrency it can reach `SPEED` too."""
EVERYTHING = (
    *LATENCY,
    *MEMORY,
    "gpus",
    *VERDICT,
    *STEP,
    "kv_transfer_ms",
    "doublings_from_measured",
    *THROUGHPUT,
    *COST,
)
SIMULATED = (*LATENCY, *THROUGHPUT)
"""What the simulator reports of a knob that only it reads (percentiles of the same columns included)."""

FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("everything", EVERYTHING),
    ("speed", SPEED),
    ("latency", LATENCY),
    ("memory", MEMORY),
    ("KV capacity", KV),
    ("weights", WEIGHTS),
    ("step times", STEP),
    ("throughput", THROUGHPUT),
    ("cost and energy", COST),
    ("energy", ENERGY),
    ("cost", MONEY),
)


def in_words(moves: tuple[str, ...]) -> str:
    """`moves` with whole families named as such."""
    left = list(moves)
    words: list[str] = []
    for name, family in FAMILIES:
        if all(column in left for column in family):
            words.append(name)
            left = [column for column in left if column not in family]
    return ", ".join([*words, *left])
