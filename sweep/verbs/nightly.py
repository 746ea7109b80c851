"""`servesweep nightly`: last night's traffic, a plan for the coming weeks, and whether it changed."""

from __future__ import annotations

from collections.abc import Sequence

HELP = """usage: servesweep nightly [--json] [--config-dir DIR] [job=NAME] [job.KEY=VALUE | override of every plan ...]

Reads a day's traffic log, forecasts the coming weeks, plans each model (servesweep plan), replays the busiest hour on the
plan, compares it with the one last announced, and keeps everything in a folder per night. Made to run unattended: a second
run of a night changes nothing, a killed one continues, two at once cannot be.

  servesweep nightly job=demo                                    the small built-in log (conf/job/demo.yaml)
  servesweep nightly --config-dir /etc/servesweep job=gateway    your own job: /etc/servesweep/job/gateway.yaml
  servesweep nightly job=gateway job.night=2026-03-28            one night again, or one that was missed
  servesweep nightly job=demo slo=relaxed demand.spare=2         any override of servesweep plan, for every model

conf/job/gateway.yaml is a template. The last line of the output names the night's folder: summary.md for a chat channel,
report.html, plan.json, tables and pictures; history.parquet and the log nightly.jsonl lie beside it.

Exit status: 0 the plan is unchanged (or the first), 10 it changed beyond job.change_threshold, 3 a model has no plan that
meets its SLO, 2 the input is wrong (log, job, output folder, or another run holds the lock), 1 a fault or out of time.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    from sweep.nightly.run import main as run

    return run(argv)
