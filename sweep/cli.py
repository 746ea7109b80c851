"""The command line: picks the verb, and turns a person's mistake into one line and exit status 2.

Verbs import what they need when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from sweep.errors import EXIT_INPUT, EXIT_NO_ANSWER, LONGEST_MESSAGE, NoAnswer, UserError, nearest, printable

INTERRUPTED = 130
"""What a shell reports of a program that was interrupted (128 + SIGINT)."""

VERBS: dict[str, tuple[str, str]] = {
    "sweep": (
        "sweep.verbs.sweep",
        "evaluate a point or a grid: results directory, Pareto plot, report (the default verb)",
    ),
    "search": (
        "sweep.verbs.search",
        "the frontiers of a space too large to enumerate, by an optimiser over the same axes",
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
    try:
        return int(module.main(list(arguments)))
    except SystemExit as done:  # argparse, after --help
        return int(done.code or 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status (0 done, 1 our fault, 2 wrong input, 3 no answer, 130 interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = "sweep"
    try:
        if arguments and arguments[0] in ("-h", "--help", "help"):
            return _told(usage())
        if arguments and arguments[0] == "--version":
            from sweep import __version__

            return _told(f"servesweep {__version__}")
        if arguments and arguments[0] in VERBS:
            verb = arguments.pop(0)
        elif arguments and arguments[0].isidentifier():
            close = ", ".join(nearest(arguments[0], VERBS) or VERBS)
            return _refused("", f"no verb '{printable(arguments[0])}'; nearest: {close}", EXIT_INPUT)
        status = _run(verb, arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UserError as error:
        return _refused(verb, error.message, EXIT_INPUT)
    except NoAnswer as error:
        return _refused(verb, str(error), EXIT_NO_ANSWER)
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        if error.strerror is None:
            raise
        where = error.filename2 or error.filename
        if where is None:
            _forget_output()
        return _refused(verb, f"{where or 'output'}: {error.strerror}", EXIT_INPUT)
    except KeyboardInterrupt as interruption:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # a line of progress may stand there
        return _refused(verb, "; ".join(["interrupted", *map(str, interruption.args)]), INTERRUPTED)


def program() -> NoReturn:
    """The console script: `main`, and then out of the process with its status, in whatever state an interruption left it."""
    status: list[int] = []
    atexit.register(
        _end_interrupted, status
    )  # registered first, it runs last: threads and workers have ended
    status.append(main())
    # What is done stays done; a second Ctrl-C ends at once what waits for a thread
    signal.signal(signal.SIGINT, signal.SIG_DFL if status == [INTERRUPTED] else signal.SIG_IGN)
    raise SystemExit(status[0])


def _end_interrupted(status: list[int]) -> None:
    """Exit with INTERRUPTED; Python itself would die of SIGINT where the interruption fell into code that a library made."""
    if status != [INTERRUPTED]:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(INTERRUPTED)


def _told(text: str) -> int:
    print(text, flush=True)
    return 0


def _refused(verb: str, message: str, status: int) -> int:
    """One line on stderr, after what stdout still holds."""
    print(f"servesweep{' ' if verb else ''}{verb}: {printable(message, LONGEST_MESSAGE)}", file=sys.stderr)
    return status


def _forget_output() -> None:
    """Nobody reads stdout any more, or it cannot be written: what it still holds must not fail again at the end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
