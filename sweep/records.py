"""Input records for the kernels, built from named values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.fields import FIELDS, by_name, encode, record_dtype
from sweep.fields.check import checked

Records = npt.NDArray[Any]


@cache
def _defaults() -> Records:
    record = np.zeros(1, record_dtype())
    for field in FIELDS:
        if field.column:
            record[field.name] = encode(field, field.default)
    return record


def default_records(n: int) -> Records:
    """`n` input records, shape (n,), every field at its default (auto is NaN)."""
    return np.repeat(_defaults(), n)


def set_values(
    record: Any, values: Mapping[str, object], *, file: str | None = None, line: int | None = None
) -> None:
    """Write values by short name into one record, checked against the registry.

    Names without a kernel column are passed over; None leaves the field as it is. Raises `UserError` for a
    value that its field does not take.
    """
    fields = by_name()
    for name, value in values.items():
        if value is None:
            continue
        if name in fields:
            record[name] = encode(fields[name], checked(fields[name], value, file=file, line=line))
        elif name in record.dtype.names:
            record[name] = float(value)  # type: ignore[arg-type]
