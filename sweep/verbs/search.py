"""`servesweep search`: the frontiers of a space that is too large to enumerate."""

from __future__ import annotations

from collections.abc import Sequence

HELP = """usage: servesweep search [-m] [--config-dir DIR] [group=choice | key=value | key=a,b,c ...]

Takes the axes of a sweep and looks for the frontiers (cost per million tokens against TPOT and TTFT, of every scenario)
without evaluating every combination: for spaces of 10^6 to 10^18 rows. What it finds is good, not proven best: the last
lines say how much the frontiers still grew. Needs the extra: pip install 'servesweep[search]'

  servesweep search grid=default
  servesweep search model=llama_3_3_70b 'hardware=glob(*)' 'precision=glob(*)' parallelism.tp=1,2,4,8 \\
      'engine.max_num_batched_tokens=range(1024,16385,1024)' 'workload.concurrency=range(1,1025)' slo=interactive

  search.evaluations=N     most rows to evaluate (1 % of the space, at least 2,000, at most 20,000)
  search.tolerance=X       stop where the hypervolume grew by less over search.patience generations (0.0005)
  search.patience=N        generations for that (5)
  search.generation=N      rows evaluated at once
  search.seed=N            another seed looks elsewhere first (0)
  search.within_slo=true   only rows that meet the SLO count (by itself where the command line names an SLO)

The results directory is that of a sweep: report, export, resume and des.top=N work on it. Its rows are those evaluated.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    from sweep.search.run import main as run

    return run(argv)
