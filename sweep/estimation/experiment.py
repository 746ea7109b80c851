"""Experiment YAML and hardware configuration of the compatible estimator: what serving reads of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweep.bounded import read_text
from sweep.bounded_yaml import parse_yaml
from sweep.errors import UserError
from sweep.estimation.given import CONFIG_NAMES, Given, flags, from_flag, from_name

MAX_BYTES = 1_000_000
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")
TRAINING_ONLY = ("micro_batch_size", "global_batch_size")
"""Names that mean a training run's batches in an experiment; as flags they are the pipeline's."""
DISAGGREGATE = ("disaggregate", "enabled")
REFERENCE_BANDWIDTH_SHARE = 0.70
"""The compatible tool's own share of link bandwidth: `bw_eff` counts relative to it, as fitted efficiencies apply too."""

Mappings = Mapping[str, Any]


def read(file: str | Path, environment: Mapping[str, str]) -> tuple[list[Given], list[str]]:
    """Values that serving reads from an experiment YAML, and notes on what it does not.

    `${NAME:default}` is replaced from the environment. Raises UserError for a file that is not of the form.
    """
    content = load(file, environment)
    trainer = _mapping(_mapping(content, "modules"), "pre_trainer") or content
    givens: list[Given] = []
    ignored: list[str] = []
    if trainer.get("model"):
        givens.append(Given("model.name", _stem(str(trainer["model"])), f"{file}: model"))
    for name, value in _mapping(trainer, "overrides").items():
        if value is None:
            continue
        if name in CONFIG_NAMES:
            givens.append(from_name(name, value, f"{file}: {name}"))
        elif name == "fp8":
            givens.append(Given("precision.linear_dtype", "fp8" if value else None, f"{file}: fp8"))
        else:
            ignored.append(str(name))
    for block in (_mapping(content, "inference"), _mapping(trainer, "inference")):
        givens += _inference(block, str(file), ignored)
    notes = []
    if ignored:
        notes.append(f"{file}: not read by serving: {', '.join(sorted(set(ignored)))}")
    return givens, notes


def load(file: str | Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The mapping in a YAML file, variables replaced. Raises UserError."""
    path = Path(file)
    text = read_text(path, MAX_BYTES)
    text = VARIABLE.sub(lambda m: environment.get(m[1]) or m[2] or "null", text)
    content = parse_yaml(text, str(file))
    if not isinstance(content, dict):
        raise UserError("holds no mapping", file=str(file))
    return content


def _inference(block: Mappings, file: str, ignored: list[str]) -> Iterator[Given]:
    """Values of an `inference:` block; `collective:` and `disaggregation:` inside are read alike."""
    for name, value in block.items():
        if value is None:
            continue
        flag = "--" + str(name).replace("_", "-")
        if name in ("collective", "disaggregation"):
            if name == "disaggregation" and isinstance(value, Mapping):
                value = {("disaggregate" if k in DISAGGREGATE else k): v for k, v in value.items()}
            yield from _inference(_checked(value, file, str(name)), file, ignored)
        elif name == "hardware_config" and isinstance(value, Mapping):
            givens, notes = hardware_values(value, file)
            yield from givens
            ignored += notes
        elif flag in flags():
            yield from_flag(flag, value, f"{file}: {name}")
        else:
            ignored.append(str(name))


def _mapping(parent: Mappings, name: str) -> Mappings:
    value = parent.get(name) if isinstance(parent, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _checked(value: Any, file: str, name: str) -> Mappings:
    if not isinstance(value, Mapping):
        raise UserError("is not a mapping", file=file, field=name, value=value)
    return value


def _stem(model: str) -> str:
    return model.removesuffix(".yaml").removesuffix(".yml")


def read_hardware(file: str | Path, environment: Mapping[str, str]) -> tuple[list[Given], list[str]]:
    """Values of a hardware configuration file, and notes on names without a counterpart."""
    givens, unread = hardware_values(load(file, environment), str(file))
    notes = [f"{file}: contained in the fitted collectives: {', '.join(unread)}"] if unread else []
    return givens, notes


def hardware_values(content: Mappings, file: str) -> tuple[list[Given], list[str]]:
    """Fields that the compatible tool's link figures set, and its names that have no counterpart.

    node_size -> domain and node; node_bw -> link, pod_bw x nics_per_node / node_size -> NIC per GPU, both x bw_eff / 0.70;
    node_lat, pod_lat -> latencies; node_topology -> interconnect.
    """
    numbers = {k: _number(v, file, str(k)) for k, v in content.items() if _is_number(v)}
    scale = numbers.get("bw_eff", REFERENCE_BANDWIDTH_SHARE) / REFERENCE_BANDWIDTH_SHARE
    node = numbers.get("node_size", 8.0)
    values: dict[str, tuple[str, Any]] = {}
    if "node_size" in numbers:
        values["hardware.node_gpus"] = ("node_size", node)
        values["cluster.scale_up_gpus"] = ("node_size", int(node))
    if "node_bw" in numbers:
        values["hardware.link_gb_s"] = ("node_bw", numbers["node_bw"] * scale)
    if "pod_bw" in numbers:
        per_gpu = numbers["pod_bw"] * numbers.get("nics_per_node", node) / node
        values["hardware.nic_gb_s"] = ("pod_bw", per_gpu * scale)
    if "node_lat" in numbers:
        values["hardware.link_latency_us"] = ("node_lat", numbers["node_lat"])
    if "pod_lat" in numbers:
        values["hardware.nic_latency_us"] = ("pod_lat", numbers["pod_lat"])
    if "node_topology" in content:
        values["cluster.interconnect"] = ("node_topology", content["node_topology"])
    read_names = {
        "node_size",
        "node_bw",
        "pod_bw",
        "bw_eff",
        "nics_per_node",
        "node_lat",
        "pod_lat",
        "node_topology",
    }
    givens = [Given(key, value, f"{file}: {name}") for key, (name, value) in values.items()]
    return givens, sorted(str(k) for k in content if k not in read_names)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float))


def _number(value: Any, file: str, name: str) -> float:
    if not 0.0 <= float(value) < 1e18:
        raise UserError("is out of range", file=file, field=name, value=value, allowed=">= 0")
    return float(value)
