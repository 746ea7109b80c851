"""`servesweep plan`: answer, verify, explain, write one results directory."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from sweep.compilation import announced
from sweep.errors import UserError
from sweep.fields import by_key
from sweep.fields.inert import inert, notes
from sweep.fields.readers import keys_of
from sweep.files import check_folder, write_atomic
from sweep.parts import parquet_bytes
from sweep.planner.answer import Answer, answered, curve_frame, deployments_frame, order, plan_row
from sweep.planner.insights import Insights, insights
from sweep.planner.plans import Plan
from sweep.planner.question import Question, question
from sweep.planner.text import answer_lines, insight_lines, print_plans, question_lines
from sweep.planner.tornado import tornado_png
from sweep.planner.verify import Verified, verified

FILES = ("plans.parquet", "deployments.parquet", "curve.parquet", "tornado.png", "report.html", "plan.json")
"""What a results directory of a plan holds; another plan may take its place."""


@dataclass(frozen=True)
class Planned:
    """A finished plan: the answer in closed form, the short list in its final order, what explains it."""

    answer: Answer
    short_list: tuple[Verified, ...]
    insights: Insights

    @property
    def winner(self) -> Plan:
        return self.short_list[0].plan

    @property
    def smallest(self) -> Plan:
        """The verified plan with the fewest GPUs."""
        return min((v.plan for v in self.short_list), key=lambda plan: order(plan, True))

    @property
    def cheapest(self) -> Plan:
        """The verified plan that costs least."""
        return min((v.plan for v in self.short_list), key=lambda plan: order(plan, False))

    def frame(self) -> pl.DataFrame:
        """The short list as a table; simulated columns are null where nothing was simulated."""
        rows = [plan_row(v.plan, self.answer) | v.columns() for v in self.short_list]
        return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def planned(asked: Question) -> Planned:
    """Answer a question. Raises NoAnswer."""
    with announced():
        answer = answered(asked)
    listed = answer.plans[: int(asked.setting("short_list"))]
    short = list(dict.fromkeys([*listed, answer.smallest]))
    checked = verified(short, answer) if asked.setting("simulate") else [Verified(plan) for plan in short]
    return Planned(answer, tuple(checked), insights(answer, [v.plan for v in checked]))


def main(argv: Sequence[str]) -> int:
    """Run the verb on its arguments; returns the exit status."""
    overrides, config_dirs, as_json = arguments(argv)
    asked = question(overrides, config_dirs)
    for line in notes(_inert(asked, overrides)):
        print(f"note: {line}", file=sys.stderr)
    if asked.setting("replicas") is not None:
        return _tell_sustained(asked, as_json)
    if asked.grid.settings["output.dir"]:
        check_folder(Path(asked.grid.settings["output.dir"]), "output.dir", FILES)
    done = planned(asked)
    folder = write(done)
    if as_json:
        print(json.dumps(as_dict(done, folder), indent=1, allow_nan=False))
        return 0
    for line in [
        *question_lines(done.answer),
        *answer_lines(done.answer, done.winner, done.smallest, done.cheapest, done.insights),
    ]:
        print(line)
    print()
    print_plans(done.frame(), "plans, best of each accelerator and kind")
    for line in insight_lines(done.insights, done.answer):
        print(line)
    for verdict in done.short_list:
        if verdict.note:
            print(f"servesweep plan: {verdict.note}", file=sys.stderr)
    print(folder)
    return 0


def _inert(asked: Question, overrides: Sequence[str]) -> dict[str, str]:
    """Inputs of the command line that can change no plan, and what they would need."""
    keys = [key for key in asked.grid.given if key in keys_of(overrides)]
    read = [key for key in by_key() if key.startswith("workload.")]
    return inert(asked.grid.possible(), keys, verb="plan", read=read)


def _tell_sustained(asked: Question, as_json: bool) -> int:
    """The answer for a fleet that exists; nothing is written."""
    from sweep.planner.sustained import sustained_frame

    with announced():
        frame = sustained_frame(asked)
    if as_json:
        print(json.dumps({"fleets": frame.to_dicts()}, indent=1, allow_nan=False))
        return 0
    print(f"SLO      {asked.limits.text()}; spare replicas carry no load")
    print_plans(frame, "load that these fleets sustain within it")
    return 0


def arguments(argv: Sequence[str]) -> tuple[list[str], list[Path], bool]:
    """Overrides, folders of --config-dir, and whether --json was given. Raises UserError."""
    overrides: list[str] = []
    folders: list[Path] = []
    as_json = False
    rest = iter(argv)
    for argument in rest:
        if argument == "--json":
            as_json = True
        elif argument == "--config-dir" or argument.startswith("--config-dir="):
            value = argument.partition("=")[2] or next(rest, "")
            if not value:
                raise UserError("which folder?", field="--config-dir")
            folders.append(Path(value))
        elif argument in ("-m", "--multirun"):
            continue
        elif argument.startswith("-"):
            raise UserError(
                f"unknown option {argument}", allowed="--json, --config-dir DIR, group=choice, key=value"
            )
        else:
            overrides.append(argument)
    return overrides, folders, as_json


def as_dict(done: Planned, folder: Path | None = None) -> dict[str, Any]:
    """The plan as one JSON object."""
    demand, limits = done.answer.question.demand, done.answer.question.limits
    rows = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in done.frame().iter_rows(named=True)
    ]
    return {
        "model": done.answer.question.candidates.labels["model"][0],
        "demand": {"planned": demand.planned, "unit": "requests_per_s" if demand.by_rate else "in_flight"}
        | {k: v for k, v in vars(demand).items() if isinstance(v, (int, float)) and math.isfinite(v)},
        "slo": {k: v for k, v in vars(limits).items() if math.isfinite(v)},
        "answer": rows[0],
        "plans": rows,
        "smallest": next(
            row for row, v in zip(rows, done.short_list, strict=True) if v.plan is done.smallest
        ),
        **done.insights.as_dict(),
        "results": None if folder is None else str(folder),
    }


def write(done: Planned) -> Path:
    """The results directory: plans (strict), all deployments, the full curve, the tornado, everything as JSON."""
    asked = done.answer.question
    given = asked.grid.settings["output.dir"]
    folder = Path(given) if given else _new_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "plans.parquet", parquet_bytes(done.frame()))
        write_atomic(folder / "deployments.parquet", parquet_bytes(deployments_frame(done.answer)))
        write_atomic(folder / "curve.parquet", parquet_bytes(curve_frame(done.answer)))
        if asked.grid.settings["output.report"]:
            _draw(done, folder)
        write_atomic(
            folder / "plan.json", json.dumps(as_dict(done, folder), indent=1, allow_nan=False).encode()
        )
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", field="output.dir", value=folder) from None
    return folder


def _draw(done: Planned, folder: Path) -> None:
    """tornado.png and report.html."""
    from sweep.report.plan import plan_html

    found = done.insights
    if found.swings:
        picture = tornado_png(found.swings, found.base_usd_per_hour, found.names[0])
        write_atomic(folder / "tornado.png", picture)
    write_atomic(folder / "report.html", plan_html(done))


def _new_folder() -> Path:
    stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-plan"
    candidates = (Path("results") / f"{stem}{suffix}" for suffix in ("", *(f"-{i}" for i in range(2, 1000))))
    return next(folder for folder in candidates if not folder.exists())
