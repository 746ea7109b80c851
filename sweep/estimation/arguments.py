"""The command line of `servesweep estimate`, made from the registry."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from typing import Any

from sweep.arguments import Parser
from sweep.estimation.given import GROUP_TP, Given, from_flag, from_override, refuse_contradictions
from sweep.fields import SAME, Field, Seed
from sweep.fields.run import FIDELITIES
from sweep.inputs_page import default_text
from sweep.schema import ALL_FIELDS

PLAIN_SHOWN = {
    "parallelism.pp": "--pp",
    "parallelism.moe_ep": "--ep",
    "parallelism.cp": "--cp",
    "parallelism.attention_dp": "--attention-dp",
    "parallelism.moe_tp": "--moe-tp",
    "engine.engine": "--engine",
    "engine.engine_version": "--engine-version",
    "engine.max_num_seqs": "--max-num-seqs",
    "workload.isl": "--isl",
    "workload.osl": "--osl",
    "workload.concurrency": "--concurrency",
    "price.utilization": "--utilization",
    "fidelity.operator_profiles": "--operator-profiles",
}
"""Fields with a plain option of their own in the help; every other field takes --its-name too."""

EPILOG = """\
\u2691 marks what changes an answer most often. Every other input takes --its-name or a trailing group.key=value
(`servesweep flags` lists them all). TP given by --tp, INFERASIM_TP or YAML is the compatible tool's: --attention-dp-size divides
it and adds no GPUs; --attention-dp and parallelism.* are the widths of one definition, gpus = tp x attention_dp x pp x cp.
Environment: INFERASIM_TP, _EP, _PP, _CP, _VP, _MODEL, _GPU_ARCH, _ANCHOR_STORE."""


class EstimateParser(Parser):
    """Titles of option groups are questions: argparse's colon after them goes."""

    def format_help(self) -> str:
        return super().format_help().replace("?:\n", "?\n")


class Collect(argparse.Action):
    """Keeps every option with the name under which it was written, in order."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.given.append((option_string, self.const if self.nargs == 0 else values))


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[Given]]:
    """Options of the verb itself, and the values given for inputs."""
    parser = build()
    namespace = argparse.Namespace(given=[])
    options = parser.parse_args(list(argv), namespace)
    names = {option: key for key, option in _plain_options().items()}
    givens: list[Given] = []
    for option, value in options.given:
        if option == "--model":
            givens.append(Given("model.name", value, option))
        elif option == "--hardware":
            givens.append(Given("hardware.name", value, option))
        elif option == GROUP_TP:
            givens.append(from_flag("INFERASIM_TP", value, GROUP_TP))
        elif option in names:
            givens.append(Given(names[option], value, option))
        else:
            givens.append(from_flag(option, value))
    givens += [from_override(text) for text in options.overrides]
    refuse_contradictions(givens)
    return options, givens


def _plain_options() -> dict[str, str]:
    """Key -> plain option, for every input that has no flag of that name already."""
    taken = {s.flag for f in ALL_FIELDS for s in f.seeds} | {GROUP_TP, "--model", "--hardware", "--fidelity"}
    options = dict(PLAIN_SHOWN)
    for field in ALL_FIELDS:
        option = "--" + field.name.replace("_", "-")
        if field.kind != "text" and field.scope != "run" and option not in taken and field.key not in options:
            options[field.key] = option
            taken.add(option)
    return options


def build() -> Parser:
    """The parser; options in groups by the question they answer."""
    width = min(shutil.get_terminal_size().columns, 120)
    parser = EstimateParser(
        prog="servesweep estimate",
        usage="servesweep estimate --model NAME --hardware NAME [options] [group.key=value ...]",
        description="One deployment with its full breakdown: memory, latency, throughput, cost.",
        epilog=EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=36, width=width
        ),
    )
    groups: dict[str, Any] = {}
    plain = _plain_options()
    for field in ALL_FIELDS:
        seeds = [s for s in field.seeds if s.spec == "inferasim" and s.flag.startswith("--")]
        shown = bool(seeds) or field.key in PLAIN_SHOWN
        shown = shown or field.key in ("model.name", "parallelism.tp")
        if field.question not in groups and shown:
            groups[field.question] = parser.add_argument_group(field.question)
        group = groups.get(field.question, parser)
        if field.key == "model.name":
            _add_names(group)
        if field.key == "parallelism.tp":
            group.add_argument(
                GROUP_TP, action=Collect, metavar="N", help="\u2691 " + _help(field, field.default)
            )
        _add(group, field, seeds, plain.get(field.key))
    own = parser.add_argument_group("What is printed?")
    own.add_argument("--json", action="store_true", help="one object, for programs")
    own.add_argument(
        "--fidelity", choices=FIDELITIES, default=None, help="what prices an operator (default: fitted)"
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=argparse.SUPPRESS)
    return parser


def _add_names(group: Any) -> None:
    group.add_argument(
        "--model",
        action=Collect,
        metavar="NAME",
        help="\u2691 catalogue name, Hugging Face id, or path of a config.json",
    )
    group.add_argument(
        "--hardware", action=Collect, metavar="NAME", help="\u2691 accelerator, by any usual spelling"
    )


def _add(group: Any, field: Field, seeds: Sequence[Seed], plain: str | None) -> None:
    names = [s.flag for s in seeds if not s.hidden]
    hidden = [s.flag for s in seeds if s.hidden]
    if plain is not None:
        (names if field.key in PLAIN_SHOWN else hidden).append(plain)
    default = next((s.default for s in seeds if s.default is not SAME), field.default)
    mark = "\u2691 " if field.regime else ""
    for options, text in ((names, mark + _help(field, default)), (hidden, argparse.SUPPRESS)):
        switches = [o for o in options if field.kind == "bool"]
        valued = [o for o in options if field.kind != "bool"]
        if switches:
            group.add_argument(*switches, action=Collect, nargs=0, const=True, help=text)
        if valued:
            group.add_argument(*valued, action=Collect, metavar=_metavar(field, seeds), help=text)


def _metavar(field: Field, seeds: Sequence[Seed]) -> str:
    words = [word for s in seeds for word, _ in s.values]
    if words:
        return "{" + ",".join(dict.fromkeys(words)) + "}"
    if field.kind == "choice":
        return "{" + ",".join(field.choices) + "}" if len(field.choices) <= 6 else "NAME"
    return {"int": "N", "float": "X", "path": "FILE"}.get(field.kind, "TEXT")


def _help(field: Field, default: Any) -> str:
    text = default_text(field) if default == field.default or default is None else f"{default}"
    if default is None and field.default is None:
        text = f"auto: {field.auto}" if field.auto else "auto"
    unit = f" [{field.unit}]" if field.unit else ""
    shown = f" (default: {text})" if field.default != "" else ""
    return f"{field.doc}{unit}{shown}".replace("%", "%%")
