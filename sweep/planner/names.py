"""How a deployment and a plan are called in a sentence."""

from __future__ import annotations

from sweep.planner.candidates import Candidates
from sweep.planner.plans import Plan

WIDTHS = (("tp", "tp"), ("attention_dp", "dp"), ("pp", "pp"), ("moe_ep", "ep"))
SHOWN = frozenset(
    "model hardware precision parallelism engine workload slo price cluster isl osl concurrency".split()
)
SHORT = {"max_num_batched_tokens": "budget", "max_num_seqs": "seqs", "gpu_memory_utilization": "memory"}


def shape_name(candidates: Candidates, row: int) -> str:
    """Parallel shape: `tp4`, `tp2 dp4 ep8`."""
    record = candidates.records[row]
    words = [
        f"{word}{int(record[name])}"
        for name, word in WIDTHS
        if record[name] == record[name] and record[name] > 1
    ]
    return " ".join(words) or "tp1"


def deployment_name(candidates: Candidates, row: int) -> str:
    """Accelerator, precision, shape, and what else was searched: `h200_sxm fp8_kv8 tp2, budget 8192`."""
    labels = candidates.labels
    words = [str(labels["hardware"][row]), str(labels["precision"][row]), shape_name(candidates, row)]
    if labels["engine"].n_unique() > 1:
        words.insert(1, str(labels["engine"][row]))
    widths = {name for name, _ in WIDTHS} | {"moe_tp"}
    searched = [
        c
        for c in labels.columns
        if c not in SHOWN and c not in widths and labels[c].n_unique() > 1 and "dtype" not in c
    ]
    return ", ".join([" ".join(words), *(f"{SHORT.get(c, c)} {labels[c][row]}" for c in searched)])


def plan_name(plan: Plan, candidates: Candidates) -> str:
    """`6 x h200_sxm fp8 tp2`; pools and types joined by a plus."""
    words = []
    for part in plan.parts:
        role = "" if part.role == "replica" else f"{part.role} "
        words.append(f"{part.count} {role}x {deployment_name(candidates, part.row)}")
    return " + ".join(words)


def design_name(plan: Plan, candidates: Candidates) -> str:
    """The plan without its counts."""
    return " + ".join(
        f"{'' if part.role == 'replica' else part.role + ' '}{deployment_name(candidates, part.row)}"
        for part in plan.parts
    )
