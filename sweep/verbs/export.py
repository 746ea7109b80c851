"""`servesweep export`: from a chosen deployment to the commands that run and measure it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sweep.errors import UserError

HELP = """usage: servesweep export [DIR [--row N] | group=choice key=value ... | --model NAME --hardware NAME ...]
                         [--output DIR] [--replicas N] [--checkpoint ID] [--draft ID] [--json]

What a deployment needs to run: the command line of its engine (vllm, sglang, trtllm), a Kubernetes manifest, the benchmark
that would measure it, and the row of a table (deployment.csv) that says what was measured. Every flag is one that the engine
documents. A deployment that its own memory cannot hold is refused, and so is a setting that the engine has no flag for.

  servesweep export results/RUN                       the cheapest row that meets the SLO
  servesweep export results/RUN --row 81234           any other row (`row` in the tables and the report)
  servesweep export model=llama_3_3_70b hardware=h200_sxm parallelism=tp4 precision=fp8 engine=sglang
  servesweep export --model llama_3_1_8b --hardware h100 --tp 1 --max-concurrency 64        flags of servesweep estimate

  --output DIR       folder of the files (export/<name> by default; named on the last line)
  --replicas N       copies of the deployment in the manifest
  --checkpoint ID    checkpoint to load, where the engine cannot make the format of the weights while it loads
  --draft ID         draft model, where speculation needs one
  --json             one object with commands and files; nothing is written unless --output is given
"""
MOST_DIGITS = 12
VALUED = ("--row", "--output", "--replicas", "--checkpoint", "--draft")


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if not argv or any(a in ("-h", "--help") for a in argv):
        print(HELP, end="")
        return 0
    own, rest = _own(argv)
    from sweep.export.bundle import bundle, write
    from sweep.export.deployment import deployment
    from sweep.export.source import chosen

    found = chosen(rest, _number("--row", own.get("--row"), 0))
    d = deployment(
        found.record,
        found.model,
        found.hardware,
        checkpoint=own.get("--checkpoint", ""),
        draft=own.get("--draft", ""),
        replicas=_number("--replicas", own.get("--replicas"), 1) or 1,
    )
    made = bundle(d)
    for note in (*found.notes, *d.notes):
        print(f"note: {note}", file=sys.stderr)
    folder = Path(own.get("--output") or Path("export") / d.name)
    as_json = "--json" in own
    if not as_json or "--output" in own:
        write(made, folder)
    if as_json:
        commands = {role: command.words() for role, command in made.servers.items()}
        bench = {"benchmark": made.bench.words()}
        router = {"router": made.router.words()} if made.router else {}
        print(
            json.dumps(
                {"name": d.name, "gpus": d.gpus, "commands": commands | router | bench, "files": made.files},
                indent=1,
            )
        )
        return 0
    for role, command in made.servers.items():
        print(f"# {role}: {d.pools[[p.role for p in d.pools].index(role)].gpus} x {d.hardware} a worker")
        print(f"{made.checkpoint}\n{command.shell()}\n")
    if made.router:
        print(f"# router\n{made.router.shell()}\n")
    print(f"# benchmark\n{made.bench.shell()}\n")
    print(folder)
    return 0


def _own(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options of this verb by name, and all other arguments."""
    own: dict[str, str] = {}
    rest: list[str] = []
    words = iter(argv)
    for argument in words:
        name, sign, value = argument.partition("=")
        if argument == "--json":
            own["--json"] = ""
        elif name in VALUED:
            given = value if sign else next(words, "")
            if not given:
                raise UserError("needs a value", field=name)
            own[name] = given
        else:
            rest.append(argument)
    return own, rest


def _number(name: str, text: str | None, least: int) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < least:
        raise UserError("is not a whole number", field=name, value=text, allowed=f"{least} and up")
    return int(text)
