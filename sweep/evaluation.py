"""Running the closed-form kernel over input records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.catalog.architecture import architecture_codes
from sweep.catalog.engine_layer import known_architectures
from sweep.fields import record_dtype


@dataclass(frozen=True)
class Evaluated:
    """Results and derived records, one per input record (kernels.layout.RESULT and DERIVED)."""

    results: npt.NDArray[Any]
    derived: npt.NDArray[Any]


def evaluate(records: npt.NDArray[Any], fitted: npt.NDArray[np.float64]) -> Evaluated:
    """Evaluate `records` (shape (n,), dtype `record_dtype()`) with `fitted`, a table of `coefficients_for`.

    Fills the records' lookup of the architecture. Raises ValueError for a table of other architectures.
    """
    known = known_architectures()
    if fitted.shape[0] != len(known):
        raise ValueError(f"{fitted.shape[0]} architectures in the table, {len(known)} known")
    records["architecture_index"] = architecture_codes(records, known)
    return evaluate_coded(records, fitted)


def evaluate_coded(records: npt.NDArray[Any], fitted: npt.NDArray[np.float64]) -> Evaluated:
    """Evaluate `records` whose lookups into `fitted` (architecture, hardware, engine, N_OPS, N_COEF) are filled."""
    from kernels.grid import evaluate_records
    from kernels.layout import DERIVED, REPLAY, RESULT
    from kernels.priced import PRICED

    n = records.shape[0]
    results = np.zeros(n, RESULT)
    derived = np.zeros(n, DERIVED)
    pools = np.zeros(2, record_dtype())
    flat = results.view(np.float64).reshape(n, -1)
    evaluate_records(
        records,
        derived,
        pools,
        np.zeros(2, DERIVED),
        np.zeros(2, PRICED),
        np.zeros(1, REPLAY),
        fitted,
        results,
        flat,
    )
    return Evaluated(results, derived)
