"""Deployments for tests: by short names over the catalogue, priced in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.catalog.hardware import hardware_index, resolve_hardware
from sweep.catalog.models import resolve_model
from sweep.evaluation import Evaluated, evaluate
from sweep.fidelity import coefficients_for
from sweep.fields import by_name
from sweep.fields.expectations import BASE
from sweep.records import default_records, set_values


def record_of(**values: Any) -> np.ndarray:
    """The input record (shape (1,)) of a deployment; `model` and `hardware` name catalogue entries, None is auto."""
    values = {**BASE, **values}
    known = by_name()
    record = default_records(1)
    model, hardware = resolve_model(values.pop("model")), resolve_hardware(values.pop("hardware"))
    for group, fields in (("model", model.fields), ("hardware", hardware.fields)):
        set_values(record[0], {n: v for n, v in fields.items() if n in known and known[n].group == group})
    record["hardware_index"] = hardware_index(hardware.name)
    set_values(record[0], values)
    for name in [n for n, v in values.items() if v is None]:
        record[name] = np.nan
    return record


def priced(*deployments: dict[str, Any], fidelity: str = "fitted") -> np.ndarray:
    """Results (kernels.layout.RESULT) of deployments, one row each."""
    return evaluated(*deployments, fidelity=fidelity).results


def evaluated(*deployments: dict[str, Any], fidelity: str = "fitted") -> Evaluated:
    """Results and derived records of deployments."""
    return evaluate(np.concatenate([record_of(**d) for d in deployments]), coefficients_for(fidelity))


def swept(name: str, values: Any, **setting: Any) -> np.ndarray:
    """Results of one deployment over values of one input."""
    return priced(*({**setting, name: value} for value in values))
