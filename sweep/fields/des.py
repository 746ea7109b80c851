"""What only the discrete-event simulator reads (group `des`)."""

from __future__ import annotations

from typing import Any

from sweep.fields.columns import SIMULATED
from sweep.fields.spec import Field, Seed

_Q = "How is it simulated?"
_W = "What load?"
ROUTING = ("round_robin", "random", "prefix_aware", "kv")


def _knob(key: str, doc: str, kind: str, *flags: str, **more: Any) -> Field:
    """A knob that the simulator alone reads."""
    more.setdefault("moves", SIMULATED)
    more.setdefault("question", _Q)
    zero = {"zero": more.pop("zero")} if "zero" in more else {}
    seeds = tuple(Seed("inferasim", flag, **zero) for flag in flags)
    return Field(key=f"des.{key}", doc=doc, kind=kind, column=False, seeds=seeds, **more)  # type: ignore[arg-type]


FIELDS = (
    _knob(
        "top",
        "Frontier candidates of a sweep that are simulated request by request, with their neighbours on the grid; 0 = none. "
        "Moves nothing: the sweep's own figures stay, the simulation's join them.",
        "int",
        default=0,
        low=0,
        scope="run",
        moves=(),
    ),
    _knob("num_requests", "Synthetic requests to simulate.", "int", "--des-num-requests", default=400, low=1),
    _knob(
        "seed",
        "Seed of arrivals, lengths and acceptance; replica i of a fleet uses seed + i.",
        "int",
        "--des-seed",
        default=0,
        low=0,
        high=2**32,
    ),
    _knob(
        "load_curve",
        "Whether to simulate a curve of offered loads (0.3 to 0.95 of the sustainable rate) beside the configured one.",
        "bool",
        "--des-sweep",
        default=False,
    ),
    _knob(
        "workload_file",
        "Requests to replay: JSON list or CSV with arrival, isl, osl.",
        "path",
        "--des-workload-file",
        auto="synthetic requests",
        question=_W,
    ),
    _knob(
        "mooncake_trace",
        "Trace with hash ids of prompt blocks to replay.",
        "path",
        "--des-mooncake-trace",
        auto="synthetic requests",
        question=_W,
    ),
    _knob(
        "instances",
        "Replicas behind the router; the rate is offered to all of them together.",
        "int",
        "--des-instances",
        default=1,
        low=1,
    ),
    _knob(
        "routing",
        "How the router picks a replica; load is seen live.",
        "choice",
        "--des-routing",
        choices=ROUTING,
        default="round_robin",
    ),
    _knob(
        "num_prefixes",
        "Distinct shared prefixes of the synthetic requests; 0 = none shared.",
        "int",
        "--des-num-prefixes",
        default=0,
        low=0,
        question=_W,
    ),
    _knob(
        "prefix_len",
        "Length of a shared prefix.",
        "int",
        "--des-prefix-len",
        low=0,
        unit="tokens",
        auto="half the prompt where prefixes are shared",
        question=_W,
        zero=None,
    ),
    _knob(
        "prefix_zipf",
        "Zipf exponent of the popularity of prefixes; 0 = all alike.",
        "float",
        "--des-prefix-zipf",
        default=0.0,
        low=0,
        question=_W,
    ),
    _knob(
        "prefix_block_size",
        "Tokens per block of the simulated prefix cache.",
        "int",
        "--des-block-size",
        default=512,
        low=1,
        unit="tokens",
    ),
    _knob(
        "kv_blocks",
        "Blocks of the simulated prefix cache per replica.",
        "int",
        "--des-kv-blocks",
        "--des-cache-slots",
        low=1,
        unit="blocks",
        auto="no bound",
        zero=None,
    ),
    _knob(
        "warmup_frac",
        "Share of requests, in order of completion, left out of the reported distribution. Moves nothing that is "
        "modelled: a convention of the report.",
        "float",
        "--des-warmup-frac",
        default=0.1,
        low=0,
        high=0.9,
        moves=(),
    ),
    _knob(
        "dump_steps",
        "File for the composition of every simulated step. Moves nothing: an output.",
        "path",
        "--des-dump-steps",
        auto="not written",
        moves=(),
    ),
)
