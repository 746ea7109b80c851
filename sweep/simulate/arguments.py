"""The command line of `servesweep simulate`: the flags of the cluster simulator's specification, and a few of ours."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweep.arguments import Parser
from sweep.errors import UserError
from sweep.fields import FIELDS, SAME, Field, Seed

SPECIFICATION = "llmservingsim"
SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
DTYPE_FLAGS = {
    "--dtype": ("float16", "bfloat16", "float32", "fp8", "int8"),
    "--kv-cache-dtype": ("auto", "fp8"),
}
"""Number formats that the specification names; the fields behind them know more."""


def seeds_of(field: Field) -> list[Seed]:
    """Names of a field on this command line."""
    return [seed for seed in field.seeds if seed.spec == SPECIFICATION]


def _number(field: Field, seed: Seed) -> Any:
    kind = int if field.kind == "int" else float

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError as error:
            wanted = "a whole number" if kind is int else "a number"
            raise UserError(f"is not {wanted}", field=seed.flag, value=text) from error
        low, high = field.low, field.high
        below = low is not None and (value < low or (field.low_open and value == low))
        if value != value or below or (high is not None and value > high) or abs(value) > 2**62:
            bounds = f"{'above' if field.low_open else 'at least'} {low:g}" if low is not None else "a number"
            bounds += f", at most {2**62 if high is None else high:g}"
            raise UserError("out of range", field=seed.flag, value=text, allowed=bounds)
        return value

    return parse


def _choice(flag: str, choices: tuple[str, ...]) -> Any:
    def parse(text: str) -> str:
        if text not in choices:
            raise UserError("unknown", field=flag, value=text, allowed=", ".join(choices))
        return text

    return parse


def _add(group: Any, field: Field) -> None:
    seeds = seeds_of(field)
    seed = seeds[0]
    default = field.default if seed.default is SAME else seed.default
    text = field.doc.replace("%", "%%")
    if field.kind == "bool":
        name = seed.flag[2:].replace("-", "_")
        group.add_argument(seed.flag, dest=name, action="store_true", default=default, help=text)
        for other in seeds[1:]:
            group.add_argument(
                other.flag, dest=name, action="store_false", default=default, help=f"not {seed.flag}"
            )
        return
    more: dict[str, Any] = {"default": default, "help": f"{text} (default: {default})"}
    if seed.flag in DTYPE_FLAGS:
        more["default"] = "auto" if seed.flag == "--kv-cache-dtype" else None
        more["type"] = _choice(seed.flag, DTYPE_FLAGS[seed.flag])
        more["metavar"] = "|".join(DTYPE_FLAGS[seed.flag])
    elif field.kind == "choice":
        choices = field.choices if default is not None else ("None", *field.choices)
        more.update(type=_choice(seed.flag, choices), metavar="|".join(choices), default=default or "None")
    elif field.kind in ("int", "float"):
        more["type"] = _number(field, seed)
        more["metavar"] = field.kind.upper()
    elif field.kind == "path":
        more["type"] = Path
        more["metavar"] = "PATH"
    group.add_argument(*(s.flag for s in seeds), **more)


MOST_HOST_US = 1e8
"""Longest host time of one step or request: 100 s, so that sums over millions fit the clock of ns."""


def _positive(flag: str, *, zero: bool = True, high: float = 1e18, whole: bool = False) -> Any:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError as error:
            raise UserError("is not a number", field=flag, value=text) from error
        if not 0 <= value <= high or (not zero and value == 0) or (whole and value != int(value)):
            allowed = f"{'whole numbers, ' if whole else ''}{'0' if zero else 'above 0'} to {high:g}"
            raise UserError("out of range", field=flag, value=text, allowed=allowed)
        return int(value) if whole else value

    return parse


COMPARABLE = ("LOAD", "RR", "RAND", "round_robin", "random", "least_loaded", "prefix_aware", "kv")


def _ours(p: argparse.ArgumentParser) -> None:
    group = p.add_argument_group("pricing")
    group.add_argument(
        "--operator-profiles",
        type=Path,
        metavar="DIR",
        help="measured operator tables: DIR/<hardware>/<model>/<variant>/tp<N>/*.csv; without, the step model prices",
    )
    group.add_argument(
        "--fidelity",
        default="fitted",
        type=_choice("--fidelity", ("roofline", "fitted")),
        metavar="roofline|fitted",
        help="rung of the step model where no profiles are given (default: fitted)",
    )
    group.add_argument(
        "--compat",
        action="store_true",
        help="reproduce the specification's quirks (idle ticks, padding, first-token stamps) to the nanosecond",
    )
    routing = p.add_argument_group("routing")
    routing.add_argument(
        "--request-routing-function",
        metavar="MODULE:FUNCTION",
        help="the policy of --request-routing-policy CUSTOM: gets the request and the instances' live state, returns an index",
    )
    routing.add_argument(
        "--compare-routing",
        metavar="POLICY",
        type=_choice("--compare-routing", COMPARABLE),
        help="simulate under this policy too; the summary says by how much the other one is ahead: "
        + ", ".join(COMPARABLE),
    )
    p.add_argument_group("workload").add_argument(
        "--on-bad-line",
        default="stop",
        type=_choice("--on-bad-line", ("stop", "skip", "report")),
        metavar="stop|skip|report",
        help="what a line of the dataset that is no request does: stop the run, be skipped, or be skipped and told",
    )
    host = p.add_argument_group("host costs")
    for flag, unit, text in (
        ("--step-overhead-us", "us", "host time of every engine step that the device does not hide"),
        ("--mixed-step-overhead-us", "us", "further host time of a step with prompt tokens"),
        (
            "--sequence-overhead-us",
            "us",
            "further host time of a step per sequence in it (default: 2 with operator profiles, else inside the step model)",
        ),
        ("--request-overhead-ms", "ms", "host time of a request before it can be scheduled"),
    ):
        most = MOST_HOST_US / (1e3 if unit == "ms" else 1.0)
        host.add_argument(
            flag, type=_positive(flag, high=most), default=None, metavar=unit.upper(), help=text
        )
    host.add_argument(
        "--stream-interval",
        type=_positive("--stream-interval", zero=False, high=2**31, whole=True),
        default=1,
        metavar="N",
        help="output tokens buffered per flush to the client",
    )
    engine = p.add_argument_group("engine")
    engine.add_argument(
        "--speculative-num-tokens",
        type=_positive("--speculative-num-tokens", high=64, whole=True),
        default=0,
        metavar="N",
        help="draft tokens per decode step",
    )
    engine.add_argument(
        "--speculative-acceptance-rate",
        type=_positive("--speculative-acceptance-rate", high=1),
        default=0.0,
        metavar="SHARE",
        help="chance that a draft token is accepted, given that those before it were",
    )
    engine.add_argument(
        "--speculative-draft-cost-factor",
        type=_positive("--speculative-draft-cost-factor", high=1e6),
        default=0.0,
        metavar="SHARE",
        help="draft forward per proposed token, as a share of a one-token step",
    )
    engine.add_argument(
        "--exclusive-prefill", action="store_true", help="a step with prompt tokens holds nothing else"
    )
    engine.add_argument(
        "--max-prefill-seqs",
        type=_positive("--max-prefill-seqs", high=2**31, whole=True),
        default=0,
        metavar="N",
        help="most requests admitted in one step; 0 = as many as the budget holds",
    )
    engine.add_argument(
        "--kv-cache-tokens",
        type=_positive("--kv-cache-tokens", high=2**53, whole=True),
        default=0,
        metavar="N",
        help="token pool per instance; admission reserves prompt and output; 0 = blocks alone limit",
    )
    out = p.add_argument_group("outputs")
    for flag, text in (
        ("--parquet", "per-request table with more columns"),
        ("--summary", "summary as a JSON object"),
        ("--steps", "every engine step: JSON, or parquet by suffix"),
        ("--chrome-trace", "engine steps and requests for chrome://tracing or Perfetto"),
        ("--plot", "page with timelines and distributions (PNG or PDF by suffix)"),
    ):
        out.add_argument(flag, type=Path, metavar="PATH", help=text)
    for flag, text in (
        ("--slo-ttft-ms", "longest acceptable time to first token, for goodput"),
        ("--slo-tpot-ms", "longest acceptable time per output token, for goodput"),
        ("--slo-e2e-ms", "longest acceptable time of a request, for goodput"),
    ):
        out.add_argument(flag, type=_positive(flag, zero=False), metavar="MS", help=text)
    out.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    out.add_argument(
        "--seed",
        type=_positive("--seed", high=2**32, whole=True),
        default=42,
        help="seed of random routing and acceptance (default: 42)",
    )


def parser() -> argparse.ArgumentParser:
    """The verb's own command line."""
    p = Parser(
        prog="servesweep simulate",
        description="Simulate a cluster of serving engines request by request. Flags marked per instance are defaults: "
        "an instance of the cluster configuration may set its own.",
    )
    groups = {
        "instance": p.add_argument_group("per instance"),
        "cluster": p.add_argument_group("cluster-wide"),
        "run": p.add_argument_group("inputs and outputs of a run"),
    }
    for field in FIELDS:
        if seeds_of(field):
            _add(groups[field.scope], field)
    _ours(p)
    return p


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parsed and cross-checked options. Raises UserError."""
    options = parser().parse_args(list(argv))
    if options.run_id is not None and (
        not SAFE_NAME.fullmatch(options.run_id) or options.run_id in (".", "..")
    ):
        raise UserError(
            "is not a safe file name",
            field="--run-id",
            value=options.run_id,
            allowed="letters, digits, _ . -",
        )
    if options.block_size < 1:
        raise UserError("must be at least 1", field="--block-size", value=options.block_size)
    if options.expert_routing_policy == "CUSTOM":
        raise UserError("names no policy of its own", field="--expert-routing-policy", value="CUSTOM")
    if (options.request_routing_policy == "CUSTOM") != (options.request_routing_function is not None):
        raise UserError(
            "CUSTOM and --request-routing-function go together",
            field="--request-routing-policy",
            value=options.request_routing_policy,
        )
    if options.enable_prefix_sharing and options.prefix_storage == "None":
        raise UserError("needs a second tier: --prefix-storage CPU or CXL", field="--enable-prefix-sharing")
    return options
