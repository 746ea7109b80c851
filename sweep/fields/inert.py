"""Inputs that cannot change any result of a run, and why: accepted, reported, never silent.

A rule names inputs and what they need to matter. It sees, per kernel column, every value that the run gives it (one for a
single deployment, the axis's values for a grid): an input is inert where no combination can meet the need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from sweep.fields import by_key, by_name
from sweep.fields.engine import GRAPH_MODES
from sweep.fields.readers import needs_verb
from sweep.fields.workload import LOADS

Possible = Mapping[str, Collection[float]]
"""Kernel column -> the values it takes in a run, encoded (NaN is auto)."""


@dataclass(frozen=True)
class Rule:
    """`keys` matter only where `alive` holds; `needs` says so in words."""

    keys: tuple[str, ...]
    needs: str
    alive: Callable[[Possible], bool]


def _above(column: str, bound: float) -> Callable[[Possible], bool]:
    return lambda possible: any(v > bound for v in possible[column])


def _given(column: str) -> Callable[[Possible], bool]:
    return lambda possible: any(not math.isnan(v) for v in possible[column])


def _is(column: str, code: int) -> Callable[[Possible], bool]:
    return lambda possible: code in possible[column]


def _any(*conditions: Callable[[Possible], bool]) -> Callable[[Possible], bool]:
    return lambda possible: any(condition(possible) for condition in conditions)


def _all(*conditions: Callable[[Possible], bool]) -> Callable[[Possible], bool]:
    return lambda possible: all(condition(possible) for condition in conditions)


def _group(group: str, *but: str) -> tuple[str, ...]:
    return tuple(key for key in by_key() if key.startswith(f"{group}.") and key not in but)


def _keys(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_EXPERTS = _above("n_moe_layers", 0)
_POOLS = _above("disaggregate", 0)
_OPEN = _is("load", LOADS.index("rate"))
_WINDOW = _any(_above("window_tokens", 0), _above("sliding_window", 0))
_WIDE = _any(
    _above("tp", 1), _above("attention_dp", 1), _above("prefill_tp", 1), _above("decode_tp", 1),
    _above("prefill_attention_dp", 1), _above("decode_attention_dp", 1),
)  # fmt: skip
_PIPELINE = _any(_above("pp", 1), _above("prefill_pp", 1), _above("decode_pp", 1))
_RANKS = _any(
    _above("moe_ep", 1), _above("attention_dp", 1), _above("prefill_moe_ep", 1), _above("decode_moe_ep", 1)
)
_EAGER = _is("cudagraph_mode", GRAPH_MODES.index("none"))

RULES = (
    Rule(
        (
            *_group("moe"),
            *_keys(
                "parallelism.moe_ep parallelism.moe_tp precision.expert_dtype precision.shared_dtype "
                "precision.router_dtype comms.ep_a2a_algo comms.ep_a2a_efficiency comms.enable_deepep "
                "comms.sync_free_stage"
            ),
        ),
        "a model with experts",
        _EXPERTS,
    ),
    Rule(
        _keys(
            "moe.ep_load_balance moe.redundant_experts comms.ep_a2a_algo comms.ep_a2a_efficiency comms.enable_deepep comms.sync_free_stage"
        ),
        "expert parallelism (moe_ep > 1)",
        _RANKS,
    ),
    Rule(_group("disagg", "disagg.disaggregate"), "disagg.disaggregate=true", _POOLS),
    Rule(
        _keys("speculation.speculative_acceptance_rate speculation.speculative_draft_cost_factor"),
        "draft tokens (speculative_num_tokens > 0)",
        _above("speculative_num_tokens", 0),
    ),
    Rule(
        _keys(
            "parallelism.virtual_stages parallelism.pipeline_schedule parallelism.enable_zero_bubble "
            "parallelism.micro_batch_size parallelism.global_batch_size"
        ),
        "a pipeline (pp > 1)",
        _PIPELINE,
    ),
    Rule(
        _keys(
            "comms.tp_allreduce_algo comms.tp_allreduce_efficiency comms.quick_reduce comms.fuse_rmsnorm_allreduce "
            "comms.prefill_comm_overlap comms.decode_comm_overlap"
        ),
        "a tensor- or expert-parallel group of more than one GPU",
        _WIDE,
    ),
    Rule(
        _keys("comms.comm_model parallelism.target_nodes cluster.scale_up_gpus cluster.interconnect"),
        "a deployment of more than one GPU",
        _any(_WIDE, _PIPELINE),
    ),
    Rule(_keys("workload.request_rate workload.arrival workload.burstiness"), "load=rate", _OPEN),
    Rule(
        _keys("workload.decode_spread"),
        "load=closed_loop or load=saturation",
        _any(_is("load", LOADS.index("closed_loop")), _is("load", LOADS.index("saturation"))),
    ),
    Rule(
        _keys("workload.inference_batch_size"),
        "load=static or an unlimited token budget",
        _any(_is("load", LOADS.index("static")), _is("max_num_batched_tokens", 0)),
    ),
    Rule(
        _keys("attention.sliding_window_layer_fraction engine.window_in_decode"), "a model or input with a window", _WINDOW
    ),
    Rule(_keys("engine.kernel_launch_latency_us"), "cudagraph_mode=none", _EAGER),
    Rule(
        _keys("engine.kernels_per_layer"),
        "a launch floor without graphs, or a kernel occupancy",
        _any(
            _all(_EAGER, _above("kernel_launch_latency_us", 0)), _above("decode_kernel_occupancy_us", 0)
        ),
    ),
    Rule(
        _keys("host.sampling_top_k host.sampling_top_p host.sampling_temperature"),
        "sampling that is priced (host.sampling=true)",
        _above("sampling", 0),
    ),
    Rule(
        _keys("engine.kv_offload_gb_s"),
        "an offload tier and cached prompt tokens to fetch",
        _all(_above("kv_offload_gib_per_gpu", 0), _above("prefix_hit_rate", 0)),
    ),
    Rule(
        _keys("host.prefill_rate_us_per_token host.prefill_rate_lo_tokens host.prefill_rate_hi_tokens"),
        "a rate together with its span",
        _all(
            _given("prefill_rate_us_per_token"), _given("prefill_rate_lo_tokens"), _given("prefill_rate_hi_tokens")
        ),
    ),
    Rule(_keys("hardware.clock_mhz"), "a clock to compare with (gpu_clock_mhz)", _given("gpu_clock_mhz")),
    Rule(_keys("engine.mixed_batch_penalty"), "continuous batching", lambda p: any(
        v != LOADS.index("static") for v in p["load"]
    )),
)  # fmt: skip

SIMULATOR_ONLY = "the discrete-event simulator"
DES = _group("des")


def simulators_own(key: str) -> bool:
    """Whether only simulations read an input: one of `des` or of `workload` that no kernel has a column for."""
    field = by_key()[key]
    return field.group == "des" or (field.group == "workload" and not field.column)


def inert(
    possible: Possible, keys: Iterable[str], *, verb: str, read: Collection[str] = ()
) -> dict[str, str]:
    """What each inert input of `keys` would need to matter to `verb`; `read` are the simulator's own inputs that this run reads.

    The keys of another verb (`demand.spare` in a sweep) need that verb; a run's settings and groups are told of only then.
    """
    found: dict[str, str] = {}
    for key in keys:
        needs = [needs_verb(key, verb)]
        field = by_key().get(key)
        if field is not None and field.moves:
            needs += [rule.needs for rule in RULES if key in rule.keys and not rule.alive(possible)]
            needs += [SIMULATOR_ONLY] if simulators_own(key) and key not in read else []
        if told := next(filter(None, needs), None):
            found[key] = told
    return found


def notes(inert_inputs: Mapping[str, str]) -> list[str]:
    """One line for each, as every verb tells it."""
    return [f"{name} changes nothing here: it needs {needs}" for name, needs in inert_inputs.items()]


def of_record(record: object) -> dict[str, tuple[float, ...]]:
    """`Possible` of one input record."""
    return {name: (float(record[name]),) for name in by_name()}  # type: ignore[index]
