"""One deployment priced by measured operator tables: its benchmark replayed with steps looked up in a profile bundle.

The lookups are the simulator's (`kernels.tables`): linear interpolation on the profiler's grid. The closed form's answer is
scaled to the replay's TTFT and TPOT, so that throughput, cost and the split of a step follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.dtypes import NAMES
from kernels.layout import N_OUT
from kernels.reasons import OK
from sweep.anchors.apply import scale
from sweep.catalog.hardware import hardware, resolve_hardware
from sweep.catalog.models import resolve_model
from sweep.errors import UserError
from sweep.evaluation import Evaluated
from sweep.records import Records
from sweep.simulate.cluster import parse_cluster
from sweep.simulate.command import SEQUENCE_OVERHEAD_US
from sweep.simulate.deployment import Deployment, deployment, simulate_deployment
from sweep.simulate.instances import Defaults, Pricing, build_instances
from sweep.simulate.world import Instance

FLAG = "--operator-profiles"
NS_PER_US = 1e3
SCHEDULER = (
    *"max_seqs budget chunked threshold block_size n_blocks reserve exclusive_prefill max_prefill_seqs".split(),
    *"kv_pool_tokens spec_tokens spec_acceptance draft_cost".split(),
)
"""What the closed form decides of an engine; the rest of an instance is the bundle's."""


@dataclass(frozen=True)
class TablePriced(Deployment):
    """A deployment whose steps are looked up: `bundle` is (root, accelerator folder, model folder)."""

    bundle: tuple[Path, str, str]

    def instance(self) -> Instance:
        """One engine with the closed form's scheduler and capacity, priced by the bundle."""
        own = super().instance().settings
        root, accelerator, model = self.bundle
        cluster = parse_cluster(_cluster(self.p, accelerator, model), str(root))
        defaults = Defaults(dtype=NAMES[int(self.d["mlp_dtype"])], kv_cache_dtype=_kv_word(self.d))
        pricing = Pricing(profiles=root, extra=(("sequence_overhead_ns", SEQUENCE_OVERHEAD_US * NS_PER_US),))
        instance = build_instances(cluster, defaults, pricing)[0].instance
        longest = int(instance.settings["max_len"])
        instance.settings |= {name: own[name] for name in SCHEDULER}
        instance.settings["budget"] = min(int(own["budget"]), longest)
        return instance


def _kv_word(d: Any) -> str:
    kv, weights = NAMES[int(d["kv_dtype"])], NAMES[int(d["mlp_dtype"])]
    return "auto" if kv in (weights, "bfloat16") else kv


def _cluster(p: Any, accelerator: str, model: str) -> dict[str, Any]:
    """A cluster of one engine: links and memory of the accelerator as the model has them."""
    experts = {"ep_size": int(p["moe_ep"])} if p["n_experts"] > 0 and p["moe_ep"] > 1 else {}
    engine = {
        "model_name": model,
        "hardware": accelerator,
        "npu_mem": {"mem_size": float(p["hbm_gib"]), "mem_bw": float(p["hbm_gb_s"])},
        "num_npus": int(p["tp"] * p["pp"]),
        "tp_size": int(p["tp"]),
        "pp_size": int(p["pp"]),
        "pd_type": None,
        **experts,
    }
    return {
        "num_nodes": 1,
        "link_bw": float(p["link_gb_s"]),
        "link_latency": float(p["link_latency_us"]) * NS_PER_US,
        "nodes": [
            {
                "num_instances": 1,
                "cpu_mem": {"mem_size": 512, "mem_bw": 256, "mem_latency": 0},
                "instances": [engine],
            }
        ],
    }


def bundle_of(root: Path, model: str, accelerator: str) -> tuple[Path, str, str]:
    """The folders of a model (catalogue name) on an accelerator, by any usual spelling. Raises UserError."""
    if not root.is_dir():
        raise UserError("is not a folder", field=FLAG, value=root)
    places = [
        (one.name, f"{owner.name}/{name.name}")
        for one in sorted(p for p in root.iterdir() if p.is_dir())
        for owner in sorted(p for p in one.iterdir() if p.is_dir())
        for name in sorted(p for p in owner.iterdir() if p.is_dir())
    ]
    named = ((*place, _name(resolve_hardware, place[0]), _name(resolve_model, place[1])) for place in places)
    found = next(((one, name) for one, name, a, m in named if (a, m) == (accelerator, model)), None)
    if found is None:
        there = ", ".join(f"{one}/{name}" for one, name in places[:8]) or "no bundle"
        raise UserError(
            f"no operator profile of {model} on {accelerator}", field=FLAG, value=root, allowed=there
        )
    return (root, *found)


def _name(resolve: Callable[[str], Any], text: str) -> str | None:
    try:
        return str(resolve(text).name)
    except UserError:
        return None


def priced_by_tables(
    root: Path, model: str, accelerator: str, record: Records, evaluated: Evaluated, coefficients: Any
) -> str:
    """Scale the results in place to a replay with looked-up steps; the note that says what priced them.

    Raises UserError where no bundle is there, or for deployments that a replay does not cover.
    """
    if evaluated.results["reason"][0] != OK:
        return ""
    p = record[0]
    if p["attention_dp"] > 1 or p["cp"] > 1:
        raise UserError(
            "tables price one engine: attention DP and CP of 1", field="--fidelity", value="tables"
        )
    bundle = bundle_of(root, model, accelerator)
    one = deployment(record, coefficients)
    priced = TablePriced(one.record, one.derived, one.coefficients, bundle)
    figures = simulate_deployment(priced)
    if "ttft_ms" not in figures:
        raise UserError("no request of the replay finished", field=FLAG, value=root)
    results = evaluated.results.view(np.float64).reshape(-1, N_OUT)
    ttft, tpot = (np.array([figures[n] / evaluated.results[n][0]]) for n in ("ttft_ms", "tpot_ms"))
    scale(results, ttft, tpot, record["load"])
    family = str(hardware(accelerator).fields["family"])
    return (
        f"operator times: tables of {bundle[1]}/{bundle[2]} ({family}), steps looked up in a replay of "
        f"{figures['requests']:.0f} requests; collectives by link bandwidth"
    )
