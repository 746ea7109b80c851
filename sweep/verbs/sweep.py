"""`servesweep [sweep]`: evaluate a point or a grid."""

from __future__ import annotations

from collections.abc import Sequence

HELP = """usage: servesweep [sweep] [-m] [--config-dir DIR] [group=choice | key=value | key=a,b,c ...]

Evaluates one deployment or a whole grid. A value may be a list (a,b,c), range(start,stop,step), or glob(pattern) over
the choices of a group; every combination becomes a row. Without a word about the deployment it runs grid=default.

  servesweep                                   the main job: models x accelerators x precisions x shapes x loads
  servesweep grid=small                        a small preset
  servesweep model=llama_3_1_8b hardware=h100_sxm,h200_sxm parallelism.tp=1,2,4,8 'workload.concurrency=range(1,513,8)'

The results directory is named on the last line; servesweep resume DIR continues it after an interruption.
servesweep flags lists every key.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    from sweep.run import main as run

    return run(argv)
