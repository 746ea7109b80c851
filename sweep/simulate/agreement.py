"""Closed form against simulation over random deployments: how far apart, and where.

    python -m sweep.simulate.agreement [N] [SEED]

draws N deployments (500) from the catalogue (models, accelerators, engines, parallel shapes,
lengths, loads) that the closed form calls feasible and not saturated, simulates each, and prints the differences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from sweep.errors import UserError
from sweep.evaluation import evaluate
from sweep.fidelity import coefficients_for, coefficients_of
from sweep.point_rows import row_values
from sweep.records import default_records, set_values

MODELS = (
    "llama_3_1_8b", "llama_3_1_70b", "qwen3_32b", "qwen3_14b", "gemma_3_27b", "mistral_7b", "phi_4",
    "qwen3_30b_a3b", "mixtral_8x7b", "gpt_oss_20b", "gpt_oss_120b", "qwen3_235b_a22b", "deepseek_v2_lite",
    "deepseek_v3", "glm_4_5_air", "qwen3_next_80b_a3b",
)  # fmt: skip
"""Dense, windowed, latent-attention, hybrid and MoE models."""
HARDWARE = ("a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "mi300x", "mi355x", "l40s", "rtx_pro_6000")
ENGINES = ("vllm", "sglang", "trtllm")
RATE_SHARES = (0.2, 0.8)
"""Offered rates, as shares of what the closed form sustains."""
FIGURES = ("ttft_ms", "tpot_ms", "requests_per_s")


def _drawn(rng: np.random.Generator) -> dict[str, Any]:
    """One random deployment by short names; whether it is possible is for the model to say."""
    row: dict[str, Any] = {
        "model": str(rng.choice(MODELS)),
        "hardware": str(rng.choice(HARDWARE)),
        "backend": str(rng.choice(ENGINES)),
        "tp": int(rng.choice([1, 2, 4, 8])),
        "pp": int(rng.choice([1, 1, 1, 1, 2])),
        "attention_dp": int(rng.choice([1, 1, 1, 2, 4])),
        "isl": int(np.exp(rng.uniform(np.log(64), np.log(12_000)))),
        "osl": int(np.exp(rng.uniform(np.log(16), np.log(1500)))),
        "concurrency": int(np.exp(rng.uniform(0.0, np.log(512)))),
        "length_range": float(rng.choice([0.5, 0.8, 0.8, 0.9, 1.0])),
        "prefix_hit_rate": float(rng.choice([0.0, 0.0, 0.0, 0.5])),
        "load": str(rng.choice(["closed_loop", "closed_loop", "rate"])),
    }
    if rng.random() < 0.15:
        row |= {"speculative_num_tokens": int(rng.integers(1, 5)), "speculative_acceptance_rate": 0.7}
    if rng.random() < 0.3:
        row["max_num_batched_tokens"] = int(rng.choice([1024, 2048, 4096, 16384]))
    return row


def _record(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    record = default_records(1)
    values = row_values(row)
    extra = (
        "prefix_hit_rate",
        "speculative_num_tokens",
        "speculative_acceptance_rate",
        "max_num_batched_tokens",
    )
    values |= {name: row[name] for name in extra if name in row}
    set_values(record[0], values)
    return record


def random_deployments(n: int, seed: int) -> Iterator[tuple[dict[str, Any], np.ndarray[Any, Any], Any]]:
    """`n` feasible deployments outside saturation: (row, input record (1,), closed-form result)."""
    rng = np.random.default_rng(seed)
    table = coefficients_for("fitted")
    found = 0
    while found < n:
        row = _drawn(rng)
        try:
            record = _record(row)
        except UserError:
            continue
        if row["load"] == "rate":
            full = record.copy()
            full["load"] = 1.0
            sustained = float(evaluate(full, table).results["requests_per_s"][0])
            if not np.isfinite(sustained):
                continue
            row["request_rate"] = sustained * float(rng.uniform(*RATE_SHARES))
            record["request_rate"] = row["request_rate"]
        closed = evaluate(record, table).results[0]
        if closed["reason"] != 0 or closed["over_ceiling"] > 0 or closed["saturated"] > 0:
            continue
        found += 1
        yield row, record, closed


def compare(n: int, seed: int = 0) -> pl.DataFrame:
    """One row per deployment: its inputs, both drivers' figures, and simulation / closed form - 1 of each."""
    from sweep.simulate.deployment import deployment, simulate_deployment

    table = coefficients_for("fitted")
    rows = []
    for k, (row, record, closed) in enumerate(random_deployments(n, seed)):
        fitted = coefficients_of(table, record)
        simulated = simulate_deployment(deployment(record, fitted), seed + k)
        out = {**row, "mixed_share": float(closed["mixed_share"]), "resident": float(closed["resident"])}
        for name in FIGURES:
            out[name], out[f"des_{name}"] = float(closed[name]), simulated[name]
            out[f"{name}_diff"] = simulated[name] / float(closed[name]) - 1.0
        rows.append(out | {"preemptions": simulated["preemptions"], "busy_share": simulated["busy_share"]})
    return pl.DataFrame(rows, infer_schema_length=None)


def spread(frame: pl.DataFrame) -> pl.DataFrame:
    """Median and P90 size and the median of the differences: of all deployments, and per load and pipeline depth."""
    parts = [("all", frame)]
    for name in ("load", "backend", "pp"):
        parts += [(f"{name}={key[0]}", part) for key, part in sorted(frame.group_by(name))]
    rows = []
    for label, part in parts:
        for name in FIGURES:
            signed = part[f"{name}_diff"]
            rows.append(
                (label, name, part.height, signed.abs().median(), signed.abs().quantile(0.9), signed.median())
            )
    columns = ["deployments", "figure", "n", "median size", "P90 size", "median"]
    return pl.DataFrame(rows, columns, orient="row")


def main(argv: list[str]) -> int:
    """Print the spread of the differences of N deployments drawn with SEED."""
    n, seed = (int(text) for text in (argv + ["500", "0"][len(argv) :])[:2])
    for row in spread(compare(n, seed)).rows():
        print("{:20s} {:16s} n={:4d}  median {:6.2%}  P90 {:6.2%}  signed {:+.2%}".format(*row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
