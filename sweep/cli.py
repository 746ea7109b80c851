"""The command line: picks the verb, and turns a person's mistake into one line and exit status 2.

Verbs import what they need when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from sweep.errors import EXIT_INPUT, EXIT_NO_ANSWER, NoAnswer, UserError, nearest

VERBS: dict[str, tuple[str, str]] = {
    "sweep": (
        "sweep.verbs.sweep",
        "evaluate a point or a grid: results directory, Pareto plot, report (the default verb)",
    ),
    "estimate": ("sweep.verbs.estimate", "one deployment with its full breakdown: memory and performance"),
    "points": ("sweep.verbs.points", "a table of deployments in, a table of estimates out"),
    "resume": ("sweep.verbs.resume", "continue an interrupted sweep"),
    "report": ("sweep.verbs.report", "the report and all pictures of a sweep, drawn again"),
    "simulate": ("sweep.verbs.simulate", "request by request, with a discrete-event simulator"),
    "collectives": ("sweep.verbs.collectives", "a table of collectives in, their times out"),
    "workload": ("sweep.verbs.workload", "what a trace contains, and a synthetic workload fitted to it"),
    "plan": ("sweep.verbs.plan", "the smallest or cheapest fleet that meets an SLO for a demand"),
    "export": (
        "sweep.verbs.export",
        "commands of the engine, a Kubernetes manifest and the benchmark of a deployment",
    ),
    "nightly": (
        "sweep.verbs.nightly",
        "the unattended job: last night's traffic, a plan, and whether it changed",
    ),
    "calibrate": ("sweep.verbs.calibrate", "fit efficiencies and overheads to measured data"),
    "anchor": (
        "sweep.verbs.anchor",
        "the benchmark to run where a GPU is, and its result into the anchor store",
    ),
    "validate": ("sweep.verbs.validate", "score the model against measured data"),
    "flags": ("sweep.verbs.flags", "every input: meaning, unit, default, what it moves"),
    "bench": ("sweep.verbs.bench", "how fast this machine evaluates and simulates"),
}
"""Verb -> (module with `main(argv) -> int`, one line of help)."""


def usage() -> str:
    """Help of the program as a whole."""
    lines = ["usage: servesweep [VERB] [arguments]", ""]
    lines += [f"  {verb:12s} {text}" for verb, (_, text) in VERBS.items()]
    lines += [
        "",
        "servesweep VERB --help says more. Without a verb the arguments are sweep overrides, for example",
        "  servesweep -m model=llama_3_1_8b hardware=h100_sxm,h200_sxm parallelism.tp=1,2,4,8",
    ]
    return "\n".join(lines)


def _run(verb: str, arguments: Sequence[str]) -> int:
    module = importlib.import_module(VERBS[verb][0])
    return int(module.main(list(arguments)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status (0 done, 1 our fault, 2 wrong input, 3 no answer)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments and arguments[0] == "--version":
        from sweep import __version__

        print(f"servesweep {__version__}")
        return 0
    verb = "sweep"
    if arguments and arguments[0] in VERBS:
        verb = arguments.pop(0)
    elif arguments and arguments[0].isidentifier():
        close = nearest(arguments[0], VERBS)
        print(
            f"servesweep: no verb {arguments[0]!r}; nearest: {', '.join(close) or ', '.join(VERBS)}",
            file=sys.stderr,
        )
        return EXIT_INPUT
    try:
        return _run(verb, arguments)
    except UserError as error:
        print(f"servesweep {verb}: {error.message}", file=sys.stderr)
        return EXIT_INPUT
    except NoAnswer as error:
        print(f"servesweep {verb}: {error}", file=sys.stderr)
        return EXIT_NO_ANSWER
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        print(f"servesweep {verb}: {error.filename2 or error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_INPUT
    except KeyboardInterrupt:
        print(f"servesweep {verb}: interrupted", file=sys.stderr)
        return 130
