"""Whether kernels are compiled, or run as plain Python (`SERVESWEEP_JIT=0`: coverage, debugging)."""

import os
from typing import Any

import numpy as np

ENABLED = os.environ.get("SERVESWEEP_JIT", "1") != "0"


def record_type(dtype: Any) -> Any:
    """The dtype of records whose elements have attributes, also where kernels run as plain Python."""
    return np.dtype(dtype) if ENABLED else np.dtype((np.record, np.dtype(dtype)))
