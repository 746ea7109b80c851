"""`servesweep plan`: how many of which GPU, and what breaks first."""

from __future__ import annotations

from collections.abc import Sequence

HELP = """usage: servesweep plan [--json] [--config-dir DIR] [group=choice | key=value | key=a,b,c ...]

The cheapest and the smallest fleet that carries a demand within an SLO: accelerator, precision, parallel shape, replicas,
prefill and decode together or split, one accelerator type or two. Without a word about the design it searches every
accelerator, four precisions and the usual shapes (conf/grid/plan.yaml).

  servesweep plan model=llama_3_3_70b                            a built-in demand: chat, 20 requests/s, N+1
  servesweep plan model=llama_3_3_70b demand=rag slo=relaxed     others: rag, agents, batch
  servesweep plan model=qwen3_32b demand.request_rate=50 demand.growth=0.3 demand.spare=2 slo.tpot_ms=30
  servesweep plan model=llama_3_1_8b hardware=h100_sxm,l40s demand.max_gpus=16 demand.budget_usd_per_hour=40
  servesweep plan model=llama_3_1_8b workload.trace=requests.csv         lengths and load of the busiest minute from a log
  servesweep plan model=llama_3_3_70b hardware=h200_sxm parallelism=tp4 demand.replicas=6      what this fleet sustains

The last line names the results directory: plans.parquet (fleets within the SLO), deployments.parquet (every deployment
and why not), curve.parquet (latency over load), tornado.png, report.html, plan.json. Exit status 3: no fleet meets the demand, and why.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    from sweep.planner.run import main as run

    return run(argv)
